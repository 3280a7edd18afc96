"""What can be configured: every field has a ``LATSPAN_*`` variable."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypedDict, cast, get_args
from urllib.parse import urlsplit

from latspan import _shown
from latspan._surroundings import address_of
from latspan.errors import ConfigError, UnknownNameError
from latspan.metrics import Expectations
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
    "include_usage",
    "gen_ai_latency",
)
_POSITIVE: Final = (
    "metrics_interval_s",
    "series_idle_s",
    "stall_ms",
    "first_token_target_ms",
    "token_target_ms",
    "reading_tokens_per_s",
    "sample_interval_s",
    "slow_ms",
)
"""Settings that are numbers above 0."""

_UNLESS_UNSET: Final = frozenset({"metrics_interval_s", "slow_ms"})
"""Those of them that may be ``None``: OpenTelemetry's variable says, or there is no such limit."""

_INTEGERS: Final[Mapping[str, tuple[int, float]]] = {
    "metrics_scale": (-10, 20),
    "metrics_max_buckets": (2, math.inf),
    "series_limit": (1, math.inf),
}
"""Settings that are whole numbers, and from where to where."""

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
        metrics_interval_s: Seconds between two exports of metrics, more than 0. Unset,
            ``OTEL_METRIC_EXPORT_INTERVAL`` says, and otherwise it is 60.
        metrics_scale: How fine exported histograms are, in [-10, 20]. 8 keeps the middle of a
            bucket within 0.3 % of a value in it, and is the finest that Prometheus keeps.
        metrics_max_buckets: How many buckets an exported histogram may have, at least 2. One that
            spans more has its scale lowered.
        series_limit: How many series of one metric are told apart, at least 1. What comes under
            further keys is counted in one series more, and said so.
        series_idle_s: Seconds after which a series without new values is forgotten, once its last
            ones were delivered; more than 0.
        histogram_log: A folder in which each process keeps a log of its exact histograms, one
            interval after the other, whether or not anything is exported.
        histogram_payloads: Send each interval's exact histograms too, as OTLP log records, so
            that those of a fleet can be merged without loss.
        propagate: Whether ``traceparent`` and ``tracestate`` are added to requests.
        count_tokens: Count the tokens of calls whose provider did not, from their text, and mark
            the counts as estimated. Needs the extra ``tokens``, or encodings that tiktoken has
            cached; nothing is fetched.
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
        sample_interval_s: Seconds between two samples, more than 0.
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
        config.validate()
        return config

    def validate(self) -> None:
        """
        Refuse what cannot work.

        Raises:
            ConfigError: With the value that is wrong, and how to mend it.
        """
        if self.endpoint is not None:
            _check_endpoint(self.endpoint)
        if self.protocol is not None and self.protocol not in get_args(Protocol):
            raise ConfigError(
                f"protocol is '{self.protocol}'",
                hint=f"use one of {', '.join(get_args(Protocol))}",
            )
        for name in _POSITIVE:
            value = getattr(self, name)
            if value is not None or name not in _UNLESS_UNSET:
                _check_positive(name, value)
        for name, (least, most) in _INTEGERS.items():
            _check_integer(name, getattr(self, name), least, most)
        _check_ratio(self.keep_ratio)
        _check_kept(self.keep_records)
        _check_folder(self.histogram_log)
        _check_servers(self.sample_servers)
        for name in _SWITCHES:
            _check_switch(name, getattr(self, name))

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

    def protocol_of(self, signal: Signal, environment: Mapping[str, str] = os.environ) -> Protocol:
        """Return the OTLP protocol in use for ``signal``."""
        if self.protocol is not None:
            return self.protocol
        for said in _values(environment, signal, "PROTOCOL"):
            if said == "grpc" or said == "http/protobuf":
                return said
        endpoints = [self.endpoint, *_values(environment, signal, "ENDPOINT")]
        where = next(filter(None, endpoints), _DEFAULT_ENDPOINTS["http/protobuf"])
        _check_endpoint(where)
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
            if any(_values(environment, signal, "ENDPOINT")):
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


