"""Configuration of latspan: every field has a ``LATSPAN_*`` variable."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypedDict, get_args
from urllib.parse import urlsplit

from latspan._metrics import Expectations
from latspan._sdk._checks import (
    check_base,
    check_choice,
    check_endpoint,
    check_folder,
    check_integer,
    check_number,
    check_provider,
    check_ratio,
    check_servers,
    check_switch,
    check_text,
)
from latspan._units import NS_PER_S, from_unit
from latspan._warn_once import warn_once
from latspan.errors import ConfigError, UnknownNameError

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

__all__ = ["Config", "ConfigFields", "Protocol", "Signal"]

Protocol = Literal["http/protobuf", "grpc"]
Signal = Literal["traces", "metrics", "logs"]

_PREFIX: Final = "LATSPAN_"
_GRPC_PORT: Final = 4317
_DEFAULT_ENDPOINTS: Final[Mapping[Protocol, str]] = {
    "http/protobuf": "http://localhost:4318",
    "grpc": "http://localhost:4317",
}
_TRUE: Final = frozenset({"true", "1", "yes", "on"})
_FALSE: Final = frozenset({"false", "0", "no", "off"})
_SWITCHES: Final = (
    "export_enabled",
    "propagate",
    "monitor_host",
    "set_global_provider",
    "export_raw_histograms",
    "count_tokens",
    "capture_media",
    "request_stream_usage",
    "emit_gen_ai_latency",
)
_NUMBERS: Final[Mapping[str, tuple[float, float]]] = {
    "metrics_interval_s": (0.001, 1e9),
    "series_idle_s": (0.001, 1e9),
    "stall_threshold_ms": (1e-9, 1e12),
    "first_token_target_ms": (1e-9, 1e12),
    "token_target_ms": (1e-9, 1e12),
    "reading_tokens_per_s": (1e-9, 1e12),
    "scrape_interval_s": (0.001, 1e9),
    "tail_sampling_slow_ms": (1e-9, 1e12),
}
"""Numeric settings and their ranges; no value computed from them overflows."""

_UNLESS_UNSET: Final = frozenset({"metrics_interval_s", "tail_sampling_slow_ms"})
"""Numeric settings that may be ``None``: OpenTelemetry's variable applies, or no limit does."""

_INTEGERS: Final[Mapping[str, tuple[int, float, str]]] = {
    "metrics_scale": (-10, 20, ""),
    "metrics_max_buckets": (2, math.inf, ""),
    "cardinality_limit": (1, math.inf, ""),
    "keep_records": (0, math.inf, "to keep all"),
}
"""Integer settings, their ranges, and the meaning of ``None`` if it is allowed."""

_TEXTS: Final = ("service_name", "inference_path", "route", "traffic_class")

