"""
A measurement from its settings to its recording.

The measured requests are recorded by the same code as those of an application in production. The
index, the phase and the dispatch lag of each request are attributes of its record. The statistics
of the load generator (intended, sent and cut requests, lags, CPU use) are written into the
manifest. So the analysis (``latspan._study``) needs nothing but the recording.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Protocol

from latspan import semconv
from latspan._live.instrument import auto_instrument
from latspan._live.operations import with_attributes
from latspan._live.process.runtime import current_runtime
from latspan._live.sdk import configure, force_flush, shutdown, stop_polling
from latspan._load._callables import CallableSender, load_callable
from latspan._load._endpoint import Endpoint
from latspan._load._plan import LoadStep
from latspan._load._progress import Progress, RequestResult
from latspan._load._prompts import PromptSet, fingerprint
from latspan._load._runner import StepRunner
from latspan._model.goals import LoadSettings, Target
from latspan._model.recording import RequestRecord
from latspan._model.recording.folder import (
    LoadTest,
    Manifest,
    Reserve,
    begin_recording,
    target_fields,
)
from latspan._model.segments import Kind, Phase
from latspan.errors import MeasurementError, RecordingError

_MIN_GAIN: Final = 1.1
"""Ratio of a step's throughput to the previous step's, below which a closed loop is saturated."""

_STRIDE: Final = 1_000_000
"""Difference between the first indexes of successive steps; no step has as many requests."""

_SWITCH_INTERVAL_S: Final = 0.000_5
"""
Time after which latspan's worker thread must let the event loop run, if the loop is ready.

