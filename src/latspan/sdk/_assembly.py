"""Putting the parts together, as a configuration says."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from latspan import semconv
from latspan._fork import this_process
from latspan._runtime import Runtime, nobody_observes
from latspan._spans import NoSink, SpanSink
from latspan.clock import Clock, SystemClock
from latspan.recording import Recorder
from latspan.sdk._config import Config
from latspan.sdk._content import captures_content, token_counter
from latspan.sdk._last_export import run_before_a_child_ends
from latspan.sdk._per_process import PerProcess
from latspan.sdk._propagation import propagates
from latspan.sdk._sinks import Sinks
from latspan.sdk._worker import Worker

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider

    from latspan._surroundings import Surroundings
    from latspan.export import IntervalExport, OtlpPayloads, Outlet, Reading
    from latspan.sampling import HeldTraces, SamplingSink
    from latspan.sdk._span_export import SpanExport
    from latspan.tokens import TokenCounts
    from latspan.wire import Content

__all__ = ["Assembly", "assemble"]


@dataclass(frozen=True, slots=True)
class Assembly:
    """
    What is switched on, and what must be flushed and stopped again.

    Args:
        runtime: What live requests use.
        worker: Settles finished requests.
        spans: Sends the private provider's spans, if anything does.
        sampling: Decides which of them are sent, if not all are.
        intervals: Sends this process's histograms, if anything does.
        surroundings: Samples what happens around requests, if anybody asked for that.
    """

    runtime: Runtime
    worker: Worker
    spans: SpanExport | None
    sampling: SamplingSink | None
    intervals: PerProcess[IntervalExport] | None
    surroundings: Surroundings | None


_NOT_SAMPLED: Final = (
    "keep_ratio and slow_ms change nothing: the application's provider has the spans, and its"
    " sampler rules"
)

_global_provider: TracerProvider | None = None


def assemble(config: Config, *, at_end: Callable[[], None]) -> Assembly:
    """
    Put together what ``config`` says; threads and exporters begin here.

    In a forked child they begin once more, with its first request: until then a child has no
    thread, opens no connection and imports nothing, as many a child only runs another program.

    Args:
        config: Validated.
        at_end: What a child that ends without ``atexit`` is to do last.
    """
    clock = SystemClock()
    recorder = Recorder(clock, keep=config.keep_records, series_limit=config.series_limit)
    resource = _resource(config)
    private, spans = _private_spans(config, resource, at_end)
    sampling = None if spans is None else _sampling(config, private)

    surroundings = _surroundings(config, clock)

    def begin() -> None:
        run_before_a_child_ends(at_end)
        if surroundings is not None:
            surroundings.start()
        if spans is not None:
            spans.start()
        if intervals is not None:
            intervals()

    worker = Worker(on_start=begin, patient=True)

    def readings() -> list[Reading]:
        return _readings(recorder, worker, spans, sampling)

    sinks = Sinks(
        sampling or private,
        config.tracer_provider,
        begin=worker.start,
        instead=None if sampling is None else _NOT_SAMPLED,
    )
    intervals = _intervals(
        config, _resource_of_metrics(config, sinks, resource), recorder, readings
    )
    if surroundings is not None:
        # Now, so that there is a sample before the first request.
        surroundings.start()
    runtime = Runtime(
        clock=clock,
        recorder=recorder,
        sink=sinks,
        settle=worker.submit,
        drain=worker.drain,
        propagate=config.propagate and propagates(),
        defaults=config.defaults,
        expected=config.expected,
        count_tokens=_token_counter(config, worker),
        captures_content=captures_content(),
        include_usage=config.include_usage,
        gen_ai_latency=config.gen_ai_latency,
        observe=surroundings or nobody_observes,
    )
    return Assembly(runtime, worker, spans, sampling, intervals, surroundings)


def _surroundings(config: Config, clock: Clock) -> Surroundings | None:
    """Return what samples what happens around requests, ``None`` where nobody asked for it."""
    if not config.sample_servers and not config.sample_host:
        return None
    from latspan._surroundings import Surroundings

    return Surroundings(
        clock.monotonic_ns,
        servers=config.sample_servers,
        host=config.sample_host,
        interval_s=config.sample_interval_s,
    )


def _token_counter(
    config: Config, worker: Worker
) -> Callable[[Content, str | None], TokenCounts] | None:
    if not config.count_tokens:
        return None
    from latspan.tokens import encodings

    return token_counter(encodings(), worker)


def _exports(config: Config, variable: str) -> bool:
    return config.export and os.environ.get(variable, "").strip().lower() != "none"


def _resource(config: Config) -> Callable[[], Resource]:
    """Return what says what this process is called, once something is to be exported."""
    own: PerProcess[Resource] | None = None

    def of_this_process(parents: Resource | None) -> Resource:
        from latspan.export import resource_of, resource_of_child

        return resource_of(config.service_name) if parents is None else resource_of_child(parents)

    def resource() -> Resource:
        nonlocal own
        if own is None:
            own = PerProcess(of_this_process)
        return own()

    return resource


def _resource_of_metrics(
    config: Config, sinks: Sinks, own: Callable[[], Resource]
) -> Callable[[], Resource]:
    """Return what says what metrics are of: of what their exemplars' spans are."""
    begun_in = this_process()

    def resource() -> Resource:
        provider = sinks.provider()
        if provider is None or provider is _global_provider:
            return own()
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource

        from latspan.export._resource import resource_beside

        is_child = this_process() is not begun_in
        beside = resource_beside(provider, own(), is_child=is_child)
        if config.service_name is None:
            return beside
        return beside.merge(Resource({SERVICE_NAME: config.service_name}))

    return resource


