"""Assembly of the telemetry pipeline from a configuration."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from latspan import semconv
from latspan._base.clock import Clock, SystemClock
from latspan._base.fork import run_before_a_child_ends, this_process
from latspan._base.nanoseconds import NS_PER_S
from latspan._live.operations import end_left_operations
from latspan._live.otel.spans import SpanSink
from latspan._live.process.event_loop import EventLoops
from latspan._live.process.loading import (
    DeferredExporter,
    DeferredIntervalExporter,
    Loader,
    load_later_modules,
)
from latspan._live.process.per_process import PerProcess
from latspan._live.process.runtime import EmitEvent, Runtime, no_watch
from latspan._live.process.sigterm import wake_sigterm
from latspan._live.process.worker import Worker
from latspan._live.sdk._api_variables import propagates
from latspan._live.sdk._assembly import Assembly
from latspan._live.sdk._config import Config, default_attributes, expectations, is_exported
from latspan._live.sdk._content import Capture, Events, capture, token_counter
from latspan._live.sdk._exporters import (
    event_exporter,
    exporter_imports,
    metrics_exporter,
    payload_exporter,
)
from latspan._live.sdk._private_provider import private_spans
from latspan._live.sdk._record_export import RecordOutputs, recording_folders, writes_records
from latspan._live.sdk._span_routing import SpanRouter
from latspan._live.sdk._start_line import StartLine
from latspan._model.recording import Recorder
from latspan._model.units import from_unit
from latspan.errors import ConfigError, LatspanError

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.trace import TracerProvider as ApiProvider

    from latspan._live.otel.export import (
        IntervalExporter,
        OtlpPayloads,
        PeriodicExport,
        SelfMetric,
    )
    from latspan._live.sampling import SamplingSink, TraceBuffer
    from latspan._live.scraping import Monitor
    from latspan._live.sdk._span_export import SpanExport
    from latspan._model.tokens import TokenCounts
    from latspan._model.wire import Content

_LEFT_FOR_GOOD_NS: Final = 60 * NS_PER_S
"""
Time after which a stream that the caller stopped reading ends and is counted in the next interval.
"""

_POLL_S: Final = 0.1
_POLL_TO_WRITE_S: Final = 0.01
"""
Time in seconds between two polls of the worker thread if it writes records: a process that is
killed loses the records of this time. A hundred polls per second take 0.2 to 0.5 % of a processor
while requests are made.
"""

_NO_SERVICE: Final = "unknown_service"
"""Service name if none is set. Source: OpenTelemetry resource conventions, "Service"."""

_NOT_SAMPLED: Final = (
    "tail_sampling_ratio and tail_sampling_slow_ms have no effect: spans use the application's"
    " provider, and its sampler applies"
)


def assemble(config: Config, *, at_end: Callable[[], None]) -> Assembly:
    """
    Assemble the pipeline for ``config``. If this raises, everything created so far has been closed.

    A forked child starts new threads and exporters with its first request. Until then it has no
    thread, opens no connection and imports nothing, because many children only run another
    program.

    Args:
        config: Validated configuration.
        at_end: Last action of a child that exits without ``atexit``.

    Raises:
        ConfigError: An exporter or the SDK rejects a value in the environment.
        MissingExtraError: A package that a setting needs is not installed.
    """
    with ExitStack() as undo:
        try:
            assembly = _assembled(config, at_end, undo)
        except LatspanError:
            raise
        except Exception as error:
            raise ConfigError(
                f"telemetry cannot be exported as configured: {error}",
                hint="look for an OTEL_* variable whose value OpenTelemetry does not accept;"
                " latspan doctor shows them",
            ) from error
        undo.pop_all()
        return assembly


def _assembled(config: Config, at_end: Callable[[], None], undo: ExitStack) -> Assembly:
    clock = SystemClock()
    recorder = Recorder(clock, keep=config.keep_records, cardinality_limit=config.cardinality_limit)
    resource = _resource(config)
    loops = EventLoops(clock.monotonic_ns)
    monitor = _monitor(config, clock, loops)

    def begin_with_a_request() -> None:
        run_before_a_child_ends(at_end)
        wake_sigterm()
        outputs.begin()
        if monitor is not None:
            monitor.start()
        for export in (spans, events):
            if export is not None:
                export.start()
        if intervals is not None:
            intervals()
        # On the worker thread, because the line needs the resource, and a log handler may be slow.
        worker.submit(start_line.on_record)

    writes = writes_records(config)
    worker = Worker(on_start=begin_with_a_request, poll_s=_POLL_TO_WRITE_S if writes else _POLL_S)

    outputs = RecordOutputs(config, worker)

    def drain(timeout_s: float | None) -> bool:
        # A caller that flushes expects calls whose streams are no longer read to count as ended.
        end_left_operations()
        return worker.drain(timeout_s)

    def readings() -> list[SelfMetric]:
        return _readings(recorder, worker, (spans, events), sampling)

    def application() -> ApiProvider | None:
        return router.provider()

    of_metrics = _resource_of_metrics(config, application, resource)
    intervals, deferred = _intervals(config, of_metrics, recorder, readings, undo)
    private = private_spans(config, resource, at_end, undo)
    spans = private.export
    captured = capture()
    emit, events = _events(config, captured, resource, at_end, undo)
    sampling = None if spans is None else _sampling(config, private.sink)
    router = SpanRouter(
        private.sink if sampling is None else lambda: sampling,
        config.tracer_provider,
        begin=worker.start,
        warning=None if sampling is None else _NOT_SAMPLED,
    )
    start_line = StartLine(
        config,
        lambda: router.uses_application and not config.set_global_provider,
        lambda: _service_name(config, of_metrics),
    )
    runtime = Runtime(
        clock=clock,
        recorder=recorder,
        sink=router,
        enqueue=worker.submit,
        drain=drain,
        propagate=config.propagate and propagates(),
        defaults=default_attributes(config),
        expected=expectations(config),
        count_tokens=_token_counter(config, worker),
        captures_content=captured.on_spans,
        captures_media=config.capture_media,
        emit=emit,
        captures_in_events=captured.in_events,
        export_url_paths=config.export_url_paths,
        request_stream_usage=config.request_stream_usage,
        emit_gen_ai_latency=config.emit_gen_ai_latency,
        series_attributes=tuple(config.series_attributes),
        response_headers=frozenset(map(str.lower, config.response_headers)),
        observe=monitor,
        watch_loop=loops.watch if config.watch_event_loop else no_watch,
        write_record=outputs.write(),
    )
    return Assembly(
        runtime=runtime,
        worker=worker,
        drain=drain,
        application=application,
        spans=spans,
        events=events,
        sampling=sampling,
        intervals=intervals,
        loader=Loader(
            exporter_imports(config, emits_events=events is not None),
            [
                private.sink,
                load_later_modules,
                *(export.exporter.load for export in (spans, events) if export is not None),
                *(exporter.load for exporter in deferred),
            ],
        ),
        outputs=outputs,
        monitor=monitor,
        loops=loops,
        provider=private.provider,
        start_line=start_line,
    )


def _monitor(config: Config, clock: Clock, loops: EventLoops) -> Monitor | None:
    """Return the monitor of servers and host; ``None`` if neither is configured."""
    if not config.scrape_servers and not config.monitor_host:
        return None
    from latspan._live.scraping import Monitor, require_parser

    if config.scrape_servers:
        require_parser()
    return Monitor(
        clock.monotonic_ns,
        servers=config.scrape_servers,
        loops=loops if config.monitor_host else None,
        interval_s=config.scrape_interval_s,
    )


def _token_counter(
    config: Config, worker: Worker
) -> Callable[[Content, str | None], TokenCounts] | None:
    if not config.count_tokens:
        return None
    from latspan._model.tokens import encodings

    return token_counter(encodings(), worker)


def _resource(config: Config) -> Callable[[], Resource]:
    """Return a function whose first call in each process creates the resource."""

    def of_this_process(parents: Resource | None) -> Resource:
        from latspan._live.otel.export import resource_of, resource_of_child

        return resource_of(config.service_name) if parents is None else resource_of_child(parents)

    return PerProcess(of_this_process, at_once=False)


def _service_name(config: Config, resource: Callable[[], Resource]) -> str:
    """Return the service name of exported telemetry; the SDK is not loaded if none is exported."""
    if is_exported(config, "traces") or is_exported(config, "metrics"):
        return str(resource().attributes.get("service.name", _NO_SERVICE))
    return config.service_name or os.environ.get("OTEL_SERVICE_NAME") or _NO_SERVICE


def _resource_of_metrics(
    config: Config, application: Callable[[], ApiProvider | None], own: Callable[[], Resource]
) -> Callable[[], Resource]:
    """Return a function that returns the resource of metrics, which is that of the spans."""
    begun_in = this_process()

    def resource() -> Resource:
        from latspan._live.sdk._global_provider import is_latspans

        provider = application()
        if provider is None or is_latspans(provider):
            return own()
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource

        from latspan._live.otel.export._resource import application_resource

        is_child = this_process() is not begun_in
        theirs = application_resource(provider, own(), is_child=is_child)
        if config.service_name is None:
            return theirs
        return theirs.merge(Resource({SERVICE_NAME: config.service_name}))

    return resource


def _events(
    config: Config,
    captured: Capture,
    resource: Callable[[], Resource],
    at_end: Callable[[], None],
    undo: ExitStack,
) -> tuple[EmitEvent | None, SpanExport | None]:
    """Return the event emitter, and the exporter used if the application has no provider."""
    if not captured.emits_events:
        return None, None

    if not is_exported(config, "logs"):
        return Events(None), None
    from latspan._live.otel.export import event_batches, event_record
    from latspan._live.sdk._span_export import SpanExport

    export = SpanExport(
        event_exporter(config),
        on_start=lambda: run_before_a_child_ends(at_end),
        batches=event_batches(),
        signal="events",
    )
    undo.callback(lambda: export.closing()(0))
    return Events(lambda record: export.take((event_record(record, resource()),))), export


def _sampling(config: Config, private: Callable[[], SpanSink]) -> SamplingSink | None:
    """Return the sink that decides which traces are kept; ``None`` if all are kept."""
    if config.tail_sampling_ratio == 1:
        return None
    from latspan._live.sampling import SamplingSink

    slow_ms = config.tail_sampling_slow_ms
    slow_ns = None if slow_ms is None else from_unit(slow_ms, "ms")
    return SamplingSink(private(), config.tail_sampling_ratio, slow_ns)


def _readings(
    recorder: Recorder,
    worker: Worker,
    exports: Iterable[SpanExport | None],
    sampling: SamplingSink | None,
) -> list[SelfMetric]:
    """Return the current values of latspan's self-metrics."""
    from latspan._live.otel.export import SelfMetric, readings_of

    waiting = worker.waiting() + recorder.waiting()
    return [
        *readings_of(recorder),
        *(reading for export in exports if export is not None for reading in export.readings()),
        *(() if sampling is None else _of_traces(sampling.traces)),
        SelfMetric(semconv.METRIC_QUEUE_SIZE, waiting),
    ]