Python's default of 5 ms would delay the stamps of chunks by as much.
"""

_GC_THRESHOLD: Final = 100_000

_MAX_RAMP_NS: Final = 2_000_000_000
"""
Maximum duration of the ramp of a closed loop, the time over which its users begin. The ramp lasts
as long as the first request, but that request may load a model, so the ramp is limited.
"""


class Display(Protocol):
    """Shows the progress of a measurement."""

    def step(self, step: LoadStep, number: int | None, progress: Progress) -> None:
        """Begin to show a step."""
        ...


class _Prepared(Protocol):
    """Sender that can be tried and closed."""

    async def send(self, index: int) -> RequestResult: ...

    async def try_once(self) -> RequestResult: ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureSettings:
    """
    Settings of a measurement.

    Args:
        name: Name of the inference path, or the address or function as the user wrote it.
        endpoint: OpenAI-compatible endpoint; ``None`` to measure ``function``.
        function: Callable as ``module:function``.
        model: The requested model; ``None`` for the only one of the endpoint.
        prompts: The prompts.
        steps: Loads to measure, in turn.
        stops_at_saturation: Whether no further step begins after saturation.
        load: Settings of every request.
        targets: Targets to check.
        percentile: Percentile that the measurement shows besides p50, p95 and p99.
        parameters: Further fields of each request, for example ``max_tokens``.
        otlp_endpoint: Address to which spans and metrics are exported too.
    """

    name: str
    endpoint: Endpoint | None = None
    function: str | None = None
    model: str | None = None
    prompts: PromptSet
    steps: Sequence[LoadStep]
    stops_at_saturation: bool = False
    load: LoadSettings = field(default_factory=LoadSettings)
    targets: tuple[Target, ...] = ()
    percentile: float = 95
    parameters: Mapping[str, Any] = field(default_factory=dict[str, Any])
    otlp_endpoint: str | None = None


def measure(settings: MeasureSettings, folder: str | os.PathLike[str], display: Display) -> None:
    """
    Measure, and write a recording.

    An interrupt ends the measurement early; the recording can be read, and records the interrupt.

    Args:
        settings: What to measure, and how.
        folder: Folder for the recording; it must be empty or must not exist yet.
        display: Shows the progress.

    Raises:
        MeasurementError: The first request did not succeed, the function or the model was not
            found, or nothing would be recorded.
        MissingExtraError: aiohttp, which requests are sent with, is not installed.
        RecordingError: The folder is not empty, or cannot be written.
        ConfigError: A setting, or a variable of the environment, is not valid.
        InstrumentationError: aiohttp cannot be instrumented.
        KeyboardInterrupt: It was interrupted before the load.
    """
    path = Path(folder)
    function = None if settings.function is None else load_callable(settings.function)
    with _undisturbed():
        measurement = _Measurement(settings, path, display, function)
        try:
            asyncio.run(measurement.run())
        except KeyboardInterrupt:
            if measurement.was_terminated:
                # The handler of the command line, which is in place again, sets the exit code.
                signal.raise_signal(signal.SIGTERM)
            raise


class _Measurement:
    """One measurement in progress."""

    def __init__(
        self,
        settings: MeasureSettings,
        folder: Path,
        display: Display,
        function: Callable[[str], Any] | None,
    ) -> None:
        self._settings = settings
        self._folder = folder
        self._display = display
        self._function = function
        self._interrupted = False
        self.was_terminated = False
        """Whether SIGTERM interrupted it, and not Ctrl-C."""
        self._ramp_ns = 0
        self._runner: StepRunner | None = None
        self._main: asyncio.Task[Any] | None = None
        self._recorded: object = None
        self._reserve: Reserve | None = None

    async def run(self) -> None:
        """
        Measure.

        Raises:
            KeyboardInterrupt: It was interrupted before the load.
        """
        self._main = asyncio.current_task()
        with self._interrupts():
            try:
                sender, manifest = await self._prepared()
            except asyncio.CancelledError:
                if self._interrupted:
                    raise KeyboardInterrupt from None
                raise
            try:
                await self._run_steps(sender, manifest)
            finally:
                await sender.close()
                shutdown()
                self._release()

    async def _prepared(self) -> tuple[_Prepared, Manifest]:
        """Begin the recording and send the first request."""
        model = self._settings.model
        if self._settings.endpoint is not None and model is None:
            from latspan._load._endpoint_sender import find_model

            model = await find_model(self._settings.endpoint)
        sender: _Prepared | None = None
        manifest = begin_recording(
            self._folder, source="measure", conditions=self._conditions(model)
        )
        try:
            self._reserve = Reserve(self._folder, _counted(self._settings.steps))
            sender = self._sender(model or "")
            self._start_recording()
            self._ramp_ns = min(_MAX_RAMP_NS, (await self._try(sender)).duration_ns)
            self._check_recorded()
        except BaseException:
            # Nothing was measured, so nothing is left behind.
            if sender is not None:
                await sender.close()
            shutdown()
            self._release()
            manifest.discard()
            raise
        return sender, manifest

    def _sender(self, model: str) -> _Prepared:
        settings = self._settings
        if settings.endpoint is not None:
            # Imported here, because measuring a function does not need aiohttp.
            from latspan._load._endpoint_sender import EndpointSender

            return EndpointSender(
                settings.endpoint,
                settings.prompts,
                model=model,
                parameters=settings.parameters,
                load=settings.load,
            )
        assert self._function is not None  # noqa: S101 - set if there is no endpoint
        name = settings.function or settings.name
        return CallableSender(
            self._function, name, settings.prompts, timeout_s=settings.load.timeout_s
        )

    def _start_recording(self) -> None:
        settings = self._settings
        configure(
            record_dir=str(self._folder),
            record_rate_limit=None,
            keep_records=0,
            export_enabled=settings.otlp_endpoint is not None,
            endpoint=settings.otlp_endpoint,
            service_name="latspan-measure",
            # If the user measures a function directly, and not by the name of an inference path,
            # latspan sets no inference path. The function can set one itself.
            inference_path=None if settings.name == settings.function else settings.name,
            # The load runner measures the lag of its own event loop, so a measurement of an
            # endpoint does not need this watch. A measured function may block the loop, so the
            # watch is on for functions.
            watch_event_loop=settings.function is not None,
        )
        self._recorded = runtime = current_runtime()
        if runtime is None:
            raise MeasurementError(
                "latspan is switched off, so nothing would be recorded",
                hint="unset OTEL_SDK_DISABLED",
            )
        # Histogram logs and exported metrics then have the percentiles that the report shows.
        runtime.recorder.count_only(_is_measured)
        stop_polling()
        if settings.endpoint is None:
            auto_instrument()
        else:
            from latspan._load._http import instrument_client

            instrument_client(settings.endpoint)

    def _check_recorded(self) -> None:
        if current_runtime() is not self._recorded:
            raise MeasurementError(
                f"{self._settings.name} configured latspan again or shut it down, so its requests"
                " were not recorded",
                hint="remove latspan.configure() and latspan.shutdown() from the function",
            )

    async def _try(self, sender: _Prepared) -> RequestResult:
        attributes = {
            semconv.LATSPAN_LOAD_INDEX: 0,
            semconv.LATSPAN_LOAD_PHASE: Phase.COLD.value,
            semconv.LATSPAN_LOAD_DISPATCH_LAG: 0.0,
        }
        with with_attributes({}, attributes):
            return await sender.try_once()

    async def _run_steps(self, sender: _Prepared, manifest: Manifest) -> None:
        settings = self._settings
        load_test = LoadTest(
            name=settings.name,
            kind=Kind.CALL if settings.function is None else Kind.REQUEST,
            percentile=settings.percentile,
            target_fields=target_fields(settings.targets),
            ended=False,
        )
        manifest.update(measurement=load_test.fields())
        several = len(settings.steps) > 1
        before: StepRunner | None = None
        for number, step in enumerate(settings.steps):
            progress = Progress(step.measured)
            self._display.step(step, number if several else None, progress)
            self._runner = runner = StepRunner(
                step,
                sender,
                now=_clock(),
                progress=progress,
                number=number if several else None,
                first_index=1 + number * _STRIDE,
                load=settings.load,
                ramp_ns=self._ramp_ns,
            )
            with _without_collections():
                await runner.run()
            self._check_recorded()
            load_test = replace(load_test, steps=(*load_test.steps, runner.result()))
            # If the disk is full, the steps are written with the end.
            with suppress(RecordingError):
                manifest.update(measurement=load_test.fields())
            if self._interrupted or (settings.stops_at_saturation and _saturated(runner, before)):
                break
            before = runner
        # Everything is recorded before the manifest states that the measurement has ended.
        force_flush()
        self._release()
        ended = replace(load_test, ended=True, interrupted=self._interrupted)
        manifest.update(measurement=ended.fields())

    def _release(self) -> None:
        if self._reserve is not None:
            self._reserve.release()

    def _conditions(self, model: str | None) -> dict[str, Any]:
        settings = self._settings
        what = settings.function
        if settings.endpoint is not None:
            what = settings.endpoint.shown
        steps = settings.steps
        known: dict[str, Any] = {
            "measured": what,
            "model": model,
            "prompts": settings.prompts.conditions(_counted(steps)),
            "arrivals": fingerprint(
                str(offset) for step in steps for offset in step.schedule.offsets_ns
            ),
            **settings.load.conditions(of_api=settings.endpoint is not None),
        }
        if settings.endpoint is not None:
            known["parameters"] = {
                name: _without_content(name, value) for name, value in settings.parameters.items()
            }
        return {name: value for name, value in known.items() if value is not None}

    @contextmanager
    def _interrupts(self) -> Generator[None]:
        """At Ctrl-C or SIGTERM, end the measurement early and complete the recording."""
        loop = asyncio.get_running_loop()
        before = {number: signal.getsignal(number) for number in _SIGNALS}
        try:
            for number in _SIGNALS:
                loop.add_signal_handler(number, self._interrupt, number)
        except (RuntimeError, ValueError):
            # This thread is not the main thread, so no signal handler can be set. The caller of
            # `measure` handles signals itself.
            yield
            return
        try:
            yield
        finally:
            for number, handler in before.items():
                loop.remove_signal_handler(number)
                signal.signal(number, handler)

    def _interrupt(self, number: signal.Signals) -> None:
        self._interrupted = True
        self.was_terminated |= number is signal.SIGTERM
        if self._runner is not None:
            self._runner.interrupt()
        elif self._main is not None:
            self._main.cancel()


_CHOICES: Final = frozenset({"reasoning_effort", "service_tier", "verbosity"})
"""Parameters whose value is one of a few words. Any other text may be part of a prompt."""

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


def _clock() -> Callable[[], int]:
    """Return the clock of the recorded requests."""
    runtime = current_runtime()
    assert runtime is not None  # noqa: S101 - it is configured here
    return runtime.clock.monotonic_ns


def _is_measured(record: RequestRecord) -> bool:
    """Return whether a record is that of a measured request, or inside one."""
    return record.details.get(semconv.LATSPAN_LOAD_PHASE) == Phase.MEASURED.value


def _saturated(runner: StepRunner, before: StepRunner | None) -> bool:
    if runner.is_saturated:
        return True
    if before is None or runner.is_open:
        return False
    return runner.throughput_per_s < _MIN_GAIN * before.throughput_per_s


def _without_content(name: str, value: object) -> object:
    """Return the value of a parameter, or its fingerprint if it may hold content."""
    if isinstance(value, int | float) or name in _CHOICES:
        return value
    return fingerprint([json.dumps(value, sort_keys=True)])


def _counted(steps: Sequence[LoadStep]) -> int:
    """
    Return the number of requests whose order of prompts is fingerprinted.

    These are the first request, and the warm-up and measured requests of the longest step. The
    measured requests of a closed loop with a time limit do not count, because their number is not
    known in advance.
    """
    return 1 + max((step.warmup + (step.measured or 0) for step in steps), default=0)


@contextmanager
def _undisturbed() -> Generator[None]:
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    try:
        yield
    finally:
        sys.setswitchinterval(interval_s)


@contextmanager
def _without_collections() -> Generator[None]:
    """
    Keep Python's garbage collector from pausing the load.

    Objects that exist before the load are not examined again. The threshold of the youngest
    generation is raised, so collections of all generations become rare.
    """
    thresholds = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GC_THRESHOLD, *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()
