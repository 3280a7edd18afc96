"""
SGLang's own API: ``meta_info``, in seconds.

``queue_time`` is the wait in the scheduler before the first forward pass, ``e2e_latency`` the time
from the request to its end. Prefill and decode are reported as timestamps of the server's clock:
``forward_entry_time``, ``prefill_finished_time``, ``request_finished_ts``. They cannot be compared
with the client's clock, but the difference of two of them is a duration.

SGLang's OpenAI routes do not send these fields.

Not tested against the real server, which needs an accelerator.
Source: SGLang, ``python/sglang/srt/observability/req_time_stats.py``,
``convert_to_output_meta_info``, and ``managers/tokenizer_manager.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from latspan._model.evidence._numbers import in_body, ns, number, numbers_in
from latspan._model.segments import ReportedTimings
from latspan._model.wire import ResponseMetadata

MARKERS: Final = frozenset({"meta_info"})
"""Body fields and headers; a response with SGLang's times has at least one of them."""


def read(response: ResponseMetadata) -> ReportedTimings | None:
    """Return SGLang's times, or ``None`` if the response has no ``e2e_latency``."""
    times = in_body(response, "meta_info")
    if times is None or number(times.get("e2e_latency")) is None:
        return None
    return ReportedTimings(
        system="sglang",
        queue_ns=ns(times.get("queue_time"), "s"),
        prefill_ns=_between(times, "forward_entry_time", "prefill_finished_time"),
        decode_ns=_between(times, "prefill_finished_time", "request_finished_ts"),
        total_ns=ns(times["e2e_latency"], "s"),
        raw=numbers_in(times),
    )


def _between(times: Mapping[str, Any], begin: str, end: str) -> int | None:
    began, ended = number(times.get(begin)), number(times.get(end))
    return None if began is None or ended is None else ns(ended - began, "s")