def _private_spans(
    config: Config, resource: Callable[[], Resource], at_end: Callable[[], None]
) -> tuple[SpanSink, SpanExport | None]:
    global _global_provider
    if not _exports(config, "OTEL_TRACES_EXPORTER"):
        return NoSink(), None
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider

    from latspan.export import PrivateSink, otlp_spans
    from latspan.sdk._span_export import SpanExport

    protocol, endpoint = config.protocol_of("traces"), config.endpoint_of("traces")
    spans = SpanExport(
        lambda: otlp_spans(protocol, endpoint),
        resource=resource,
        on_start=lambda: run_before_a_child_ends(at_end),
    )
    # Held by nobody but a global one's users: in a forked child a provider looks for its
    # resource on threads, at once.
    provider = TracerProvider(resource=resource(), shutdown_on_exit=False)
    if _global_provider is not None:
        # A process's provider can be set once: what was configured before made it ours.
        _global_provider.add_span_processor(spans)
    elif config.set_global:
        provider.add_span_processor(spans)
        trace.set_tracer_provider(provider)
        _global_provider = provider
    return PrivateSink(provider, spans.take), spans


def _sampling(config: Config, private: SpanSink) -> SamplingSink | None:
    """Return what decides which traces are kept, ``None`` where all are."""
    if config.keep_ratio == 1:
        return None
    from latspan.sampling import SamplingSink

    return SamplingSink(private, config.keep_ratio, config.slow_ns)


def _readings(
    recorder: Recorder,
    worker: Worker,
    spans: SpanExport | None,
    sampling: SamplingSink | None,
) -> list[Reading]:
    """Return what there is to say about latspan itself, now."""
    from latspan.export import Reading, readings_of

    waiting = worker.waiting() + recorder.waiting()
    return [
        *readings_of(recorder),
        *(() if spans is None else spans.readings()),
        *(() if sampling is None else _of_traces(sampling.traces)),
        Reading(semconv.METRIC_QUEUE_SIZE, waiting),
    ]


def _of_traces(traces: HeldTraces) -> Iterator[Reading]:
    """Yield how many traces were left out, which is no loss, and what was lost of the others."""
    from latspan.export import Reading

    yield Reading(semconv.METRIC_TRACES_LEFT_OUT, traces.left_out)
    yield Reading(
        semconv.METRIC_DROPPED,
        traces.lost,
        {semconv.LATSPAN_SIGNAL: "spans", semconv.LATSPAN_REASON: "too_many_held"},
    )


def _intervals(
    config: Config,
    resource: Callable[[], Resource],
    recorder: Recorder,
    readings: Callable[[], Iterable[Reading]],
) -> PerProcess[IntervalExport] | None:
    """Return what hands out the recorder's intervals, ``None`` where nobody wants them."""
    metrics = _exports(config, "OTEL_METRICS_EXPORTER")
    payloads = config.histogram_payloads and _exports(config, "OTEL_LOGS_EXPORTER")
    folder = config.histogram_log
    if not metrics and not payloads and folder is None:
        return None

    def outlets() -> Iterator[Outlet]:
        from latspan import export

        # Files first: they keep nobody waiting.
        if folder is not None:
            yield export.HistogramLogs(folder)
        exact = _payloads(config, resource) if payloads else None
        if metrics:
            protocol = config.protocol_of("metrics")
            session = None if protocol == "grpc" else export.http_session("METRICS")
            yield export.OtlpMetrics(
                recorder,
                export.otlp_metric_exporter(protocol, config.endpoint_of("metrics"), session),
                session=session,
                resource=resource,
                about=lambda: (*readings(), *(() if exact is None else exact.readings())),
                scale=config.metrics_scale,
                max_buckets=config.metrics_max_buckets,
            )
        if exact is not None:
            yield exact

    def begin(_: IntervalExport | None) -> IntervalExport:
        from latspan.export import IntervalExport

        return IntervalExport(
            recorder,
            list(outlets()),
            interval_s=config.metrics_interval_s,
            idle_s=config.series_idle_s,
        )

    return PerProcess(begin)


def _payloads(config: Config, resource: Callable[[], Resource]) -> OtlpPayloads:
    from latspan import export

    protocol = config.protocol_of("logs")
    session = None if protocol == "grpc" else export.http_session("LOGS")
    exporter = export.otlp_log_exporter(protocol, config.endpoint_of("logs"), session)
    return export.OtlpPayloads(exporter, session=session, resource=resource)
