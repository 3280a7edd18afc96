"""
llama.cpp's server: ``timings`` in the last chunk, and headers that wait for a slot.

The server reports ``prompt_ms`` and ``predicted_ms`` as wall times of the slot: they include what
other requests of the same batch cost. It reports no queue time, but it sends the response headers
of a stream only when a slot takes the request, so the wait for them is the queue, together with
the network and every gateway on the way that does not report: an estimate.

Exercised against the real server (llama.cpp of November 2026, package ``xllamacpp``).
Source: llama.cpp, ``tools/server/README.md``, "timings", and ``server-task.cpp``.
"""

from __future__ import annotations

from typing import Final

from latspan._evidence._numbers import in_body, ns, number, numbers_in
from latspan._segments import ReportedTimings
from latspan._wire import Answer

__all__ = ["TOLD_BY", "read"]

_REQUIRED: Final = ("prompt_n", "prompt_ms", "predicted_n", "predicted_ms")

TOLD_BY: Final = frozenset({"timings"})
"""What an answer of its has at least one of: fields of a body, or headers."""


def read(answer: Answer) -> ReportedTimings | None:
    """Return the slot's timings, or ``None`` where the answer carries none of llama.cpp's."""
    timings = in_body(answer, "timings")
    if timings is None:
        return None
    said = [number(timings.get(name)) for name in _REQUIRED]
    if None in said:
        return None
    _, prompt_ms, _, predicted_ms = said
    return ReportedTimings(
        system="llama_cpp",
        prefill_ns=ns(prompt_ms, "ms"),
        decode_ns=ns(predicted_ms, "ms"),
        queue_until_headers=answer.streamed,
        raw=numbers_in(timings),
    )
