"""
Functions that switch each library on, as its documentation describes, in its environment.

Libraries are imported by name, because the other five are not installed in the environment in which
this file is type-checked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Final

from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader

from rivals._subjects import Mode, Subject
from rivals._telemetry import METRICS_INTERVAL_S, Telemetry

_for_the_rest_of_the_process: Final = ExitStack()


@dataclass(frozen=True, slots=True)
class Total:
    """
    Sum and maximum of one metric's values.

    Args:
        total: Sum of the values, in the metric's unit.
        most: Greatest value, in the metric's unit.
    """

    total: float
    most: float


@dataclass(frozen=True, slots=True)
class On:
    """
    A library that is switched on.

    Args:
        telemetry: Telemetry of the application, to which the library exports.
        flush: Function that waits until everything that has ended is exported.
        totals: Function that returns the library's metrics since its previous call, by name.
    """

    telemetry: Telemetry
    flush: Callable[[], object]
    totals: Callable[[], Mapping[str, Total]]

    def settle(self) -> None:
        """Wait until everything that has ended is exported, and discard the spans."""
        self.flush()
        self.telemetry.memory.clear()


def switch_on(subject: Subject, telemetry: Telemetry) -> On:
    """Switch the subject's library on for the rest of the process."""
    return _SWITCHES[subject.name](telemetry)


def _nothing(telemetry: Telemetry) -> On:
    return On(telemetry, flush=lambda: None, totals=dict[str, Total])


def _instrumentor(module: str, telemetry: Telemetry) -> On:
    """Switch on a library whose module has an OpenTelemetry instrumentor."""
    import_module(module).OpenAIInstrumentor().instrument(
        tracer_provider=telemetry.tracer_provider, meter_provider=telemetry.meter_provider
    )
    return _flushed_by_its_processor(telemetry)


def _logfire(telemetry: Telemetry) -> On:
    logfire = import_module("logfire")
    logfire.configure(
        send_to_logfire=False,
        console=False,
        inspect_arguments=False,
        additional_span_processors=[telemetry.processor],
        metrics=logfire.MetricsOptions(additional_readers=[telemetry.reader]),
    )
    logfire.instrument_openai()
    return _flushed_by_its_processor(telemetry)


def _langfuse(telemetry: Telemetry) -> On:
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider

    # Langfuse exports with its own processor; the application's would export each span again.
    provider = TracerProvider(shutdown_on_exit=False)
    trace.set_tracer_provider(provider)
    offline = telemetry.mode is not Mode.COLLECTOR
    langfuse = import_module("langfuse").Langfuse(
        public_key="pk-lf-benchmark",
        secret_key="sk-lf-benchmark",
        host="http://127.0.0.1:9" if offline else telemetry.collector,
        tracer_provider=provider,
        span_exporter=telemetry.memory if offline else None,
    )
    # This import patches the client.
    import_module("langfuse.openai")
    return On(telemetry, flush=langfuse.flush, totals=dict[str, Total])


def _latspan(telemetry: Telemetry) -> On:
    """Switch latspan on with the application's provider, through its public names."""
    import latspan

    collecting = telemetry.mode is Mode.COLLECTOR
    latspan.configure(
        tracer_provider=telemetry.tracer_provider,
        export_enabled=collecting,
        endpoint=telemetry.collector if collecting else None,
        metrics_interval_s=METRICS_INTERVAL_S,
    )
    latspan.auto_instrument()

    def flush() -> None:
        latspan.force_flush()
        telemetry.processor.force_flush()

    return On(telemetry, flush, totals=_latspan_totals())


def _latspan_alone(telemetry: Telemetry) -> On:
    """Switch latspan on with its own provider."""
    import latspan

    if telemetry.mode is Mode.COLLECTOR:
        latspan.configure(endpoint=telemetry.collector, metrics_interval_s=METRICS_INTERVAL_S)
        latspan.auto_instrument()
        return On(telemetry, latspan.force_flush, totals=_latspan_totals())
    from _latspan_on import own_provider
    from latspan._live.process.runtime import install_runtime

    on = _for_the_rest_of_the_process.enter_context(own_provider())
    install_runtime(on.runtime)
    latspan.auto_instrument()
    return On(telemetry, on.settle, totals=_latspan_totals())


def _latspan_totals() -> Callable[[], Mapping[str, Total]]:
    import latspan
    from latspan._model.units import in_unit

    before = latspan.snapshot()

    def totals() -> Mapping[str, Total]:
        nonlocal before
        now = latspan.snapshot()
        # Only measured gaps: latspan marks the others as estimated.
        gaps = now.diff(before).metric("chunk_gap", source="measured").histogram
        before = now
        if not gaps.count:
            return {}
        return {"chunk_gap": Total(in_unit(gaps.sum_ns, "s"), in_unit(gaps.max_ns, "s"))}

    return totals


def _flushed_by_its_processor(telemetry: Telemetry) -> On:
    def totals() -> Mapping[str, Total]:
        reader = telemetry.reader
        return _read(reader) if isinstance(reader, InMemoryMetricReader) else {}

    return On(telemetry, flush=telemetry.processor.force_flush, totals=totals)


def _read(reader: InMemoryMetricReader) -> Mapping[str, Total]:
    """Return the histograms of the reader by name, each over all attributes."""
    totals: dict[str, Total] = {}
    data = reader.get_metrics_data()
    for resource in data.resource_metrics if data is not None else ():
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                points = [p for p in metric.data.data_points if isinstance(p, HistogramDataPoint)]
                if points:
                    totals[metric.name] = Total(
                        sum(point.sum for point in points),
                        max(point.max for point in points),
                    )
    return totals


_SWITCHES: Final[Mapping[str, Callable[[Telemetry], On]]] = {
    "bare": _nothing,
    "control": _nothing,
    "official": partial(_instrumentor, "opentelemetry.instrumentation.genai.openai"),
    "openllmetry": partial(_instrumentor, "opentelemetry.instrumentation.openai"),
    "openinference": partial(_instrumentor, "openinference.instrumentation.openai"),
    "langfuse": _langfuse,
    "logfire": _logfire,
    "latspan": _latspan,
    "latspan-own": _latspan_alone,
}
