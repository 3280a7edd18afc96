"""
llama.cpp's server: ``timings`` in the last chunk, and headers that wait for a slot.

The server reports ``prompt_ms`` and ``predicted_ms`` as wall times of the slot: they include what
other requests of the same batch cost. It reports no queue time, but it sends the response headers
of a stream only when a slot takes the request, so the wait for them is the queue, together with
the network and every gateway on the way: an estimate.

Exercised against the real server (llama.cpp of November 2026, package ``xllamacpp``).
Source: llama.cpp, ``tools/server/README.md``, "timings", and ``server-task.cpp``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, cast

from latspan.segments import ReportedTimings
from latspan.units import from_unit
from latspan.wire import Answer

__all__ = ["read"]

_REQUIRED: Final = ("prompt_n", "prompt_ms", "predicted_n", "predicted_ms")


def read(answer: Answer) -> ReportedTimings | None:
    """Return the slot's timings, or ``None`` where the answer carries none of llama.cpp's."""
    for body in reversed(answer.bodies):
        timings = body.get("timings")
        if isinstance(timings, Mapping):
            return _reported(cast("Mapping[str, Any]", timings), streamed=answer.streamed)
    return None


def _reported(timings: Mapping[str, Any], *, streamed: bool) -> ReportedTimings | None:
    raw = {
        name: number for name, value in timings.items() if (number := _number(value)) is not None
    }
    if any(name not in raw for name in _REQUIRED):
        return None
    return ReportedTimings(
        system="llama_cpp",
        prefill_ns=from_unit(raw["prompt_ms"], "ms"),
        decode_ns=from_unit(raw["predicted_ms"], "ms"),
        queue_until_headers=streamed,
        raw=raw,
    )


def _number(value: object) -> float | None:
    """Return a finite number as one, anything else as nothing: a body may hold what it likes."""
    if not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
