"""Grafana's dashboards and provisioning in ``collector-config/``, read as Grafana reads them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

GRAFANA: Final = Path(__file__).resolve().parents[2] / "collector-config" / "grafana"
"""Folder of Grafana's files."""

DASHBOARDS: Final = sorted((GRAFANA / "dashboards").glob("*.json"))
"""Files of the dashboards."""

_VARIABLE: Final = re.compile(r"\$\{(\w+)(?::\w+)?\}|\$(\w+)")


@dataclass(frozen=True, slots=True)
class Query:
    """
    One query of a panel, or of a variable.

    Args:
        where: The dashboard's file and the panel's title, or the variable's name.
        panel: The panel's document; empty for a variable.
        target: The query's document.
        text: PromQL, TraceQL, or ``label_values(…)``.
    """

    where: str
    panel: Mapping[str, Any]
    target: Mapping[str, Any]
    text: str

    @property
    def asks(self) -> str:
        """Type of the data source, ``prometheus`` or ``tempo``."""
        source = self.target.get("datasource", self.panel.get("datasource"))
        return source["type"]


def dashboards() -> dict[str, dict[str, Any]]:
    """Return every dashboard by its file name."""
    return {path.name: json.loads(path.read_text("utf-8")) for path in DASHBOARDS}


def queries() -> Iterator[Query]:
    """Yield the queries of all panels, in the order of the dashboards."""
    for name, dashboard in dashboards().items():
        for panel in dashboard["panels"]:
            for target in panel.get("targets", ()):
                where = f"{name}: {panel['title']} {target['refId']}"
                yield Query(where, panel, target, target.get("expr") or target["query"])


def datasources() -> dict[str, dict[str, Any]]:
    """Return every provisioned data source, by its uid."""
    return {
        each["uid"]: each
        for path in sorted((GRAFANA / "provisioning" / "datasources").glob("*.yaml"))
        for each in yaml.safe_load(path.read_text("utf-8"))["datasources"]
    }


def said(text: str, values: Mapping[str, str]) -> str:
    """
    Return a query with its variables replaced, as Grafana sends it.

    Args:
        text: The query.
        values: Value by variable, without ``$``; includes Grafana's own variables.

    Raises:
        KeyError: The text has another variable.
    """
    return _VARIABLE.sub(lambda found: values[found[1] or found[2]], text)
