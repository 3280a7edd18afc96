"""
One response of each source, in that source's format, and the expected timings.

All describe the same call: 200 ms in a queue, 500 ms of prefill, 900 ms of generation, 1.7 s in
total, and 60 ms in a gateway.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from latspan._base.nanoseconds import NS_PER_MS
from latspan._live.instrument import Attempt
from latspan._model.segments import ReportedTimings
from latspan._model.timeline import CallObservation, Reads
from latspan._model.wire import ChunkKind, ResponseMetadata

MS = NS_PER_MS


@dataclass(frozen=True)
class Said:
    """
    One response of a source.

    Args:
        system: The source.
        read: The expected timings without raw values; times in milliseconds.
        body: Its body, or the chunk of a stream that contains the times.
        headers: Its headers.
        needs: Paths of the fields of the body that identify the source.
        streamed: Whether it came in chunks.
    """

    system: str
    read: Mapping[str, Any]
    body: Mapping[str, Any] = field(default_factory=dict[str, Any])
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    needs: tuple[tuple[str, ...], ...] = ()
    streamed: bool = False

    def answer(self) -> ResponseMetadata:
        """Return the response; a stream has one more chunk before and one after the times."""
        if not self.streamed:
            return ResponseMetadata(False, (self.body,), self.headers)
        chunk = {"choices": [{"delta": {"content": "word"}}]}
        return ResponseMetadata(True, (chunk, self.body, {"choices": []}), self.headers)

    def reported(self, raw: Mapping[str, float]) -> ReportedTimings:
        """Return the expected timings."""
        times = {
            name: value if isinstance(value, bool) else round(value * MS)
            for name, value in self.read.items()
        }
        return ReportedTimings(self.system, raw=raw, **times)

    def with_number(self, change: Callable[[float], Any]) -> Said:
        """Return the response with every number changed, including those in headers."""
        return Said(
            self.system,
            self.read,
            _changed(self.body, change),
            {name: _changed_text(value, change) for name, value in self.headers.items()},
            self.needs,
            self.streamed,
        )

    def without(self, path: tuple[str, ...], *instead: Any) -> Said:
        """Return the response with the value at ``path`` replaced or removed."""
        body = copy.deepcopy(dict(self.body))
        *way, name = path
        inner: Any = body
        for step in way:
            inner = inner[step]
        del inner[name]
        if instead:
            (inner[name],) = instead
        return Said(self.system, self.read, body, self.headers, self.needs, self.streamed)


def _changed(value: Any, change: Callable[[float], Any]) -> Any:
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return {name: _changed(inner, change) for name, inner in fields.items()}
    if isinstance(value, str) and ";dur=" in value:
        return _changed_text(value, change)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return change(value)
    return value


def _changed_text(value: str, change: Callable[[float], Any]) -> str:
    return re.sub(r"(?<![\w-])\d+(?:\.\d+)?", lambda found: str(change(float(found[0]))), value)


def under(*path: str, names: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """Return the paths of fields with a common parent."""
    return tuple((*path, name) for name in names)


_LLAMA = {"prompt_n": 12, "prompt_ms": 500.0, "predicted_n": 9, "predicted_ms": 900.0}
_VLLM = {
    "time_to_first_token_ms": 500.0,
    "generation_time_ms": 900.0,
    "queue_time_ms": 200.0,
    "mean_itl_ms": 112.5,
    "tokens_per_second": 6.4,
}
_GROQ = {"queue_time": 0.2, "prompt_time": 0.5, "completion_time": 0.9, "total_time": 1.4}
_GROQ_USAGE = {"prompt_tokens": 12, "completion_tokens": 9, "total_tokens": 21, **_GROQ}
_SERVER_TIMING = (
    "auth;dur=1, queue;dur=200, prefill;dur=500, decode;dur=900, send_stream;dur=5, total;dur=1695"
)
_CEREBRAS = {**_GROQ, "total_time": 1.7, "created": 1_723_733_419}
_OLLAMA = {
    "total_duration": 1_700_000_000,
    "load_duration": 100_000_000,
    "prompt_eval_duration": 500_000_000,
    "eval_duration": 900_000_000,
}
_SGLANG = {
    "id": "a",
    "e2e_latency": 1.7,
    "queue_time": 0.2,
    "forward_entry_time": 1_760_000_000.5,
    "prefill_finished_time": 1_760_000_001.0,
    "request_finished_ts": 1_760_000_001.875,
}
_FIREWORKS = {
    "server-time-to-first-token": "0.8",
    "server-processing-time": "1.7",
    "prefill-queue-duration": "0.2",
    "prefill-duration": "0.5",
}
_TGI = {
    "x-compute-time": "1.7003",
    "x-total-time": "1700",
    "x-validation-time": "4",
    "x-queue-time": "200",
    "x-inference-time": "1400",
    "x-time-per-token": "155",
}
_PARTS = {"queue_ns": 200, "prefill_ns": 500, "decode_ns": 900}

SERVERS = (
    Said(
        "llama_cpp",
        {"prefill_ns": 500, "decode_ns": 900, "queue_until_headers": True},
        {"choices": [], "timings": _LLAMA},
        needs=under("timings", names=tuple(_LLAMA)),
        streamed=True,
    ),
    Said(
        "vllm",
        {**_PARTS, "decode_to_last_token": True, "has_unreported_front": True},
        {"choices": [], "usage": {"prompt_tokens": 12}, "metrics": _VLLM},
        needs=under("metrics", names=("time_to_first_token_ms", "generation_time_ms")),
        streamed=True,
    ),
    Said(
        "groq",
        {**_PARTS, "total_ns": 1600},
        {"usage": _GROQ_USAGE, "x_groq": {"id": "req"}},
        needs=under("usage", names=("prompt_time", "completion_time", "total_time")),
    ),
    Said(
        "groq",
        {**_PARTS, "total_ns": 1600},
        {"choices": [], "x_groq": {"id": "req", "usage": _GROQ_USAGE}},
        needs=under("x_groq", "usage", names=("prompt_time", "completion_time", "total_time")),
        streamed=True,
    ),
    Said(
        "cerebras",
        {**_PARTS, "total_ns": 1700},
        {"usage": {"prompt_tokens": 12}, "time_info": _CEREBRAS},
        needs=under("time_info", names=tuple(_GROQ)),
    ),
    Said(
        "ollama",
        {"model_load_ns": 100, "prefill_ns": 500, "decode_ns": 900, "total_ns": 1700},
        {"model": "gemma", "done": True, "eval_count": 9, **_OLLAMA},
        needs=(("total_duration",), ("load_duration",)),
        streamed=True,
    ),
    Said(
        "sglang",
        {"queue_ns": 200, "prefill_ns": 500, "decode_ns": 875, "total_ns": 1700},
        {"text": "word", "meta_info": _SGLANG},
        needs=(("meta_info", "e2e_latency"),),
        streamed=True,
    ),
    Said(
        "bedrock",
        {"total_ns": 1700},
        {"output": {}, "stopReason": "end_turn", "metrics": {"latencyMs": 1700}},
        needs=(("metrics", "latencyMs"),),
    ),
    Said(
        "bedrock",
        {"total_ns": 1700},
        {"metadata": {"usage": {"inputTokens": 12}, "metrics": {"latencyMs": 1700}}},
        needs=(("metadata", "metrics", "latencyMs"),),
        streamed=True,
    ),
    Said(
        "bedrock",
        {"total_ns": 1700},
        {
            "type": "message_stop",
            "amazon-bedrock-invocationMetrics": {
                "inputTokenCount": 12,
                "outputTokenCount": 9,
                "invocationLatency": 1700,
                "firstByteLatency": 800,
            },
        },
        needs=(("amazon-bedrock-invocationMetrics", "invocationLatency"),),
        streamed=True,
    ),
    Said("bedrock", {"total_ns": 1700}, headers={"x-amzn-bedrock-invocation-latency": "1700"}),
    Said(
        "fireworks",
        {**_PARTS, "total_ns": 1700},
        headers={f"fireworks-{name}": value for name, value in _FIREWORKS.items()},
    ),
    Said(
        "fireworks",
        {**_PARTS, "head_ns": 800, "total_ns": 1700},
        {"choices": [], "perf_metrics": {name: float(_FIREWORKS[name]) for name in _FIREWORKS}},
        headers={"fireworks-server-time-to-first-token": "0.8"},
        streamed=True,
    ),
    Said("tgi", {"queue_ns": 200, "total_ns": 1700}, headers=_TGI),
    Said(
        "server_timing",
        {**_PARTS, "decode_to_last_token": True},
        headers={"server-timing": "queue;dur=200, prefill;dur=500, decode;dur=900"},
    ),
    Said(
        "server_timing",
        {**_PARTS, "total_ns": 1690, "decode_to_last_token": True},
        {"choices": [], "server_timing": _SERVER_TIMING},
        streamed=True,
    ),
    Said(
        "server_timing",
        {"queue_ns": 200, "prefill_ns": 500, "head_ns": 790, "decode_to_last_token": True},
        headers={"server-timing": "queue;dur=200, prefill;dur=500, decode;dur=1, total;dur=790"},
        streamed=True,
    ),
    Said("openai", {"total_ns": 1700}, headers={"openai-processing-ms": "1700"}),
    Said("openai", {"total_ns": 1700}, headers={"llm_provider-openai-processing-ms": "1700"}),
    Said("openai", {"head_ns": 800.25}, headers={"openai-processing-ms": "800.25"}, streamed=True),
)

GATEWAYS = (
    Said("gateway", {"gateway_ns": 60}, headers={"server-timing": "cdn;desc=x, gateway;dur=60"}),
    Said(
        "litellm",
        {"gateway_ns": 60, "total_ns": 1760},
        headers={
            "x-litellm-overhead-duration-ms": "60.0",
            "x-litellm-response-duration-ms": "1760.0",
        },
    ),
    Said(
        "litellm",
        {"head_ns": 860.5},
        headers={
            "x-litellm-overhead-duration-ms": "None",
            "x-litellm-response-duration-ms": "860.5",
        },
        streamed=True,
    ),
    Said("envoy", {"total_ns": 1700}, headers={"x-envoy-upstream-service-time": "1700"}),
    Said(
        "envoy", {"head_ns": 800}, headers={"x-envoy-upstream-service-time": "800"}, streamed=True
    ),
)


def name_of(said: Said) -> str:
    """Return the id of a test with this response."""
    return f"{said.system}-{'stream' if said.streamed else 'whole'}"


def observed(answer: ResponseMetadata, *reported: ReportedTimings) -> CallObservation:
    """Return the client's view: sent at 10 ms, head at 980, first token at 1,000, end at 2,000."""
    attempt = Attempt(0)
    for mark, at_ms in (("pool_acquired", 2), ("connected", 5), ("sent", 10)):
        setattr(attempt, f"{mark}_ns", at_ms * MS)
    if not answer.streamed:
        attempt.headers_ns, attempt.body_end_ns = 1_999 * MS, 2_000 * MS
        return CallObservation(0, 2_000 * MS, attempts=[attempt], reported=reported)
    attempt.headers_ns = 980 * MS
    reads = Reads()
    for before, after in ((981, 1_000), (1_000, 1_450), (1_450, 1_990)):
        reads.add(before * MS, after * MS, ChunkKind.VISIBLE)
    reads.end = (1_990 * MS, 2_000 * MS)
    return CallObservation(
        0, 2_000 * MS, attempts=[attempt], returned_ns=981 * MS, reads=reads, reported=reported
    )
