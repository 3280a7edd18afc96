"""
Envoy: the header ``x-envoy-upstream-service-time``, in milliseconds.

It is what lay behind Envoy: the time of the host upstream and of the network to it, up to the
head of its answer. Envoy's own time is not in it. Many services run behind Envoy and hand the
header on, so it stands beside what other sources say.

Could not be exercised against the real proxy.
Source: Envoy documentation, "Router", HTTP headers.
"""

from __future__ import annotations

from typing import Final

from latspan._evidence._numbers import in_head, in_header, ns
from latspan._segments import ReportedTimings
from latspan._wire import Answer

__all__ = ["TOLD_BY", "read"]

_HEADER: Final = "x-envoy-upstream-service-time"

TOLD_BY: Final = frozenset({_HEADER})
"""What an answer of its has at least one of: fields of a body, or headers."""


def read(answer: Answer) -> ReportedTimings | None:
    """Return the time behind Envoy, or ``None`` where the header does not tell it."""
    said = in_header(answer, _HEADER)
    if said is None:
        return None
    head_ns, total_ns = in_head(answer, ns(said, "ms"))
    return ReportedTimings(system="envoy", head_ns=head_ns, total_ns=total_ns, raw={_HEADER: said})
