"""What can be configured: every field has a ``LATSPAN_*`` variable."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypedDict, get_args
from urllib.parse import urlsplit

from latspan._warn_once import warn_once
from latspan.errors import ConfigError, UnknownNameError
from latspan.metrics import Expectations
from latspan.sdk._checks import (
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
from latspan.units import NS_PER_S, from_unit

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
    "export",
    "propagate",
    "sample_host",
    "set_global",
    "histogram_payloads",
    "count_tokens",
    "capture_media",
    "include_usage",
    "gen_ai_latency",
)
_NUMBERS: Final[Mapping[str, tuple[float, float]]] = {
    "metrics_interval_s": (0.001, 1e9),
    "series_idle_s": (0.001, 1e9),
    "stall_ms": (1e-9, 1e12),
    "first_token_target_ms": (1e-9, 1e12),
    "token_target_ms": (1e-9, 1e12),
    "reading_tokens_per_s": (1e-9, 1e12),
    "sample_interval_s": (0.001, 1e9),
    "slow_ms": (1e-9, 1e12),
}
"""Settings that are numbers, and from where to where: what is held of them never overflows."""

_UNLESS_UNSET: Final = frozenset({"metrics_interval_s", "slow_ms"})
"""Those of them that may be ``None``: OpenTelemetry's variable says, or there is no such limit."""

_INTEGERS: Final[Mapping[str, tuple[int, float, str]]] = {
    "metrics_scale": (-10, 20, ""),
    "metrics_max_buckets": (2, math.inf, ""),
    "series_limit": (1, math.inf, ""),
    "keep_records": (0, math.inf, "to keep all"),
}
"""Settings that are whole numbers, from where to where, and what ``None`` means if anything."""

_TEXTS: Final = ("service_name", "path", "route", "traffic_class")

