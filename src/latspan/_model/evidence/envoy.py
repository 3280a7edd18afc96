"""
Envoy: the header ``x-envoy-upstream-service-time``, in milliseconds.

The header is the time behind Envoy: that of the upstream host and of the network to it, up to the
head of the response. It does not include Envoy's own time. Many services run behind Envoy and pass
the header on, so it is read in addition to other sources.

Not tested against the real proxy.
Source: Envoy documentation, "Router", HTTP headers.
"""

from __future__ import annotations

from typing import Final

from latspan._model.evidence._numbers import in_head, in_header, ns
from latspan._model.segments import ReportedTimings
from latspan._model.wire import ResponseMetadata

_HEADER: Final = "x-envoy-upstream-service-time"

MARKERS: Final = frozenset({_HEADER})
"""Body fields and headers; a response with Envoy's time has at least one of them."""


def read(response: ResponseMetadata) -> ReportedTimings | None:
    """Return the time behind Envoy, or ``None`` if the header does not report it."""
    total_ms = in_header(response, _HEADER)
    if total_ms is None:
        return None
    head_ns, total_ns = in_head(response, ns(total_ms, "ms"))
    return ReportedTimings(
        system="envoy", head_ns=head_ns, total_ns=total_ns, raw={_HEADER: total_ms}
    )
