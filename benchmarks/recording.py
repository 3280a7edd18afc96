"""
Cost of a recording: for the application that is recorded, and for the reader of a large one.

Method: *per request* runs one request again and again in one process: ``latspan.request`` around a
streamed call of the OpenAI client, whose transport is in memory. Two variants take turns: latspan
alone, and latspan with a recording. *Caller's thread* is the CPU time of that thread; *all threads*
is the CPU time of the process until everything is written. The target of the second is the share
of a CPU at 100 requests per second: 1 % are 100 µs per request. It does not include the 100 polls
per second of the worker thread, which the row *polls* measures in an idle process.

*Opening* reads a recording of 1,000,000 calls of 20 chunks each in a new process (100,000 with
``--quick``, scaled up). *Summary* is ``snapshot()`` with a p99, as ``latspan report`` uses it,
*columns* is ``columns()`` with four names. *After a kill* is ``snapshot()`` if every line has to
be counted, because histograms are missing. The memory is the peak of the process, with numpy.

``report``, ``diagnose`` and ``scorecard`` are these commands on the same recording, and ``compare``
compares it with a recording of a tenth of the requests. *Relative to its tenth* is the CPU time of
a diagnosis as a percentage of ten times that of a recording with a tenth of the requests: 100 % is
a cost that is linear in the number of requests.

Caveats: the lines are those of one call with other durations. The file system is that of the
temporary folder, and its writes are cached.

Reproduce: ``make bench ARGS=recording``
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from openai import OpenAI

import latspan
from _bench import Figure, Row, Scale, Target, Unit, added, figure, interleaved
from _latspan_on import On, own_provider
from _openai import MESSAGES, client, stream_of
from latspan import Kind, Source, TokenSource, write_interval
from latspan._base.clock import SystemClock
from latspan._live.process.runtime import install_runtime
from latspan._model.recording import Recorder
from latspan._model.recording.folder import RecordFile, begin_recording
from latspan.histogram import HistogramLogWriter
from latspan.integrations import Outcome
from latspan.testing import MetricValue, RequestRecord, Segment, TokenCounts

_RUN: Final = 10
_CHUNKS: Final = 20
_LINES: Final = 1_000_000
_QUICK_LINES: Final = 100_000
_POLLED_S: Final = 2
_TIME: Final = Target(most=60_000)
_STUDIED: Final = Target(most=30_000)
_MEMORY: Final = Target(most=500_000_000 / 2**20)

_READER: Final = """
import resource, sys, time
import numpy, latspan
recording = latspan.open_recording(sys.argv[1])
before = time.process_time()
if sys.argv[2] == "columns":
    size = len(recording.columns("duration", "ttft", "segment.decode", "model")["duration"])
else:
    snapshot = recording.snapshot()
    size = snapshot.count()
    snapshot.percentile("duration", 99)