_CODE_ONLY: Final = frozenset({"tracer_provider"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """
    How latspan is set up. Code wins over the environment, the environment over the default.

    Each field but ``tracer_provider`` is also read from ``LATSPAN_`` and its name in upper case.

    Args:
        endpoint: Where OTLP goes, for example ``http://localhost:4318``; of a collector or
            backend, without ``/v1/traces``. Unset, ``OTEL_EXPORTER_OTLP_*`` say, and
            ``http://localhost:4318`` (gRPC: port 4317) where they do not.
        protocol: ``http/protobuf`` or ``grpc``. Unset, ``OTEL_EXPORTER_OTLP_PROTOCOL`` says, and
            otherwise it is ``grpc`` for port 4317 and ``http/protobuf`` for any other.
        service_name: ``service.name`` of what is exported. Unset, metrics have the resource of the
            application's provider, where it has one, and otherwise ``OTEL_SERVICE_NAME`` says.
        export: Whether anything is exported. Off, histograms can still be read in the process.
        metrics_interval_s: Seconds between two exports of metrics, at least 0.001. Unset,
            ``OTEL_METRIC_EXPORT_INTERVAL`` says, and otherwise it is 60.
        metrics_scale: How fine exported histograms are, in [-10, 20]. 8 keeps the middle of a
            bucket within 0.3 % of a value in it, and is the finest that Prometheus keeps.
        metrics_max_buckets: How many buckets an exported histogram may have, at least 2. One that
            spans more has its scale lowered.
        series_limit: How many series of one metric are told apart, at least 1. What comes under
            further keys is counted in one series more, and said so.
        series_idle_s: Seconds after which a series without new values is forgotten, once its last
            ones were delivered; at least 0.001.
        histogram_log: A folder in which each process keeps a log of its exact histograms, one
            interval after the other, whether or not anything is exported.
        histogram_payloads: Send each interval's exact histograms too, as OTLP log records, so
            that those of a fleet can be merged without loss.
        propagate: Whether ``traceparent`` and ``tracestate`` are added to requests.
        count_tokens: Count the tokens of calls whose provider did not, from their text, and mark
            the counts as estimated. Needs the extra ``tokens``, or encodings that tiktoken has
            cached; nothing is fetched.
        capture_media: Whether content has images, audio and files in it, where
            ``OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT`` captures any; only their kind
            otherwise.
        include_usage: Ask the OpenAI SDK's streams for their token counts where the caller says
            nothing of ``stream_options``. This changes the request, and adds a chunk without
            choices to the stream.
        gen_ai_latency: Write vLLM's ``gen_ai.latency.*`` attributes too, on the spans of requests
            that are served here and are a model's, for dashboards made for them.
        set_global: Make latspan's provider the process's own, for the application's spans too.
        tracer_provider: Use this provider for spans, whatever the global one is.
        path: The inference path of requests that say none.
        route: The route of requests that say none.
        traffic_class: The traffic class of requests that say none.
        stall_ms: A gap between two chunks longer than this is a stall; more than 0.
        first_token_target_ms: When the first token of a stream is due, for its fluidity; more
            than 0.
        token_target_ms: How much later each further token is due; more than 0.
        reading_tokens_per_s: How fast the answer is read, for the buffer that is needed; more
            than 0.
        sample_servers: Addresses of model servers whose queue and cache are sampled, for the spans
            of calls to them and of requests that are served here; with commas between them in the
            variable. Without a path, ``/metrics`` and ``/slots`` are asked. Needs the extra
            ``sampler``.
        sample_host: Whether spans say how the process and its machine fared meanwhile.
        sample_interval_s: Seconds between two samples, at least 0.001.
        keep_ratio: How many of all traces the private pipeline keeps at most, in (0, 1]; 1 keeps
            all. Below, each is decided on when it has ended: those that failed, the slowest and a
            few at random are kept. Histograms count all requests whatever this says.
        slow_ms: A request that takes longer is kept whatever ``keep_ratio`` says; more than 0.
            Unset, there is no such limit.
        keep_records: How many of the latest requests to keep whole beside the histograms; ``None``
            keeps all of them. For demonstrations and tests, not for production.
    """

    endpoint: str | None = None
    protocol: Protocol | None = None
    service_name: str | None = None
    export: bool = True
    metrics_interval_s: float | None = None
    metrics_scale: int = 8
    metrics_max_buckets: int = 4096
    series_limit: int = 2000
    series_idle_s: float = 3600.0
    histogram_log: str | None = None
    histogram_payloads: bool = False
    propagate: bool = True
    count_tokens: bool = False
    capture_media: bool = False
    include_usage: bool = False
    gen_ai_latency: bool = False
    set_global: bool = False
    tracer_provider: TracerProvider | None = None
    path: str | None = None
    route: str | None = None
    traffic_class: str | None = None
    stall_ms: float = 500.0
    first_token_target_ms: float = 500.0
    token_target_ms: float = 200.0
    reading_tokens_per_s: float = 5.0
    sample_servers: Sequence[str] = ()
    sample_host: bool = False
    sample_interval_s: float = 0.5
    keep_ratio: float = 1.0
    slow_ms: float | None = None
    keep_records: int | None = 0

    @classmethod
    def of(
        cls, settings: Mapping[str, object], environment: Mapping[str, str] = os.environ
    ) -> Self:
        """
        Return the configuration that ``settings`` and the environment make, validated.

        Args:
            settings: What code says, by field.
            environment: Where ``LATSPAN_*`` variables are looked up.

        Raises:
            UnknownNameError: ``settings`` has a name that is no field.
            ConfigError: A value cannot work.
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
        Refuse what cannot work: every setting, and where every signal is sent.

        Args:
            environment: Where ``OTEL_*`` variables are looked up.

        Raises:
            ConfigError: With the value that is wrong, and how to mend it.
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
        check_ratio("keep_ratio", self.keep_ratio)
        check_folder("histogram_log", self.histogram_log)
        check_servers("sample_servers", self.sample_servers)
        check_provider("tracer_provider", self.tracer_provider)
        for name in _TEXTS:
            check_text(name, getattr(self, name))
        for name in _SWITCHES:
            check_switch(name, getattr(self, name))
        for signal in get_args(Signal):
            used = signal != "logs" or self.histogram_payloads
            if used and self.exports(signal, environment):
                self.protocol_of(signal, environment)

    @property
    def expected(self) -> Expectations:
        """What streams are held against, in nanoseconds."""
        return Expectations(
            stall_ns=from_unit(self.stall_ms, "ms"),
            first_token_ns=from_unit(self.first_token_target_ms, "ms"),
            token_ns=max(1, from_unit(self.token_target_ms, "ms")),
            reading_ns=round(NS_PER_S / self.reading_tokens_per_s),
        )

    @property
    def slow_ns(self) -> int | None:
        """What takes longer is kept in any case, nanoseconds."""
        return None if self.slow_ms is None else from_unit(self.slow_ms, "ms")

    @property
    def defaults(self) -> dict[str, str]:
        """What requests are about that do not say."""
        said = {"path": self.path, "route": self.route, "traffic_class": self.traffic_class}
        return {name: value for name, value in said.items() if value is not None}

    def exports(self, signal: Signal, environment: Mapping[str, str] = os.environ) -> bool:
        """Return whether ``signal`` may be sent, if there is anything of it."""
        exporter = environment.get(f"OTEL_{signal.upper()}_EXPORTER", "").strip().lower()
        return self.export and exporter != "none"

    def protocol_of(self, signal: Signal, environment: Mapping[str, str] = os.environ) -> Protocol:
        """
        Return the OTLP protocol in use for ``signal``.

        Raises:
            ConfigError: The address that ``signal`` is sent to cannot be one.
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
        Return what to hand an OTLP exporter, ``None`` where it reads the environment itself.

        Over HTTP an exporter takes an address it is given as it is, path and all.
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
    """The fields of :class:`Config` as keywords, for whoever passes some of them on."""

    endpoint: str | None
    protocol: Protocol | None
    service_name: str | None
    export: bool
    metrics_interval_s: float | None
    metrics_scale: int
    metrics_max_buckets: int
    series_limit: int
    series_idle_s: float
    histogram_log: str | None
    histogram_payloads: bool
    propagate: bool
    count_tokens: bool
    capture_media: bool
    include_usage: bool
    gen_ai_latency: bool
    set_global: bool
    tracer_provider: TracerProvider | None
    path: str | None
    route: str | None
    traffic_class: str | None
    stall_ms: float
    first_token_target_ms: float
    token_target_ms: float
    reading_tokens_per_s: float
    sample_servers: Sequence[str]
    sample_host: bool
    sample_interval_s: float
    keep_ratio: float
    slow_ms: float | None
    keep_records: int | None


def _said(environment: Mapping[str, str], signal: Signal, what: str) -> Iterator[tuple[str, str]]:
    """Yield the OTLP variables that are set, with their values, the one of the signal first."""
    for whose in (f"{signal.upper()}_", ""):
        variable = f"OTEL_EXPORTER_OTLP_{whose}{what}"
        value = environment.get(variable, "").strip()
        if value:
            yield variable, value


def _protocol_said(environment: Mapping[str, str], signal: Signal) -> Protocol | None:
    """
    Return the protocol that OpenTelemetry's variables say, ``None`` where they say none.

    Source: OpenTelemetry specification, "Environment Variable Specification", Enum: a value that
    is not known is warned of and ignored.
    """
    for variable, value in _said(environment, signal, "PROTOCOL"):
        if value == "grpc" or value == "http/protobuf":
            return value
        warn_once(
            f"{variable} is '{value}', not one of {', '.join(get_args(Protocol))}: it is ignored"
        )
    return None


def _parsed(name: str, variable: str, text: str) -> Any:
    """Return the value of a ``LATSPAN_*`` variable as its field's type."""
    text = text.strip()
    if name in _SWITCHES:
        lowered = text.lower()
        if lowered in _TRUE | _FALSE:
            return lowered in _TRUE
        raise ConfigError(f"{variable} is '{text}'", hint="use true or false")
    if name in _NUMBERS or name == "keep_ratio":
        return _number(float, variable, text)
    if name in _INTEGERS and not (name == "keep_records" and text.lower() == "all"):
        return _number(int, variable, text)
    if name == "sample_servers":
        return tuple(address.strip() for address in text.split(",") if address.strip())
    if name == "keep_records":
        return None
    return text


def _number(kind: type[int | float], variable: str, text: str) -> float:
    try:
        return kind(text)
    except ValueError:
        raise ConfigError(f"{variable} is '{text}'", hint="use a number") from None
