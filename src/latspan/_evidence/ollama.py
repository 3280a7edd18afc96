"""
Ollama's own API: durations in nanoseconds, in the body or in the chunk that says ``done``.

``load_duration`` runs from the request to when a loaded model is at hand, so it holds the wait
for a place in memory too. ``prompt_eval_duration`` and ``eval_duration`` are the runner's times
for prompt and generation; one that is zero is left out. ``total_duration`` is all of it, and what
it has beyond the others is the wait for a slot of the runner, and Ollama's own work.

On Ollama's OpenAI route there are none of them: its ``usage`` counts tokens.

Could not be exercised against the real server, which is not to be had where latspan is tested.
Source: Ollama, ``docs/api/usage.mdx`` and ``server/routes.go``, of August 2026.
"""

from __future__ import annotations

from typing import Final

from latspan._evidence._numbers import ns, number, numbers_in
from latspan._segments import ReportedTimings
from latspan._wire import Answer

__all__ = ["TOLD_BY", "read"]

_FIELDS: Final = ("total_duration", "load_duration", "prompt_eval_duration", "eval_duration")

TOLD_BY: Final = frozenset({"total_duration"})
"""What an answer of its has at least one of: fields of a body, or headers."""


def read(answer: Answer) -> ReportedTimings | None:
    """Return Ollama's durations, or ``None`` where the answer carries none of them."""
    for body in reversed(answer.bodies):
        if "total_duration" not in body:
            continue
        said = {name: value for name in _FIELDS if (value := number(body.get(name))) is not None}
        if "total_duration" in said and "load_duration" in said:
            return ReportedTimings(
                system="ollama",
                model_load_ns=ns(said["load_duration"], "ns"),
                prefill_ns=ns(said.get("prompt_eval_duration"), "ns"),
                decode_ns=ns(said.get("eval_duration"), "ns"),
                total_ns=ns(said["total_duration"], "ns"),
                raw=numbers_in(said),
            )
    return None