_CODE_ONLY: Final = frozenset({"tracer_provider"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """
    Settings of latspan. Code overrides the environment, and the environment the default.

    Every field except ``tracer_provider`` is also read from the variable ``LATSPAN_`` followed by
    its name in upper case.

    Args:
        endpoint: Address of an OTLP collector or backend, for example ``http://localhost:4318``,
            without ``/v1/traces``. If not set, ``OTEL_EXPORTER_OTLP_*`` apply, and otherwise
            ``http://localhost:4318`` (gRPC: port 4317).
        protocol: ``http/protobuf`` or ``grpc``. If not set, ``OTEL_EXPORTER_OTLP_PROTOCOL``
            applies, and otherwise ``grpc`` for port 4317 and ``http/protobuf`` for any other.
        service_name: ``service.name`` of exported telemetry. If not set, metrics use the resource
            of the application's provider if it has one, and otherwise ``OTEL_SERVICE_NAME``.
        export_enabled: Whether to export anything. If false, histograms can still be read in the
            process.
        metrics_interval_s: Seconds between two exports of metrics, at least 0.001. If not set,
            ``OTEL_METRIC_EXPORT_INTERVAL`` applies, and otherwise 60.
        metrics_scale: Scale of exported exponential histograms, in [-10, 20]. At 8, the middle of
            a bucket is within 0.3 % of each value in it; Prometheus keeps no finer scale.
        metrics_max_buckets: Maximum number of buckets of an exported histogram, at least 2. A
            histogram that spans more is exported at a lower scale.
        cardinality_limit: Maximum number of series per metric, at least 1. Values of further
            series are counted in one overflow series, which is marked.
        series_idle_s: Seconds after which a series without new values is dropped, once its last
            values were exported; at least 0.001.
        histogram_log_dir: Folder in which each process writes a log of its exact histograms, one
            interval after the other, whether or not anything is exported.
        export_raw_histograms: Whether to export each interval's exact histograms too, as OTLP log
            records, so that histograms of many processes can be merged without loss.
        propagate: Whether to add ``traceparent`` and ``tracestate`` to requests.
        count_tokens: Whether to count the tokens of calls whose provider reports no counts, from
            their text. Such counts are marked as estimated. Needs the extra ``tokens``, or
            encodings in tiktoken's cache; nothing is downloaded.
        capture_media: Whether captured content includes images, audio and files, if
            ``OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT`` turns capturing on. If false,
            only their kind is captured.
        request_stream_usage: Whether to request token counts for streams of the OpenAI SDK if the
            caller does not set ``stream_options``. This changes the request and adds a chunk
            without choices to the stream.
        emit_gen_ai_latency: Whether to set vLLM's ``gen_ai.latency.*`` attributes on the spans of
            served requests with a model, for dashboards that read them.
        set_global_provider: Whether to make latspan's tracer provider the global one, so that the
            application's spans use it too.
        tracer_provider: Tracer provider to use, even if another one is global.
        inference_path: Inference path of requests that do not set one.
        route: Route of requests that do not set one.
        traffic_class: Traffic class of requests that do not set one.
        stall_threshold_ms: Shortest gap between two chunks that counts as a stall; more than 0.
        first_token_target_ms: Time after which the first token of a stream is late, for its
            fluidity; more than 0.
        token_target_ms: Time after the token before at which a further token is late; more than 0.
        reading_tokens_per_s: Reading speed of the user, for ``buffer_needed``; more than 0.
        scrape_servers: Addresses of model servers whose queue and cache are scraped, for the spans
            of calls to them and of requests served in this process. The variable separates them
            with commas. An address without a path stands for ``/metrics`` and ``/slots``. Needs
            the extra ``sampler``.
        monitor_host: Whether spans describe the load of the process and its machine.
        scrape_interval_s: Seconds between two samples, at least 0.001.
        tail_sampling_ratio: Maximum fraction of traces that the private pipeline keeps, in (0, 1];
            1 keeps all. Below 1, a trace is kept or dropped once it has ended: failed traces, the
            slowest ones and a few at random are kept. Histograms count every request.
        tail_sampling_slow_ms: Duration above which a trace is always kept; more than 0. If not
            set, there is no such limit.
        keep_records: Number of the latest requests that are kept whole in addition to the
            histograms; ``None`` keeps all of them. For demonstrations and tests, not production.
    """

    endpoint: str | None = None
    protocol: Protocol | None = None
    service_name: str | None = None
    export_enabled: bool = True
    metrics_interval_s: float | None = None
    metrics_scale: int = 8
    metrics_max_buckets: int = 4096
    cardinality_limit: int = 2000
    series_idle_s: float = 3600.0
    histogram_log_dir: str | None = None
    export_raw_histograms: bool = False
    propagate: bool = True
    count_tokens: bool = False
    capture_media: bool = False
    request_stream_usage: bool = False
    emit_gen_ai_latency: bool = False
    set_global_provider: bool = False
    tracer_provider: TracerProvider | None = None
    inference_path: str | None = None
    route: str | None = None
    traffic_class: str | None = None
    stall_threshold_ms: float = 500.0
    first_token_target_ms: float = 500.0
    token_target_ms: float = 200.0
    reading_tokens_per_s: float = 5.0
    scrape_servers: Sequence[str] = ()
    monitor_host: bool = False
    scrape_interval_s: float = 0.5
    tail_sampling_ratio: float = 1.0
    tail_sampling_slow_ms: float | None = None
    keep_records: int | None = 0

    @classmethod
    def of(
        cls, settings: Mapping[str, object], environment: Mapping[str, str] = os.environ
    ) -> Self:
        """
        Return the validated configuration that ``settings`` and the environment define.

        Args:
            settings: Settings given in code, by field.
            environment: Source of the ``LATSPAN_*`` variables.

        Raises:
            UnknownNameError: ``settings`` has a name that is not a field.
            ConfigError: A value is not valid.
        """
        names = {field.name for field in fields(cls)}
        for name in settings:
            if name not in names:
                raise UnknownNameError(
                    f"no setting '{name}'", hint=f"one of {', '.join(sorted(names))}"
                )
        merged: dict[str, Any] = {}
        for field in fields(cls):
            variable = _PREFIX + field.name.upper()
            if field.name in settings:
                merged[field.name] = settings[field.name]
            elif environment.get(variable) and field.name not in _CODE_ONLY:
                merged[field.name] = _parsed(field.name, variable, environment[variable])
        config = cls(**merged)
        config.validate(environment)
        return config

    def validate(self, environment: Mapping[str, str] = os.environ) -> None:
        """
        Validate every setting and the endpoint of every signal.

        Args:
            environment: Source of the ``OTEL_*`` variables.

        Raises:
            ConfigError: A value is not valid; the message has the value and a hint.
        """
        if self.endpoint is not None:
            check_base("endpoint", self.endpoint)
        check_choice("protocol", self.protocol, get_args(Protocol))
        for name, (least, most) in _NUMBERS.items():
            value = getattr(self, name)
            if value is not None or name not in _UNLESS_UNSET:
                check_number(name, value, least, most)
        for name, (least, most, unset) in _INTEGERS.items():
            check_integer(name, getattr(self, name), least, most, unset=unset)
        check_ratio("tail_sampling_ratio", self.tail_sampling_ratio)
        check_folder("histogram_log_dir", self.histogram_log_dir)
        check_servers("scrape_servers", self.scrape_servers)
        check_provider("tracer_provider", self.tracer_provider)
        for name in _TEXTS:
            check_text(name, getattr(self, name))
        for name in _SWITCHES:
            check_switch(name, getattr(self, name))
        for signal in get_args(Signal):
            used = signal != "logs" or self.export_raw_histograms
            if used and self.exports(signal, environment):
                self.protocol_of(signal, environment)

    @property
    def expected(self) -> Expectations:
        """Expectations that streams are measured against, in nanoseconds."""
        return Expectations(
            stall_ns=from_unit(self.stall_threshold_ms, "ms"),
            first_token_ns=from_unit(self.first_token_target_ms, "ms"),
            token_ns=max(1, from_unit(self.token_target_ms, "ms")),
            reading_ns=round(NS_PER_S / self.reading_tokens_per_s),
        )

    @property
    def slow_ns(self) -> int | None:
        """``tail_sampling_slow_ms`` in nanoseconds."""
        return (
            None
            if self.tail_sampling_slow_ms is None
            else from_unit(self.tail_sampling_slow_ms, "ms")
        )

    @property
    def defaults(self) -> dict[str, str]:
        """Attributes of requests that do not set their own."""
        said = {
            "inference_path": self.inference_path,
            "route": self.route,
            "traffic_class": self.traffic_class,
        }
        return {name: value for name, value in said.items() if value is not None}

    def exports(self, signal: Signal, environment: Mapping[str, str] = os.environ) -> bool:
        """Return whether ``signal`` may be exported, if there is any data for it."""
        exporter = environment.get(f"OTEL_{signal.upper()}_EXPORTER", "").strip().lower()
        return self.export_enabled and exporter != "none"

    def protocol_of(self, signal: Signal, environment: Mapping[str, str] = os.environ) -> Protocol:
        """
        Return the OTLP protocol in use for ``signal``.

        Raises:
            ConfigError: The endpoint of ``signal`` is not a valid address.
        """
        endpoints = _said(environment, signal, "ENDPOINT")
        variable, where = next(endpoints, ("", _DEFAULT_ENDPOINTS["http/protobuf"]))
        protocol = self.protocol or _protocol_said(environment, signal)
        if self.endpoint is not None:
            where = self.endpoint
        else:
            check_endpoint(variable, where, protocol or "http/protobuf")
        if protocol is not None:
            return protocol
        return "grpc" if urlsplit(where).port == _GRPC_PORT else "http/protobuf"

    def endpoint_of(
        self, signal: Signal, environment: Mapping[str, str] = os.environ
    ) -> str | None:
        """
        Return the endpoint for an OTLP exporter; ``None`` if it reads the environment itself.

        An exporter for HTTP uses the address it receives unchanged, including its path.
        """
        endpoint = self.endpoint
        protocol = self.protocol_of(signal, environment)
        if endpoint is None:
            if any(_said(environment, signal, "ENDPOINT")):
                return None
            endpoint = _DEFAULT_ENDPOINTS[protocol]
        if protocol == "grpc":
            return endpoint
        return f"{endpoint.rstrip('/')}/v1/{signal}"


class ConfigFields(TypedDict, total=False):
    """Fields of :class:`Config` as keyword arguments, for functions that pass them on."""

    endpoint: str | None
    protocol: Protocol | None
    service_name: str | None
    export_enabled: bool
    metrics_interval_s: float | None
    metrics_scale: int
    metrics_max_buckets: int
    cardinality_limit: int
    series_idle_s: float
    histogram_log_dir: str | None
    export_raw_histograms: bool
    propagate: bool
    count_tokens: bool
    capture_media: bool
    request_stream_usage: bool
    emit_gen_ai_latency: bool
    set_global_provider: bool
    tracer_provider: TracerProvider | None
    inference_path: str | None
    route: str | None
    traffic_class: str | None
    stall_threshold_ms: float
    first_token_target_ms: float
    token_target_ms: float
    reading_tokens_per_s: float
    scrape_servers: Sequence[str]
    monitor_host: bool
    scrape_interval_s: float
    tail_sampling_ratio: float
    tail_sampling_slow_ms: float | None
    keep_records: int | None


def _said(environment: Mapping[str, str], signal: Signal, what: str) -> Iterator[tuple[str, str]]:
    """Yield the OTLP variables that are set, with their values; the signal's own comes first."""
    for whose in (f"{signal.upper()}_", ""):
        variable = f"OTEL_EXPORTER_OTLP_{whose}{what}"
        value = environment.get(variable, "").strip()
        if value:
            yield variable, value


def _protocol_said(environment: Mapping[str, str], signal: Signal) -> Protocol | None:
    """
    Return the protocol that OpenTelemetry's variables set; ``None`` if they do not set one.

    Source: OpenTelemetry specification, "Environment Variable Specification", Enum: an unknown
    value is ignored with a warning.
    """
    for variable, value in _said(environment, signal, "PROTOCOL"):
        if value == "grpc" or value == "http/protobuf":
            return value
        warn_once(
            f"{variable} is '{value}', not one of {', '.join(get_args(Protocol))}: it is ignored"
        )
    return None


def _parsed(name: str, variable: str, text: str) -> Any:
    """Return the value of a ``LATSPAN_*`` variable, converted to the type of its field."""
    text = text.strip()
    if name in _SWITCHES:
        lowered = text.lower()
        if lowered in _TRUE | _FALSE:
            return lowered in _TRUE
        raise ConfigError(f"{variable} is '{text}'", hint="use true or false")
    if name in _NUMBERS or name == "tail_sampling_ratio":
        return _number(float, variable, text)
    if name in _INTEGERS and not (name == "keep_records" and text.lower() == "all"):
        return _number(int, variable, text)
    if name == "scrape_servers":
        return tuple(address.strip() for address in text.split(",") if address.strip())
    if name == "keep_records":
        return None
    return text


def _number(kind: type[int | float], variable: str, text: str) -> float:
    try:
        return kind(text)
    except ValueError:
        raise ConfigError(f"{variable} is '{text}'", hint="use a number") from None
