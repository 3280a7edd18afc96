"""Expected spans, in the form that ``spans_as_dict`` returns."""

from __future__ import annotations

from typing import Any

OUTCOME = ("error.type", "latspan.outcome")
"""The attributes that describe how a span ended."""


def span(
    name: str,
    kind: str,
    start_ms: float,
    end_ms: float,
    attributes: dict[str, Any],
    *children: dict[str, Any],
    status: str | None = None,
) -> dict[str, Any]:
    """Return a span in the form of ``spans_as_dict``."""
    described: dict[str, Any] = {
        "name": name,
        "kind": kind,
        "start_ms": start_ms,
        "end_ms": end_ms,
        "attributes": attributes,
    }
    if status is not None:
        described["status"] = status
    if children:
        described["children"] = list(children)
    return described


def segment(name: str, start_ms: float, end_ms: float) -> dict[str, Any]:
    """Return the span of a segment, without its attributes."""
    return span(name, "INTERNAL", start_ms, end_ms, {})


def call(
    start_ms: float,
    end_ms: float,
    outcome: str,
    *children: dict[str, Any],
    error_type: str | None = None,
) -> dict[str, Any]:
    """Return the span of a call, with the attributes in ``OUTCOME``."""
    attributes = {"latspan.outcome": outcome}
    if error_type is not None:
        attributes["error.type"] = error_type
    status = None if error_type is None else "ERROR"
    return span("chat m", "CLIENT", start_ms, end_ms, attributes, *children, status=status)