def _values(environment: Mapping[str, str], signal: Signal, what: str) -> list[str]:
    """Return what the OTLP variables say, the one of the signal first."""
    variables = (f"OTEL_EXPORTER_OTLP_{signal.upper()}_{what}", f"OTEL_EXPORTER_OTLP_{what}")
    return [environment.get(variable, "").strip() for variable in variables]


def _check_positive(name: str, value: object) -> None:
    """Refuse what is no finite number above 0; callers are not all type-checked."""
    usable = isinstance(value, int | float) and 0 < value < math.inf
    if not usable:
        raise ConfigError(f"{name} is {value!r}", hint="use a number greater than 0")


def _check_ratio(value: object) -> None:
    if isinstance(value, bool) or not (isinstance(value, int | float) and 0 < value <= 1):
        raise ConfigError(
            f"keep_ratio is {value!r}",
            hint="use a number above 0 and up to 1, for example 0.05 for one trace in twenty;"
            " OTEL_TRACES_EXPORTER=none exports no spans",
        )


def _check_integer(name: str, value: object, least: int, most: float) -> None:
    if not (type(value) is int and least <= value <= most):
        reach = f"of {least} or more" if most == math.inf else f"from {least} to {most}"
        raise ConfigError(f"{name} is {value!r}", hint=f"use a whole number {reach}")


def _check_switch(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise ConfigError(f"{name} is {value!r}", hint="use True or False")


def _check_kept(value: object) -> None:
    if value is not None and not (isinstance(value, int) and value >= 0):
        raise ConfigError(f"keep_records is {value!r}", hint="use 0 or more, or None to keep all")


def _check_folder(path: str | None) -> None:
    if path is not None and Path(path).exists() and not Path(path).is_dir():
        raise ConfigError(
            f"histogram_log is '{path}', which is no folder",
            hint="name a folder; each process makes a file of its own in it",
        )


def _check_servers(addresses: object) -> None:
    hint = "for example ['http://127.0.0.1:8080']; http:// or https://, and no user in it"
    # A text is a sequence too, of letters.
    if isinstance(addresses, str) or not isinstance(addresses, Sequence):
        # Not shown, here and below: it may hold a password.
        raise ConfigError("sample_servers is not a list of addresses", hint=hint)
    for number, address in enumerate(cast("Sequence[object]", addresses), start=1):
        try:
            address_of(str(address))
        except ValueError:
            raise ConfigError(f"sample_servers: no {number} is no address", hint=hint) from None


def _check_endpoint(endpoint: object) -> None:
    try:
        parts = urlsplit(str(endpoint))
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname)
        _ = parts.port
    except ValueError:
        usable = False
    if not usable:
        shown = _shown.address(str(endpoint))
        raise ConfigError(
            f"endpoint is '{shown}', which is no http:// or https:// address",
            hint="for example http://localhost:4318 (OTLP over HTTP) or http://localhost:4317"
            " (gRPC)",
        )


def _parsed(name: str, variable: str, text: str) -> Any:
    """Return the value of a ``LATSPAN_*`` variable as its field's type."""
    text = text.strip()
    if name in _SWITCHES:
        lowered = text.lower()
        if lowered in _TRUE | _FALSE:
            return lowered in _TRUE
        raise ConfigError(f"{variable} is '{text}'", hint="use true or false")
    if name in _POSITIVE or name == "keep_ratio":
        return _number(float, variable, text)
    if name in _INTEGERS:
        return _number(int, variable, text)
    if name == "sample_servers":
        return tuple(address.strip() for address in text.split(",") if address.strip())
    if name == "keep_records":
        return None if text.lower() == "all" else _number(int, variable, text)
    return text


def _number(kind: type[int | float], variable: str, text: str) -> float:
    try:
        return kind(text)
    except ValueError:
        raise ConfigError(f"{variable} is '{text}'", hint="use a number") from None
