"""
``gen_ai.latency.*``: attributes that vLLM and SGLang set on their own spans, seconds as doubles.

Such a span is not in a response; it is read from a trace that contains it. Both servers record the
time from the request's arrival as ``e2e``, and the time from the first token to the end as
``time_in_model_decode``. They differ in ``time_in_model_prefill``. vLLM's begins when the request
is scheduled, and ``time_in_queue`` is a separate attribute. SGLang's begins when the API server has
handed the request over, so it includes the queue, and there is no ``time_in_queue``. Therefore it
is read as prefill only if the queue is reported separately.

Tested against spans of the real vLLM 0.32, but not against SGLang's, which follow its source code.
Source: vLLM, ``vllm/v1/engine/output_processor.py``, ``do_tracing``; SGLang,
``python/sglang/srt/observability/req_time_stats.py``, ``convert_to_gen_ai_span_attrs``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from latspan import semconv
from latspan._model.evidence._numbers import ns, number, numbers_in
from latspan._model.segments import ReportedTimings


def read_span(attributes: Mapping[str, Any]) -> ReportedTimings | None:
    """
    Return the timings in a server's span, ``None`` if it has none.

    Args:
        attributes: Attributes of the span, by name.
    """
    times = {
        name.removeprefix(semconv.GEN_AI_LATENCY_PREFIX): value
        for name, value in attributes.items()
        if name.startswith(semconv.GEN_AI_LATENCY_PREFIX) and number(value) is not None
    }
    if not times:
        return None
    prefill = times.get("time_in_model_prefill") if "time_in_queue" in times else None
    return ReportedTimings(
        system="gen_ai_latency",
        queue_ns=ns(times.get("time_in_queue"), "s"),
        prefill_ns=ns(prefill, "s"),
        decode_ns=ns(times.get("time_in_model_decode"), "s"),
        total_ns=ns(times.get("e2e"), "s"),
        raw=numbers_in(times),
    )
