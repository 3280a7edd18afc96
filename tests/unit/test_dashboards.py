"""Grafana's dashboards: whole, readable, and of names that latspan has."""

from __future__ import annotations

import json
import re
from itertools import combinations
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from latspan import semconv
from latspan._live.otel.export._metric_definitions import FORMS
from support.grafana import GRAFANA, Query, dashboards, datasources, queries

GUIDE: Final = Path(__file__).resolve().parents[2] / "docs" / "guides" / "grafana.md"

GRAFANAS_OWN: Final = {"__rate_interval", "__range"}

ALL: Final = dashboards()


def panels(dashboard: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what shows something: all but the rows between."""
    return [each for each in dashboard["panels"] if each["type"] != "row"]


def named(values: dict[str, Any]) -> Any:
    return pytest.mark.parametrize("dashboard", values.values(), ids=values.keys())


def test_there_are_two() -> None:
    assert [*ALL] == ["segments.json", "traces.json"]


@named(ALL)
def test_ids_are_unique(dashboard: dict[str, Any]) -> None:
    ids = [each["id"] for each in dashboard["panels"]]

    assert len(set(ids)) == len(ids)
    assert len({each["uid"] for each in ALL.values()}) == len(ALL)


@named(ALL)
def test_panels_stand_beside_one_another(dashboard: dict[str, Any]) -> None:
    """In the 24 columns that there are, and none on another."""
    places = [each["gridPos"] for each in dashboard["panels"]]

    assert all(place["x"] + place["w"] <= 24 for place in places)
    for one, other in combinations(places, 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        below = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or below, (one, other)


@named(ALL)
def test_every_panel_has_a_title_a_description_and_a_unit(dashboard: dict[str, Any]) -> None:
    """A title of its own, a description in sentences, a unit."""
    titles = [each["title"] for each in panels(dashboard)]
    assert len(set(titles)) == len(titles)

    for each in panels(dashboard):
        assert re.fullmatch(r"[A-Z].*\.", each["description"]), each["title"]
        assert each["fieldConfig"]["defaults"]["unit"], each["title"]


@named(ALL)
def test_every_data_source_is_provisioned(dashboard: dict[str, Any]) -> None:
    known = {uid: each["type"] for uid, each in datasources().items()}
    of_variables = [it for it in dashboard["templating"]["list"] if it["type"] == "query"]

    for each in (*panels(dashboard), *of_variables):
        source = each["datasource"]
        assert known[source["uid"]] == source["type"]


@named(ALL)
def test_variables_are_defined_and_used(dashboard: dict[str, Any]) -> None:
    """Those in queries, in titles, and in the questions of other variables."""
    defined = [each["name"] for each in dashboard["templating"]["list"]]
    texts = json.dumps([panels(dashboard), dashboard["templating"]])
    used = {one or other for one, other in re.findall(r"\$\{(\w+)|\$(\w+)", texts)}
    used -= {"__all"}

    assert len(set(defined)) == len(defined)
    assert used - GRAFANAS_OWN == set(defined)


@named(ALL)
def test_no_percentile_is_averaged(dashboard: dict[str, Any]) -> None:
    """Neither by PromQL nor in a legend."""
    text = json.dumps(dashboard)

    assert re.findall(r"\bavg\w*|\"mean\"|quantile_over_time", text) == []


def test_exemplars_lead_to_both_stores_of_traces() -> None:
    sources = datasources()
    found = sources["latspan-prometheus"]["jsonData"]["exemplarTraceIdDestinations"]

    assert [(each["name"], sources[each["datasourceUid"]]["type"]) for each in found] == [
        ("trace_id", "tempo"),
        ("trace_id", "jaeger"),
    ]


def in_prometheus(name: str) -> str:
    return name.replace(".", "_")


PROMETHEUS_NAMES: Final = {
    *(
        f"{it.name.replace('.', '_')}{'_seconds' if it.unit == 's' else ''}"
        for it in FORMS.values()
    ),
    *(
        in_prometheus(name) + "_total"
        for name in (semconv.METRIC_DROPPED, semconv.METRIC_CLAMPED, semconv.METRIC_SERIES_OVERFLOW)
    ),
    in_prometheus(semconv.METRIC_QUEUE_SIZE),
}
PROMETHEUS_LABELS: Final = {
    "service_name",
    *(
        in_prometheus(name)
        for name in (
            *semconv.SERIES_ATTRIBUTES.values(),
            *(semconv.LATSPAN_KIND, semconv.LATSPAN_METRIC),
            *(semconv.LATSPAN_SIGNAL, semconv.LATSPAN_REASON),
        )
    ),
}
SPAN_ATTRIBUTES: Final = {
    *(value for name, value in vars(semconv).items() if name.isupper() and isinstance(value, str)),
    semconv.segment_duration("retry"),
}


@pytest.mark.parametrize("query", list(queries()), ids=lambda query: query.where)
def test_names_are_latspans(query: Query) -> None:
    """Metrics, labels and attributes are those that leave latspan."""
    if query.asks == "tempo":
        found = set(re.findall(r"\bspan\.([\w.]+)", query.text))
        assert found
        assert found <= SPAN_ATTRIBUTES
        return
    assert set(re.findall(r"\b(\w+)\{", query.text)) <= PROMETHEUS_NAMES
    matched = re.findall(r"[{,](\w+)=", query.text)
    grouped = [
        each.strip() for by in re.findall(r"by \(([^)]*)\)", query.text) for each in by.split(",")
    ]
    assert matched
    assert {*matched, *filter(None, grouped)} <= PROMETHEUS_LABELS


def test_limits_of_doubles_are_doubles() -> None:
    """In TraceQL 2.5 is not more than 2, but more than 2.0."""
    compared = {
        name
        for query in queries()
        for name in re.findall(r"span\.latspan\.time_\w+ > \$(\w+)", query.text)
    }
    limits = {
        each["name"]: each["query"].split(",")
        for each in ALL["traces.json"]["templating"]["list"]
        if each["type"] == "custom"
    }

    assert compared == {"first_token", "token"}
    for name in compared:
        assert [each for each in limits[name] if not re.fullmatch(r"\d+\.\d+", each)] == []


def test_native_histograms_are_asked_without_buckets() -> None:
    assert [each.where for each in queries() if re.search(r"\ble\b|_bucket\b", each.text)] == []


@named(ALL)
def test_the_guide_has_every_panel(dashboard: dict[str, Any]) -> None:
    told = set(re.findall(r"^\| ([^|]+?) \|", GUIDE.read_text("utf-8"), re.MULTILINE))

    assert {each["title"].replace("$", "") for each in panels(dashboard)} <= told


def test_dashboards_are_provisioned_from_their_folder() -> None:
    """Where the compose file puts it."""
    (file,) = (GRAFANA / "provisioning" / "dashboards").glob("*.yaml")
    (provider,) = yaml.safe_load(file.read_text("utf-8"))["providers"]
    compose = yaml.safe_load((GRAFANA.parent / "compose.yaml").read_text("utf-8"))

    folder = provider["options"]["path"]
    assert f"./grafana/dashboards:{folder}:ro" in compose["services"]["grafana"]["volumes"]
