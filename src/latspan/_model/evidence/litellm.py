"""
LiteLLM's proxy: its headers, in milliseconds.

``x-litellm-overhead-duration-ms`` is the proxy's own time: its total minus the call to the
provider, so the time before and after that call. ``x-litellm-response-duration-ms`` is the total
since the proxy received the request; for a stream, up to the head. If the proxy does not have a
value, the header holds a word, which is not a number. Neither header includes the wait for a
process of the proxy that takes the request.

Not tested against the real proxy.
Source: LiteLLM documentation, "Response Headers" and "Latency Overhead Troubleshooting"; LiteLLM,
``litellm_core_utils/llm_response_utils/response_metadata.py``.
"""

from __future__ import annotations

from typing import Final

from latspan._model.evidence._numbers import in_head, in_header, ns
from latspan._model.segments import ReportedTimings
from latspan._model.wire import ResponseMetadata

_OVERHEAD: Final = "x-litellm-overhead-duration-ms"
_TOTAL: Final = "x-litellm-response-duration-ms"

MARKERS: Final = frozenset({_OVERHEAD, _TOTAL})
"""Body fields and headers; a response with LiteLLM's times has at least one of them."""


def read(response: ResponseMetadata) -> ReportedTimings | None:
    """Return the proxy's times, or ``None`` if the headers report none."""
    times = {
        name: value
        for name in (_OVERHEAD, _TOTAL)
        if (value := in_header(response, name)) is not None
    }
    if not times:
        return None
    head_ns, total_ns = in_head(response, ns(times.get(_TOTAL), "ms"))
    return ReportedTimings(
        system="litellm",
        gateway_ns=ns(times.get(_OVERHEAD), "ms"),
        head_ns=head_ns,
        total_ns=total_ns,
        raw=times,
    )