def _of_traces(traces: TraceBuffer) -> Iterator[SelfMetric]:
    """Yield two numbers: traces that were sampled out, which are not a loss, and lost spans."""
    from latspan._live.otel.export import SelfMetric

    yield SelfMetric(semconv.METRIC_TRACES_SAMPLED_OUT, traces.sampled_out)
    yield SelfMetric(
        semconv.METRIC_DROPPED,
        traces.lost,
        {semconv.LATSPAN_SIGNAL: "spans", semconv.LATSPAN_REASON: "too_many_held"},
    )


def _intervals(
    config: Config,
    resource: Callable[[], Resource],
    recorder: Recorder,
    readings: Callable[[], Iterable[SelfMetric]],
    undo: ExitStack,
) -> tuple[PerProcess[PeriodicExport] | None, Sequence[DeferredExporter[IntervalExporter]]]:
    """Return the export of the recorder's intervals, if any, and the exporters to load for it."""
    deferred: list[DeferredExporter[IntervalExporter]] = []
    exact: DeferredExporter[OtlpPayloads] | None = None
    folders = recording_folders(config)
    if config.histogram_log_dir is not None:
        folders.append(config.histogram_log_dir)

    def about() -> Iterable[SelfMetric]:
        payloads = None if exact is None else exact.made()
        return (*readings(), *(() if payloads is None else payloads.readings()))

    if is_exported(config, "metrics"):
        deferred.append(metrics_exporter(config, resource, recorder, about))
    if config.export_raw_histograms and is_exported(config, "logs"):
        exact = payload_exporter(config, resource)
        deferred.append(exact)
    if not deferred and not folders:
        return None, deferred

    def exporters() -> Iterator[IntervalExporter]:
        # Files first: they do not delay the exporters that follow.
        if folders:
            from latspan._live.otel.export import HistogramLogs

            yield from map(HistogramLogs, folders)
        yield from map(DeferredIntervalExporter, deferred)

    # Created now, so that a file that cannot be created fails before anything has begun.
    first: list[IntervalExporter] = []
    for exporter in exporters():
        first.append(exporter)
        undo.callback(exporter.shutdown, 0)

    def begin(inherited: PeriodicExport | None) -> PeriodicExport:
        from latspan._live.otel.export import PeriodicExport

        return PeriodicExport(
            recorder,
            first if inherited is None else list(exporters()),
            before=lambda: end_left_operations(_LEFT_FOR_GOOD_NS),
            interval_s=config.metrics_interval_s,
            idle_s=config.series_idle_s,
        )

    return PerProcess(begin, at_once=False), deferred
