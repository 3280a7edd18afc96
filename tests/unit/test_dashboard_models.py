"""Grafana's own models of dashboards take ours, and refuse likely mistakes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Any, Final, cast, get_args, get_type_hints

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.cog.runtime import Runtime
from grafana_foundation_sdk.models.dashboard import Dashboard

from support.grafana import dashboards

ALL: Final = dashboards()

MODELS: Final = "grafana_foundation_sdk.models."

register_default_plugins()

each_dashboard = pytest.mark.parametrize("dashboard", ALL.values(), ids=ALL)


def lost(given: object, kept: object, at: str = "") -> Iterator[str]:
    """Yield where something stands that is not kept as it is."""
    if isinstance(given, dict) and isinstance(kept, dict):
        values = cast("dict[str, object]", kept)
        for name, value in cast("dict[str, object]", given).items():
            yield from lost(value, values.get(name, ...), f"{at}.{name}")
    elif isinstance(given, list) and isinstance(kept, list):
        ours, theirs = cast("list[object]", given), cast("list[object]", kept)
        for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from lost(one, other, f"{at}[{number}]")
    elif given != kept:
        yield at


def unlisted(model: object) -> Iterator[str]:
    """Yield values that are none of those that Grafana lists for their field."""
    if isinstance(model, list):
        for each in cast("list[object]", model):
            yield from unlisted(each)
        return
    kind: type[object] = type(model)
    if not kind.__module__.startswith(MODELS):
        return
    for name, hint in get_type_hints(kind).items():
        value = getattr(model, name)
        for listed in (hint, *get_args(hint)):
            if isinstance(listed, type) and issubclass(listed, StrEnum):
                yield from () if value is None or value in {*listed} else (f"{name}: {value}",)
        yield from unlisted(value)


def refused(dashboard: dict[str, Any]) -> list[str]:
    """
    Return what Grafana's own models of dashboards do not take.

    They leave out what they do not know, and of panels of a type that they do not know they take
    everything. What stands in overrides and transformations they do not look into.
    """
    types = {each["type"] for each in dashboard["panels"]} - {"row"}
    unknown = sorted(types - Runtime().panelcfg_variants.keys())
    model = Dashboard.from_json(dashboard)
    kept = json.loads(json.dumps(model, cls=JSONEncoder))
    return [*unknown, *unlisted(model), *lost(dashboard, kept)]


@each_dashboard
def test_grafanas_models_take_it(dashboard: dict[str, Any]) -> None:
    assert refused(dashboard) == []


def misspelt_panel(panel: dict[str, Any]) -> None:
    panel["descripton"] = panel.pop("description")


def misspelt_option(panel: dict[str, Any]) -> None:
    panel["options"]["showHeaders"] = panel["options"].pop("showHeader")


def misspelt_query(panel: dict[str, Any]) -> None:
    panel["targets"][0]["expresion"] = ""


def misspelt_custom(panel: dict[str, Any]) -> None:
    panel["fieldConfig"]["defaults"]["custom"]["alignment"] = "auto"


def wrong_type(panel: dict[str, Any]) -> None:
    panel["type"] = "tables"


def wrong_value(panel: dict[str, Any]) -> None:
    panel["options"]["cellHeight"] = "tiny"


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (misspelt_panel, "descripton"),
        (misspelt_option, "showHeaders"),
        (misspelt_query, "expresion"),
        (misspelt_custom, "alignment"),
        (wrong_type, "tables"),
        (wrong_value, "tiny"),
    ],
)
@each_dashboard
def test_a_mistake_is_refused(
    dashboard: dict[str, Any], spoil: Callable[[dict[str, Any]], None], says: str
) -> None:
    """In the first table of a copy."""
    copy = json.loads(json.dumps(dashboard))
    spoil(next(each for each in copy["panels"] if each["type"] == "table"))

    assert [each for each in refused(copy) if says in each]
