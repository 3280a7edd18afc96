"""
Fireworks: headers ``fireworks-*``, and the same names in ``perf_metrics``; in seconds.

``server-processing-time`` is the total time of the server, ``server-time-to-first-token`` its time
to the first token, and their difference is the decode. Dedicated deployments also report
``prefill-queue-duration`` and ``prefill-duration``. A response that is not streamed has all of them
in headers. The head of a stream has only the time to the first token; the last chunk has the others
if the request set ``perf_metrics_in_response``. Numbers in that chunk may be text.

Not tested against the real server. Its documentation does not state the unit; seconds are from
responses that others recorded. A time in milliseconds would be a thousand times too long, and
would be rejected.
Source: Fireworks documentation, "How to get performance metrics for streaming responses" and
the API reference of chat completions, ``perf_metrics_in_response``.
"""

from __future__ import annotations

from typing import Final

from latspan._model.evidence._numbers import in_body, in_header, ns, number, numbers_in
from latspan._model.segments import ReportedTimings
from latspan._model.wire import ResponseMetadata, as_number

_FIRST_TOKEN: Final = "server-time-to-first-token"
_TOTAL: Final = "server-processing-time"
_TIMES: Final = (_FIRST_TOKEN, _TOTAL, "prefill-queue-duration", "prefill-duration")
_HEADERS: Final = {name: f"fireworks-{name}" for name in _TIMES}

MARKERS: Final = frozenset({"perf_metrics", *_HEADERS.values()})
"""Body fields and headers; a response with Fireworks's times has at least one of them."""


def read(response: ResponseMetadata) -> ReportedTimings | None:
    """Return the times of Fireworks, or ``None`` if it has no total and no first token."""
    in_headers = {name: in_header(response, header) for name, header in _HEADERS.items()}
    in_last_chunk = in_body(response, "perf_metrics") or {}
    times: dict[str, float] = {}
    for name in _TIMES:
        value = _number(in_last_chunk.get(name))
        value = in_headers[name] if value is None else value
        if value is not None:
            times[name] = value
    if _FIRST_TOKEN not in times and _TOTAL not in times:
        return None
    first_token, total = times.get(_FIRST_TOKEN), times.get(_TOTAL)
    return ReportedTimings(
        system="fireworks",
        queue_ns=ns(times.get("prefill-queue-duration"), "s"),
        prefill_ns=ns(times.get("prefill-duration"), "s"),
        decode_ns=None if first_token is None or total is None else ns(total - first_token, "s"),
        # A stream with this header sends its head only after the first token.
        head_ns=ns(in_headers[_FIRST_TOKEN], "s") if response.streamed else None,
        total_ns=ns(total, "s"),
        raw=numbers_in(times),
    )


def _number(value: object) -> float | None:
    return as_number(value) if isinstance(value, str) else number(value)
