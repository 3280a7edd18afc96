"""
llama.cpp's server: ``timings`` in the last chunk, and response headers that wait for a slot.

The server reports ``prompt_ms`` and ``predicted_ms`` as wall times of the slot, so they include
the cost of other requests in the same batch. It does not report a queue time, but it sends the
response headers of a stream only when a slot takes the request. The wait for the headers is
therefore an estimate of the queue; it includes the network, and every gateway that does not report
its own time.

Tested against the real server (llama.cpp of November 2026, package ``xllamacpp``).
Source: llama.cpp, ``tools/server/README.md``, "timings", and ``server-task.cpp``.
"""

from __future__ import annotations

from typing import Final

from latspan._model.evidence._numbers import each_ns, in_body, number, numbers_in
from latspan._model.segments import ReportedTimings
from latspan._model.wire import ResponseMetadata

_COUNTS: Final = frozenset({"prompt_n", "predicted_n"})

MARKERS: Final = frozenset({"timings"})
"""Body fields and headers; a response with llama.cpp's timings has at least one of them."""


def read(response: ResponseMetadata) -> ReportedTimings | None:
    """Return the slot's timings, or ``None`` if the response does not have llama.cpp's."""
    timings = in_body(response, "timings")
    if timings is None:
        return None
    prefill_ns, decode_ns = each_ns("ms", timings.get("prompt_ms"), timings.get("predicted_ms"))
    if prefill_ns is None or decode_ns is None:
        return None
    raw = numbers_in(timings)
    # A count that is infinite, or behind too many fields, is a number that was not kept.
    if not raw.keys() >= _COUNTS and None in map(number, map(timings.get, _COUNTS)):
        return None
    return ReportedTimings(
        system="llama_cpp",
        prefill_ns=prefill_ns,
        decode_ns=decode_ns,
        queue_until_headers=response.streamed,
        raw=raw,
    )
