"""
Names of everything that latspan emits.

The GenAI names are those of one revision of OpenTelemetry's GenAI semantic conventions: commit
``94f432d`` (2026-09-03) of ``open-telemetry/semantic-conventions-genai``. OpenTelemetry's Python
packages are checked against the same commit. That repository has not released a version yet, so the
schema URL is that of its development channel. The names are copied as strings, because the
``_incubating`` modules, which define some of them, are not stable and must not be imported at run
time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

GENAI_REVISION: Final = "1.42.0-dev"
SCHEMA_URL: Final = f"https://opentelemetry.io/schemas/gen-ai-dev/{GENAI_REVISION}"

# General conventions.
SERVER_ADDRESS: Final = "server.address"
SERVER_PORT: Final = "server.port"
ERROR_TYPE: Final = "error.type"
ERROR_TYPE_OTHER: Final = "_OTHER"
HTTP_REQUEST_METHOD: Final = "http.request.method"
HTTP_REQUEST_METHOD_ORIGINAL: Final = "http.request.method_original"
HTTP_REQUEST_METHOD_OTHER: Final = "_OTHER"
HTTP_RESPONSE_HEADER_PREFIX: Final = "http.response.header."
HTTP_RESPONSE_STATUS_CODE: Final = "http.response.status_code"
HTTP_REQUEST_RESEND_COUNT: Final = "http.request.resend_count"
URL_FULL: Final = "url.full"
URL_PATH: Final = "url.path"
URL_SCHEME: Final = "url.scheme"
HTTP_ROUTE: Final = "http.route"

# GenAI conventions: attributes of the client span.
GEN_AI_OPERATION_NAME: Final = "gen_ai.operation.name"
GEN_AI_PROVIDER_NAME: Final = "gen_ai.provider.name"
GEN_AI_REQUEST_MODEL: Final = "gen_ai.request.model"
GEN_AI_REQUEST_STREAM: Final = "gen_ai.request.stream"
GEN_AI_REQUEST_MAX_TOKENS: Final = "gen_ai.request.max_tokens"
GEN_AI_REQUEST_TEMPERATURE: Final = "gen_ai.request.temperature"
GEN_AI_REQUEST_TOP_P: Final = "gen_ai.request.top_p"
GEN_AI_REQUEST_TOP_K: Final = "gen_ai.request.top_k"
GEN_AI_REQUEST_STOP_SEQUENCES: Final = "gen_ai.request.stop_sequences"
GEN_AI_REQUEST_SEED: Final = "gen_ai.request.seed"
GEN_AI_REQUEST_FREQUENCY_PENALTY: Final = "gen_ai.request.frequency_penalty"
GEN_AI_REQUEST_PRESENCE_PENALTY: Final = "gen_ai.request.presence_penalty"
GEN_AI_REQUEST_CHOICE_COUNT: Final = "gen_ai.request.choice.count"
GEN_AI_REQUEST_REASONING_LEVEL: Final = "gen_ai.request.reasoning.level"
GEN_AI_REQUEST_PREVIOUS_RESPONSE_ID: Final = "gen_ai.request.previous_response.id"
GEN_AI_REQUEST_ENCODING_FORMATS: Final = "gen_ai.request.encoding_formats"
GEN_AI_REQUEST_STREAM_CURSOR: Final = "gen_ai.request.stream_cursor"
GEN_AI_AGENT_ID: Final = "gen_ai.agent.id"
GEN_AI_CONVERSATION_ID: Final = "gen_ai.conversation.id"
GEN_AI_CONVERSATION_COMPACTED: Final = "gen_ai.conversation.compacted"
GEN_AI_OUTPUT_TYPE: Final = "gen_ai.output.type"
GEN_AI_EMBEDDINGS_DIMENSION_COUNT: Final = "gen_ai.embeddings.dimension.count"
OPENAI_API_TYPE: Final = "openai.api.type"
OPENAI_REQUEST_SERVICE_TIER: Final = "openai.request.service_tier"
OPENAI_RESPONSE_SERVICE_TIER: Final = "openai.response.service_tier"
OPENAI_RESPONSE_SYSTEM_FINGERPRINT: Final = "openai.response.system_fingerprint"
GEN_AI_RESPONSE_MODEL: Final = "gen_ai.response.model"
GEN_AI_RESPONSE_ID: Final = "gen_ai.response.id"
GEN_AI_RESPONSE_FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
GEN_AI_RESPONSE_STATUS: Final = "gen_ai.response.status"
GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK: Final = "gen_ai.response.time_to_first_chunk"
GEN_AI_USAGE_INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
GEN_AI_USAGE_OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
GEN_AI_USAGE_CACHE_WRITE_INPUT_TOKENS: Final = "gen_ai.usage.cache_write.input_tokens"
GEN_AI_USAGE_REASONING_OUTPUT_TOKENS: Final = "gen_ai.usage.reasoning.output_tokens"
GEN_AI_USAGE_AUDIO_INPUT_TOKENS: Final = "gen_ai.usage.audio.input_tokens"
GEN_AI_USAGE_AUDIO_OUTPUT_TOKENS: Final = "gen_ai.usage.audio.output_tokens"

# # GenAI conventions: content, on spans and events only if the application opts in.
EVENT_INFERENCE_DETAILS: Final = "gen_ai.client.inference.operation.details"
GEN_AI_INPUT_MESSAGES: Final = "gen_ai.input.messages"
GEN_AI_OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
GEN_AI_SYSTEM_INSTRUCTIONS: Final = "gen_ai.system_instructions"
GEN_AI_TOOL_DEFINITIONS: Final = "gen_ai.tool.definitions"

# GenAI conventions: metrics of a client, and attributes that only they have.
GEN_AI_TOKEN_TYPE: Final = "gen_ai.token.type"
METRIC_OPERATION_DURATION: Final = "gen_ai.client.operation.duration"
METRIC_OPERATION_TIME_TO_FIRST_CHUNK: Final = "gen_ai.client.operation.time_to_first_chunk"
METRIC_OPERATION_TIME_PER_OUTPUT_CHUNK: Final = "gen_ai.client.operation.time_per_output_chunk"
METRIC_TOKEN_USAGE: Final = "gen_ai.client.token.usage"

# GenAI conventions: metrics of a server.
METRIC_SERVER_REQUEST_DURATION: Final = "gen_ai.server.request.duration"
METRIC_SERVER_TIME_TO_FIRST_TOKEN: Final = "gen_ai.server.time_to_first_token"
METRIC_SERVER_TIME_PER_OUTPUT_TOKEN: Final = "gen_ai.server.time_per_output_token"

# Not in the conventions: attributes that vLLM and SGLang write on their own spans, seconds.
GEN_AI_LATENCY_PREFIX: Final = "gen_ai.latency."

# Not defined by the conventions.
LATSPAN_SEGMENT: Final = "latspan.segment"
LATSPAN_SOURCE: Final = "latspan.source"
LATSPAN_SIDE: Final = "latspan.side"
LATSPAN_KIND: Final = "latspan.kind"
LATSPAN_STAGE_KIND: Final = "latspan.stage.kind"
LATSPAN_OUTCOME: Final = "latspan.outcome"
LATSPAN_TIME_TO_FIRST_TOKEN: Final = "latspan.time_to_first_token"
LATSPAN_TIME_TO_FIRST_VISIBLE_TOKEN: Final = "latspan.time_to_first_visible_token"
LATSPAN_TIME_PER_OUTPUT_TOKEN: Final = "latspan.time_per_output_token"
LATSPAN_ESTIMATED_ATTRIBUTES: Final = "latspan.estimated_attributes"
LATSPAN_CHUNK_GAP_P95: Final = "latspan.chunk_gap.p95"
LATSPAN_CHUNK_GAP_MAX: Final = "latspan.chunk_gap.max"
LATSPAN_STALL_COUNT: Final = "latspan.stall.count"
LATSPAN_STALL_DURATION: Final = "latspan.stall.duration"
LATSPAN_STALL_RATIO: Final = "latspan.stall.ratio"
LATSPAN_FLUIDITY: Final = "latspan.fluidity"
LATSPAN_BUFFER_NEEDED: Final = "latspan.buffer_needed"
LATSPAN_MERGED_COUNT: Final = "latspan.merged.count"
LATSPAN_APPLICATION_BEFORE: Final = "latspan.application.before"
LATSPAN_APPLICATION_BETWEEN: Final = "latspan.application.between"
LATSPAN_APPLICATION_AFTER: Final = "latspan.application.after"
LATSPAN_PATH_INFERRED: Final = "latspan.path.inferred"
LATSPAN_ATTEMPT_COUNT: Final = "latspan.attempt.count"
LATSPAN_CONNECTION_REUSED: Final = "latspan.connection.reused"
LATSPAN_TOKEN_SOURCE: Final = "latspan.token_source"
LATSPAN_INFERENCE_PATH: Final = "latspan.inference_path"
LATSPAN_ROUTE: Final = "latspan.route"
LATSPAN_TRAFFIC_CLASS: Final = "latspan.traffic_class"
LATSPAN_TENANT: Final = "latspan.tenant"
LATSPAN_BATCH_SIZE: Final = "latspan.batch.size"
LATSPAN_BATCH_WINDOW: Final = "latspan.batch.window"
LATSPAN_DEGRADED: Final = "latspan.degraded"
LATSPAN_RETRY_AFTER: Final = "latspan.retry_after"
LATSPAN_REPORTED_PREFIX: Final = "latspan.reported."
LATSPAN_EVIDENCE_REJECTED: Final = "latspan.evidence.rejected"
LATSPAN_BUFFERED: Final = "latspan.buffered"
LATSPAN_LOAD_INDEX: Final = "latspan.load.index"
LATSPAN_LOAD_PHASE: Final = "latspan.load.phase"
LATSPAN_LOAD_DISPATCH_LAG: Final = "latspan.load.dispatch_lag"
LATSPAN_LOAD_STEP: Final = "latspan.load.step"

# Observed around a request: what its server reported, and samples of servers and host.
LATSPAN_REQUESTS_RUNNING: Final = "latspan.requests.running"
LATSPAN_REQUESTS_WAITING: Final = "latspan.requests.waiting"
LATSPAN_KV_USAGE: Final = "latspan.kv.usage"
LATSPAN_CACHE_HIT_RATIO: Final = "latspan.cache.hit_ratio"
LATSPAN_SPECULATIVE_ACCEPTANCE: Final = "latspan.speculative.acceptance"
LATSPAN_HOST_EVENT_LOOP_LAG: Final = "latspan.host.event_loop.lag"
LATSPAN_HOST_GC_DURATION: Final = "latspan.host.gc.duration"
LATSPAN_HOST_MAJOR_FAULTS: Final = "latspan.host.major_faults"
LATSPAN_HOST_CPU_THROTTLED: Final = "latspan.host.cpu.throttled"
LATSPAN_HOST_MEMORY_PRESSURE: Final = "latspan.host.memory.pressure"
LATSPAN_SAMPLED_ATTRIBUTES: Final = "latspan.sampled_attributes"

# Metrics.
METRIC_SEGMENT_DURATION: Final = "latspan.segment.duration"
METRIC_TIME_TO_FIRST_TOKEN: Final = "latspan.time_to_first_token"
METRIC_TIME_TO_FIRST_VISIBLE_TOKEN: Final = "latspan.time_to_first_visible_token"
METRIC_TIME_PER_OUTPUT_TOKEN: Final = "latspan.time_per_output_token"
METRIC_CHUNK_GAP: Final = "latspan.chunk_gap"
METRIC_STALL_DURATION: Final = "latspan.stall.duration"
METRIC_STALL_RATIO: Final = "latspan.stall.ratio"
METRIC_FLUIDITY: Final = "latspan.fluidity"
METRIC_BUFFER_NEEDED: Final = "latspan.buffer_needed"
METRIC_SEGMENT_DURATION_AT_LEAST: Final = "latspan.segment.duration.at_least"
METRIC_TIME_TO_FIRST_TOKEN_AT_LEAST: Final = "latspan.time_to_first_token.at_least"
METRIC_TIME_TO_FIRST_VISIBLE_TOKEN_AT_LEAST: Final = "latspan.time_to_first_visible_token.at_least"
METRIC_TIME_PER_OUTPUT_TOKEN_AT_LEAST: Final = "latspan.time_per_output_token.at_least"
METRIC_CHUNK_GAP_AT_LEAST: Final = "latspan.chunk_gap.at_least"
METRIC_STALL_DURATION_AT_LEAST: Final = "latspan.stall.duration.at_least"

# latspan's self-metrics, and its own spans and events.
DOCTOR: Final = "latspan.doctor"
METRIC_DROPPED: Final = "latspan.dropped"
METRIC_TRACES_SAMPLED_OUT: Final = "latspan.traces.sampled_out"
METRIC_CLAMPED: Final = "latspan.clamped"
METRIC_QUEUE_SIZE: Final = "latspan.queue.size"
METRIC_SERIES_OVERFLOW: Final = "latspan.series.overflow"
EVENT_HISTOGRAM: Final = "latspan.histogram"
LATSPAN_SERIES: Final = "latspan.series"
LATSPAN_INTERVAL_START: Final = "latspan.interval.start"
LATSPAN_HISTOGRAM_SUM: Final = "latspan.histogram.sum"
LATSPAN_HISTOGRAM_MIN: Final = "latspan.histogram.min"
LATSPAN_HISTOGRAM_MAX: Final = "latspan.histogram.max"
LATSPAN_HISTOGRAM_REJECTED: Final = "latspan.histogram.rejected"
LATSPAN_HISTOGRAM_CLAMPED: Final = "latspan.histogram.clamped"
LATSPAN_SIGNAL: Final = "latspan.signal"
LATSPAN_REASON: Final = "latspan.reason"
LATSPAN_METRIC: Final = "latspan.metric"

SERIES_ATTRIBUTES: Final = {
    "inference_path": LATSPAN_INFERENCE_PATH,
    "route": LATSPAN_ROUTE,
    "traffic_class": LATSPAN_TRAFFIC_CLASS,
    "tenant": LATSPAN_TENANT,
    "model": GEN_AI_REQUEST_MODEL,
    "provider": GEN_AI_PROVIDER_NAME,
    "outcome": LATSPAN_OUTCOME,
    "segment": LATSPAN_SEGMENT,
    "source": LATSPAN_SOURCE,
    "side": LATSPAN_SIDE,
}
"""Exported names of the attributes of a series."""

CONVENTION_ATTRIBUTES: Final[Mapping[str, str]] = {
    "operation": GEN_AI_OPERATION_NAME,
    "provider": GEN_AI_PROVIDER_NAME,
    "model": GEN_AI_REQUEST_MODEL,
    "response_model": GEN_AI_RESPONSE_MODEL,
    "server_address": SERVER_ADDRESS,
    "server_port": SERVER_PORT,
    "error_type": ERROR_TYPE,
    "service_tier": OPENAI_RESPONSE_SERVICE_TIER,
    "system_fingerprint": OPENAI_RESPONSE_SYSTEM_FINGERPRINT,
}
"""
Exported names of the attributes of the conventions' metrics, by latspan's name. All values are
strings except the port, which is an integer.
"""

# Powers of 2 from 10 ms, powers of 4 from one token.
_DURATION_BOUNDS: Final = tuple(2**k / 100 for k in range(14))
_TOKEN_BOUNDS: Final = tuple(4.0**k for k in range(14))
_FIRST_TOKEN_BOUNDS: Final = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75),
    *(1.0, 2.5, 5.0, 7.5, 10.0),
)
_PER_TOKEN_BOUNDS: Final = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75),
    *(1.0, 2.5),
)

EXPLICIT_BOUNDS: Final[Mapping[str, tuple[float, ...]]] = {
    METRIC_OPERATION_DURATION: _DURATION_BOUNDS,
    METRIC_OPERATION_TIME_TO_FIRST_CHUNK: _DURATION_BOUNDS,
    METRIC_OPERATION_TIME_PER_OUTPUT_CHUNK: _DURATION_BOUNDS,
    METRIC_TOKEN_USAGE: _TOKEN_BOUNDS,
    METRIC_SERVER_REQUEST_DURATION: _DURATION_BOUNDS,
    METRIC_SERVER_TIME_TO_FIRST_TOKEN: _FIRST_TOKEN_BOUNDS,
    METRIC_SERVER_TIME_PER_OUTPUT_TOKEN: _PER_TOKEN_BOUNDS,
}
"""Bucket boundaries that the conventions recommend, by metric: seconds, or tokens."""


def segment_duration(segment: str) -> str:
    """
    Return the attribute that holds a segment's time if the segment has no span of its own.

    Args:
        segment: The segment's name, for example ``consumer`` or ``retry``.
    """
    return f"latspan.{segment}.duration"
