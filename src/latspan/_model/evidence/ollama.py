"""
Ollama's own API: durations in nanoseconds, in the body or in the chunk with ``done``.

``load_duration`` is the time from the request until a loaded model is available, so it includes
the wait for a place in memory. ``prompt_eval_duration`` and ``eval_duration`` are the runner's
times for prompt and decode; the server omits one that is zero. ``total_duration`` is the total. Its
remainder is the wait for a slot of the runner, and Ollama's own work.

Ollama's OpenAI route returns none of them: its ``usage`` counts tokens.

Not tested against the real server, which is not available where latspan is tested.
Source: Ollama, ``docs/api/usage.mdx`` and ``server/routes.go``, of August 2026.
"""

from __future__ import annotations

from typing import Final

from latspan._model.evidence._numbers import ns, number, numbers_in
from latspan._model.segments import ReportedTimings
from latspan._model.wire import ResponseMetadata

_FIELDS: Final = ("total_duration", "load_duration", "prompt_eval_duration", "eval_duration")

MARKERS: Final = frozenset({"total_duration"})
"""Body fields and headers; a response with Ollama's durations has at least one of them."""


def read(response: ResponseMetadata) -> ReportedTimings | None:
    """Return Ollama's durations, or ``None`` if the response lacks the total or the load."""
    for body in reversed(response.bodies):
        if "total_duration" not in body:
            continue
        times = {name: value for name in _FIELDS if (value := number(body.get(name))) is not None}
        if "total_duration" in times and "load_duration" in times:
            return ReportedTimings(
                system="ollama",
                model_load_ns=ns(times["load_duration"], "ns"),
                prefill_ns=ns(times.get("prompt_eval_duration"), "ns"),
                decode_ns=ns(times.get("eval_duration"), "ns"),
                total_ns=ns(times["total_duration"], "ns"),
                raw=numbers_in(times),
            )
    return None
