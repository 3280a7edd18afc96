"""Queries to Grafana Tempo: a trace, a search in TraceQL, and TraceQL metrics."""

from __future__ import annotations

import urllib.parse
from dataclasses import dataclass
from typing import Any, Final

from google.protobuf.json_format import ParseDict
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from support.readback import get_json

Labels = dict[str, str | float]

_ID_DIGITS: Final = 32


@dataclass(frozen=True, slots=True)
class Tempo:
    """
    A running Tempo.

    Args:
        url: URL of its API, without a path.
    """

    url: str

    def trace(self, trace_id: str) -> TracesData:
        """Return the spans that Tempo has of a trace, possibly none."""
        # This is protobuf's JSON: its ids are base64, not hexadecimal as in OTLP's JSON.
        return ParseDict(self._get(f"/api/v2/traces/{trace_id}")["trace"], TracesData())

    def search(self, traceql: str, *, limit: int = 1_000) -> set[str]:
        """
        Return the ids of the traces that match a TraceQL query.

        Tempo finds a trace once it has received no span of it for 5 s.
        """
        found = self._get("/api/search", q=traceql, limit=limit)
        # Tempo omits leading zeros of an id.
        return {each["traceID"].zfill(_ID_DIGITS) for each in found["traces"]}

    def query(self, traceql: str, *, since: str = "1h") -> list[tuple[Labels, float]]:
        """Return the labels and values of a TraceQL metrics query over the time up to now."""
        found = self._get("/api/metrics/query", q=traceql, since=since)
        return [(_labels(each), each.get("value", 0.0)) for each in found.get("series", ())]

    def query_range(
        self, traceql: str, *, since: str = "1h", step: str = "10s"
    ) -> list[tuple[Labels, list[tuple[int, float]]]]:
        """
        Query TraceQL metrics over time.

        Returns:
            Labels of each series, and its samples: Unix milliseconds and a value.
        """
        found = self._get("/api/metrics/query_range", q=traceql, since=since, step=step)
        return [
            (
                _labels(each),
                [(int(at["timestampMs"]), at.get("value", 0.0)) for at in each["samples"]],
            )
            for each in found.get("series", ())
        ]

    def _get(self, path: str, **asked: str | int) -> Any:
        return get_json(f"{self.url}{path}?{urllib.parse.urlencode(asked)}")


def _labels(series: Any) -> Labels:
    """Return labels as plain values; in Tempo's JSON each value names its type."""
    plain: Labels = {}
    for label in series.get("labels", ()):
        ((_, value),) = label["value"].items()
        plain[label["key"]] = value
    return plain