took = time.process_time() - before
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(size, took, peak * 1024)
"""

_COMMAND: Final = """
import contextlib, io, resource, sys, time
import latspan.cli
before = time.process_time()
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    latspan.cli.main(sys.argv[1:])
took = time.process_time() - before
print(1, took, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""

_POLLER: Final = """
import sys, time
from latspan._live.process.worker import Worker
worker = Worker(poll_s=0.01)
worker.submit(lambda: None)
worker.drain()
before = time.process_time()
time.sleep(float(sys.argv[1]) / 2)
print((time.process_time() - before) / (float(sys.argv[1]) / 2))
"""


def measure(scale: Scale) -> Iterator[Row]:
    """Yield the rows of this benchmark."""
    openai = client(stream_of(_CHUNKS))
    latspan.auto_instrument()
    with TemporaryDirectory() as folder, own_provider() as on:
        begin_recording(folder, source="record_dir")
        file = RecordFile(folder)
        recorded = replace(on, runtime=replace(on.runtime, write_record=file.append))
        for clock, where, most in (
            (time.thread_time_ns, "caller's thread", 5),
            (time.process_time_ns, "all threads", 100),
        ):
            plain, written = interleaved(
                [_requests(openai, on, clock), _requests(openai, recorded, clock)], scale.of(300)
            )
            yield Row(
                what=f"a recording, per request, {where}",
                latspan=added(plain, written),
                rival=figure(plain),
                rival_name="latspan without a recording",
                target=Target(most=most),
            )
    latspan.uninstrument()
    done = subprocess.run(
        [sys.executable, "-c", _POLLER, str(_POLLED_S)], capture_output=True, text=True, check=True
    )
    yield Row(
        what="a recording, polls of the worker thread, of one CPU",
        latspan=Figure(100 * float(done.stdout)),
        target=Target(most=1),
        unit="%",
    )
    yield from _large(_QUICK_LINES if scale.quick else _LINES)


def _requests(openai: OpenAI, on: On, clock: Callable[[], int]) -> Callable[[], float]:
    """Return a measurement of the CPU time per request in µs."""

    def measured() -> float:
        install_runtime(on.runtime)
        _request(openai)
        before = clock()
        for _ in range(_RUN):
            _request(openai)
        if clock is time.process_time_ns:
            on.settle()
        after = clock()
        install_runtime(None)
        on.settle()
        on.forget()
        return (after - before) / _RUN / 1000

    return measured


def _request(openai: OpenAI) -> None:
    with latspan.request("answer"):
        create = openai.chat.completions.create
        for _ in create(model="gpt-4o-mini", messages=MESSAGES, stream=True):
            pass


def _large(lines: int) -> Iterator[Row]:
    with TemporaryDirectory() as name:
        folder = Path(name, "whole")
        _write(folder, lines)
        yield from _opened(folder, lines, "summary")
        yield from _opened(folder, lines, "columns")
        yield from _studied(folder, lines)
        (path,) = folder.glob("*.jsonl")
        path.rename(path.with_name(path.name.replace(".ended", "")))
        yield from _opened(folder, lines, "summary after a kill", limit=None)


def _opened(folder: Path, lines: int, what: str, *, limit: Target | None = _TIME) -> Iterator[Row]:
    taken = _taken(_READER, str(folder), what)
    title = f"opening {_LINES:,} requests, {what}"
    yield _row(title, taken[0] * _LINES / lines, "ms", limit)
    yield _row(f"{title}, memory", taken[1] / 2**20, "MiB", Target(most=500))


def _studied(whole: Path, lines: int) -> Iterator[Row]:
    """Yield the rows of the commands that read every request of a recording."""
    tenth = whole.with_name("tenth")
    _write(tenth, lines // 10, seed=0)
    for command, *others in (("report",), ("diagnose",), ("scorecard",), ("compare", str(tenth))):
        large = _taken(_COMMAND, command, str(whole), *others)
        title = f"{command} of {_LINES:,} requests"
        yield _row(title, large[0] * _LINES / lines, "ms", _STUDIED)
        if command == "diagnose":
            small = _taken(_COMMAND, command, str(tenth))
            relative = 100 * large[0] / (10 * small[0])
            yield _row(f"{title}, relative to its tenth", relative, "%", Target(most=120))
        yield _row(f"{title}, memory", large[1] / 2**20, "MiB", _MEMORY)


def _row(what: str, value: float, unit: Unit, target: Target | None) -> Row:
    return Row(what=what, latspan=Figure(value), target=target, unit=unit)


def _taken(program: str, *arguments: str) -> tuple[float, float]:
    """Run a program in a new process; return its CPU time in ms and its peak memory in bytes."""
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True
    )
    _, seconds, peak = json.loads(f"[{','.join(done.stdout.split())}]")
    return seconds * 1000, peak


def _write(folder: Path, lines: int, *, seed: int = 1) -> None:
    """Write a recording of calls with lognormal durations, as a process writes it."""
    begin_recording(folder, source="record_dir")
    recorder = Recorder(SystemClock())
    file = RecordFile(folder, largest=float("inf"))
    file.begin()
    factors = random.Random(seed)  # noqa: S311 - values of a benchmark
    for number in range(lines):
        record = _call(factors.lognormvariate(0, 0.5), number)
        recorder.record(record)
        file.append(record)
    file.end()
    with HistogramLogWriter(folder / "benchmark.hlog") as writer:
        write_interval(writer, recorder.swap_interval())


def _call(factor: float, number: int) -> RequestRecord:
    names = ("prepare", "pool_wait", "connect", "send", "queue", "prefill", "network", "decode")
    edges = [round(factor * edge * 1_000_000) for edge in (0, 4, 4.1, 5, 5.3, 6, 27, 28, 65)]
    first = MetricValue(edges[6])
    return RequestRecord(
        name="chat gpt-4o-mini",
        kind=Kind.CALL,
        outcome=Outcome.COMPLETED,
        start_epoch_ns=1_760_000_000_000_000_000 + number * 10_000_000,
        duration_ns=edges[-1],
        segments=tuple(
            Segment(name, start, end, Source.SERVER_REPORTED)
            for name, start, end in zip(names, edges, edges[1:], strict=False)
        ),
        metrics={
            "duration": MetricValue(edges[-1]),
            "time_to_first_token": first,
            "time_to_first_visible_token": first,
            "time_per_output_token": MetricValue(round(2_000_000 * factor)),
        },
        chunk_gaps=tuple([MetricValue(round(2_000_000 * factor)) for _ in range(_CHUNKS - 1)]),
        tokens=TokenCounts(input=12, output=_CHUNKS, source=TokenSource.PROVIDER),
        attributes={"model": "gpt-4o-mini", "provider": "openai", "inference_path": "gpt-4o-mini"},
        marks_ns={"start": 0, "sent": edges[4], "first_token": edges[6], "done": edges[-1]},
        details={"gen_ai.response.model": "gpt-4o-mini-2024-07-18", "latspan.attempt.count": 1},
    )
