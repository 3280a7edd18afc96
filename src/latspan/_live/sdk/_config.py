"""Configuration of latspan: every field has a ``LATSPAN_*`` variable."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final, Literal, ParamSpec, TypeVar, cast, get_args

from latspan._base.nanoseconds import NS_PER_S
from latspan._live.sdk._endpoints import OtlpTarget, Signal, is_switched_off, target_for
from latspan._live.sdk._settings import (
    addresses,
    choice,
    endpoint,
    folder,
    fraction,
    headers,
    integer,
    kind_of,
    names,
    nearest,
    number,
    provider,
    switch,
    text,
)
from latspan._model.metrics import Expectations
from latspan._model.units import from_unit
from latspan.errors import UnknownNameError

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

_PREFIX: Final = "LATSPAN_"
_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """
    Settings of latspan. A value set in code overrides the environment, which overrides the default.

    Every field except ``tracer_provider`` is also read from the variable ``LATSPAN_`` followed by
    its name in upper case.

    Args:
        endpoint: Address of an OTLP collector or backend, for example ``http://localhost:4318``,
            without ``/v1/traces``. If not set, ``OTEL_EXPORTER_OTLP_*`` apply, and otherwise
            ``http://localhost:4318`` (gRPC: port 4317).
        protocol: ``http/protobuf`` or ``grpc``. If not set, ``OTEL_EXPORTER_OTLP_PROTOCOL``
            applies, and otherwise ``grpc`` for port 4317 and ``http/protobuf`` for any other.
        service_name: ``service.name`` of exported telemetry. If not set, metrics have the resource
            of the application's tracer provider. If the application has no tracer provider, all
            telemetry has the name in ``OTEL_SERVICE_NAME``.
        export_enabled: Whether to export anything. If false, ``latspan.snapshot()`` still returns
            the histograms.
        metrics_interval_s: Seconds between two exports of metrics, at least 0.001. If not set,
            ``OTEL_METRIC_EXPORT_INTERVAL`` applies, and otherwise 60.
        metrics_scale: Scale of exported exponential histograms, in [-10, 20]. At 8, the middle of a
            bucket is within 0.3 % of each value in it; Prometheus reduces a finer scale to 8.
        metrics_max_buckets: Maximum number of buckets of an exported histogram, at least 2. A
            histogram that needs more is exported at a lower scale.
        cardinality_limit: Maximum number of series per metric, at least 1. Values of further series
            are counted in one common series per kind and outcome, which has the attribute
            ``otel.metric.overflow``.
        series_attributes: Names of your own attributes that latspan also sets on histograms, at
            most 16, for example ``("prompt.version",)``. Set their values with
            ``latspan.attributes()``, ``latspan.annotate()`` or ``set_attribute()`` of an open
            request or stage. Percentiles can be filtered by them, and exported metrics have them.
            Each combination of values creates a series, so use only attributes with few values. In
            the variable, commas separate the names.
        response_headers: Names of response headers to record as attributes of calls, at most 16,
            for example ``("x-worker",)``, in addition to those that latspan records anyway: see the
            guide on gateways. A header that may contain a secret cannot be recorded. In the
            variable, commas separate the names.
        series_idle_s: Seconds after which a series without new values is dropped, once its last
            values have been exported; at least 0.001.
        histogram_log_dir: Folder in which each process writes a log of its exact histograms, one
            entry per export interval, even if ``export_enabled`` is false.
        export_raw_histograms: Whether to export each interval's exact histograms too, as OTLP log
            records, so that histograms of many processes can be merged without loss.
        propagate: Whether to add ``traceparent`` and ``tracestate`` to requests.
        count_tokens: Whether to count tokens from the text of a call if the provider reports no
            counts. Such counts are marked as estimated. Needs the extra ``tokens``, or encodings in
            tiktoken's cache; nothing is downloaded.
        capture_media: Whether captured content includes images, audio and files. If false, only
            their type is captured. It has an effect only if
            ``OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT`` switches capturing on.
        export_url_paths: Whether spans have the path of a URL: those of served requests in
            ``url.path``, and those of calls that a plain HTTP client made in ``url.full``. Paths
            may contain secrets and personal data; the template of a route is exported anyway.
        request_stream_usage: Whether to request token counts for streams of the OpenAI SDK if the
            caller does not set ``stream_options``. This changes the request and adds a chunk
            without choices to the stream.
        emit_gen_ai_latency: Whether to set vLLM's ``gen_ai.latency.*`` attributes on the spans of
            served requests for which a model was set, for dashboards that read them.
        set_global_provider: Whether to make latspan's tracer provider the global one, so that the
            application's spans use it too.
        tracer_provider: Tracer provider to use, even if another one is global.
        inference_path: Inference path of requests that do not set one, see
            ``latspan.attributes()``.
        route: Route of requests that do not set one.
        traffic_class: Traffic class of requests that do not set one.
        stall_threshold_ms: Length above which a gap between two token-bearing chunks counts as a
            stall; more than 0.
        first_token_target_ms: Deadline of a stream's first token, measured from the start of the
            call, for the metric ``fluidity``; more than 0.
        token_target_ms: Time from the deadline of a token to the deadline of the next one, for the
            metric ``fluidity``; more than 0.
        reading_tokens_per_s: Reading speed of the user, for the metric ``buffer_needed``; more than
            0.
        scrape_servers: Addresses of model servers whose queue and cache metrics are scraped. The
            values are set on the spans of calls to these servers, and of requests that this process
            serves. In the variable, commas separate the addresses. An address without a path stands
            for ``/metrics`` and ``/slots``. Needs the extra ``scraping``.
        monitor_host: Whether to set the load of the process and its machine on spans.
        scrape_interval_s: Seconds between two samples, at least 0.001.
        watch_event_loop: Whether to watch the asyncio loops of calls, requests and stages, so that
            the time in which the application blocked a loop is the segment ``event_loop``. While a
            call, request or stage is open on a loop, a timer runs on it 100 times per second.
        tail_sampling_ratio: Maximum fraction of traces to export, in (0, 1]; 1 keeps all. It
            applies only while the application has no tracer provider. Below 1, a trace is kept or
            dropped once it has ended: failed traces, the slowest ones and a few at random are kept.
            Failed traces are kept even if they alone exceed the fraction. Histograms count every
            request.
        tail_sampling_slow_ms: Duration above which tail sampling always keeps a trace; more than 0.
            If not set, there is no such limit.
        console: Whether to print one line per finished request and call on stderr: name, duration,
            time to the first token, largest segment and outcome. Use it during development.
        console_waterfalls: Whether to print the lines of ``console``, each followed by a waterfall.
        keep_records: Number of the latest records that are kept complete, in addition to the
            histograms, for the waterfalls of ``latspan.report()``. Requests, calls and stages count
            alike: a request with two calls and three stages has six records. A record takes 3 to 50
            kB; one of a stream with more than 256 chunks is kept without the gaps between them.
            ``None`` (in the variable: ``all``) keeps all of them, for demonstrations and tests.
        record_dir: Folder of a recording, to which each process writes one line per finished
            request, call and stage, and its histograms, even if ``export_enabled`` is false.
            ``latspan.open_recording()`` and ``latspan report`` read it. Prompts and responses are
            not written.
        record_rate_limit: Number of lines per second and process above which a recording has only a
            sample of the requests, at least 1; its histograms count all of them. ``None`` writes
            all lines.
        record_size_limit_mb: Size in megabytes at which a process stops writing lines, at least 1.
    """

    endpoint: str | None = endpoint()
    protocol: Literal["http/protobuf", "grpc"] | None = choice(None, "http/protobuf", "grpc")
    service_name: str | None = text()
    export_enabled: bool = switch(True)
    metrics_interval_s: float | None = number(None, minimum=0.001, maximum=1e9)
    metrics_scale: int = integer(8, minimum=-10, maximum=20)
    metrics_max_buckets: int = integer(4096, minimum=2)
    cardinality_limit: int = integer(2000, minimum=1)
    series_attributes: Sequence[str] = names()
    response_headers: Sequence[str] = headers()
    series_idle_s: float = number(3600.0, minimum=0.001, maximum=1e9)
    histogram_log_dir: str | None = folder()
    export_raw_histograms: bool = switch(False)
    propagate: bool = switch(True)
    count_tokens: bool = switch(False)
    capture_media: bool = switch(False)
    export_url_paths: bool = switch(False)
    request_stream_usage: bool = switch(False)
    emit_gen_ai_latency: bool = switch(False)
    set_global_provider: bool = switch(False)
    tracer_provider: TracerProvider | None = provider()  # noqa: RUF009, a field, not a value
    inference_path: str | None = text()
    route: str | None = text()
    traffic_class: str | None = text()
    stall_threshold_ms: float = number(500.0, minimum=1e-9, maximum=1e12)
    first_token_target_ms: float = number(500.0, minimum=1e-9, maximum=1e12)
    token_target_ms: float = number(200.0, minimum=1e-9, maximum=1e12)
    reading_tokens_per_s: float = number(5.0, minimum=1e-9, maximum=1e12)
    scrape_servers: Sequence[str] = addresses()
    monitor_host: bool = switch(False)
    scrape_interval_s: float = number(0.5, minimum=0.001, maximum=1e9)
    watch_event_loop: bool = switch(True)
    tail_sampling_ratio: float = fraction(1.0)
    tail_sampling_slow_ms: float | None = number(None, minimum=1e-9, maximum=1e12)
    console: bool = switch(False)
    console_waterfalls: bool = switch(False)
    keep_records: int | None = integer(100, minimum=0, word_for_none="all")
    record_dir: str | None = folder()
    record_rate_limit: int | None = integer(500, minimum=1, word_for_none="all")
    record_size_limit_mb: int = integer(1000, minimum=1)

    def validate(self, environment: Mapping[str, str] = os.environ) -> None:
        """
        Validate every setting and the endpoint of every signal.

        Args:
            environment: Source of the ``OTEL_*`` variables.

        Raises:
            ConfigError: A value is not valid; the message has the value and a hint.
        """
        for field in fields(self):
            kind_of(field).check(field.name, getattr(self, field.name))
        for signal in get_args(Signal):
            is_used = signal != "logs" or self.export_raw_histograms
            if is_used and is_exported(self, signal, environment):
                otlp_target(self, signal, environment)


def read_config(
    settings: Mapping[str, object], environment: Mapping[str, str] = os.environ
) -> Config:
    """
    Return the validated configuration that ``settings`` and the environment define.

    Args:
        settings: Settings given in code, by field.
        environment: Source of the ``LATSPAN_*`` and ``OTEL_*`` variables.

    Raises:
        UnknownNameError: ``settings`` has a name that is not a field.
        ConfigError: A value is not valid.
    """
    by_name = {field.name: field for field in fields(Config)}
    for name in settings:
        if name not in by_name:
            meant = nearest(name, by_name)
            every = f"one of {', '.join(sorted(by_name))}"
            raise UnknownNameError(
                f"no setting '{name}'",
                hint=every if meant is None else f"did you mean '{meant}'? It is {every}",
            )
    merged: dict[str, Any] = {}
    for name, field in by_name.items():
        variable = _PREFIX + name.upper()
        parse = kind_of(field).parse
        if name in settings:
            merged[name] = settings[name]
        elif parse is not None and environment.get(variable):
            merged[name] = parse(variable, environment[variable].strip())
    config = Config(**merged)
    config.validate(environment)
    return config


def is_exported(
    config: Config, signal: Signal, environment: Mapping[str, str] = os.environ
) -> bool:
    """Return whether ``signal`` may be exported, if there is any data for it."""
    return config.export_enabled and not is_switched_off(signal, environment)


def otlp_target(
    config: Config, signal: Signal, environment: Mapping[str, str] = os.environ
) -> OtlpTarget:
    """
    Return the protocol and the address to which ``signal`` is sent.

    Raises:
        ConfigError: The address in an ``OTEL_*`` variable is not valid.
    """
    return target_for(signal, config.endpoint, config.protocol, environment)


def expectations(config: Config) -> Expectations:
    """Return the expectations that streams are measured against, in nanoseconds."""
    return Expectations(
        stall_ns=from_unit(config.stall_threshold_ms, "ms"),
        first_token_ns=from_unit(config.first_token_target_ms, "ms"),
        token_ns=max(1, from_unit(config.token_target_ms, "ms")),
        reading_ns=round(NS_PER_S / config.reading_tokens_per_s),
    )


def default_attributes(config: Config) -> dict[str, str]:
    """Return the attributes of requests that do not set their own."""
    values = {
        "inference_path": config.inference_path,
        "route": config.route,
        "traffic_class": config.traffic_class,
    }
    return {name: value for name, value in values.items() if value is not None}


def with_parameters_of(
    source: Callable[_Parameters, object],
) -> Callable[[Callable[..., _Result]], Callable[_Parameters, _Result]]:
    """
    Return a decorator that gives a function the parameters of ``source``.

    Type checkers, editors and ``help`` show these parameters. The function receives only the
    arguments that the caller has passed, so it can distinguish an omitted argument from one that
    equals the default.
    """

    def decorate(function: Callable[..., _Result]) -> Callable[_Parameters, _Result]:
        parameters = tuple(inspect.signature(source).parameters.values())
        signature = inspect.signature(function).replace(parameters=parameters)
        setattr(function, "__signature__", signature)  # noqa: B010, no function declares it
        return cast("Callable[_Parameters, _Result]", function)

    return decorate
