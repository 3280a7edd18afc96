"""
Cost of switching latspan on after the client is imported, compared with OpenInference.

Method: new interpreters take turns. Each imports ``openai`` and then switches one library on, which
includes the import of the library. latspan is switched on with ``configure()`` and
``auto_instrument()``; OpenInference with a tracer provider of the SDK, a batch processor and an
in-memory exporter, which is the minimum that its user has to set up. Byte code is cached. *Caller's
thread* is the CPU time of the thread that does this; it delays the application. *In all* is the CPU
time of the process until latspan's own thread has loaded the exporters. OpenInference's in-memory
exporter needs no such step.

Both libraries are measured in the environments that ``make bench-rivals`` installs. These contain
few other distributions; more of them would slow down the search for entry points. If the
environments do not exist, latspan is measured in the environment of this run and compared with the
import of the client.

Caveats: the files are in the operating system's cache. The targets are ratios, because the
yardstick does not resemble an import. They correspond to 100 ms on a machine where OpenInference
takes 68 ms and the import of the client 576 ms, as in ``docs/rivals.md``.

Reproduce: ``make bench ARGS=switch_on``
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from _bench import Row, Scale, Target, figure, interleaved

_ENVIRONMENTS: Final = Path(__file__).resolve().parents[1] / "build" / "rivals"
_OURS: Final = _ENVIRONMENTS / "latspan" / "bin" / "python"
_THEIRS: Final = _ENVIRONMENTS / "openinference" / "bin" / "python"
_LIMIT_MS: Final = 100
_TAKEN_MS: Final = {"OpenInference": 68, "import openai": 576}

_PROGRAM: Final = """
import json, os, threading, time
began = time.process_time_ns()
import openai
imported = time.process_time_ns()
before = time.thread_time_ns()
{switching_on}
here = time.thread_time_ns() - before
for thread in threading.enumerate():
    if thread.name == "latspan-loader":
        thread.join()
everywhere = time.process_time_ns() - imported
print(json.dumps([here, everywhere, imported - began]), flush=True)
os._exit(0)
"""

_LATSPAN: Final = """
import latspan
latspan.configure(endpoint="http://127.0.0.1:9")
latspan.auto_instrument()
"""

_RIVAL: Final = """
from openinference.instrumentation.openai import OpenAIInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
provider = TracerProvider(shutdown_on_exit=False)
provider.add_span_processor(BatchSpanProcessor(InMemorySpanExporter()))
OpenAIInstrumentor().instrument(tracer_provider=provider)
"""


def measure(scale: Scale) -> Iterator[Row]:
    """Yield the rows of this benchmark."""
    ours: list[list[float]] = []
    theirs: list[list[float]] = []
    both = _OURS.exists() and _THEIRS.exists()
    measures = [_measured(str(_OURS) if both else sys.executable, _LATSPAN, ours)]
    if both:
        measures.append(_measured(str(_THEIRS), _RIVAL, theirs))
    for each in measures:
        each()
    ours.clear()
    theirs.clear()
    interleaved(measures, scale.of(40))
    here, everywhere, importing = (figure(column) for column in zip(*ours, strict=True))
    name, rival = "import openai", importing
    if theirs:
        name, rival = "OpenInference", figure([results[0] for results in theirs])
    target = Target(ratio=round(_LIMIT_MS / _TAKEN_MS[name], 2))
    for what, cost, limit in (
        ("switching on, caller's thread", here, target),
        ("switching on, in all", everywhere, None),
    ):
        yield Row(what=what, latspan=cost, rival=rival, rival_name=name, target=limit)


def _measured(python: str, switching_on: str, results: list[list[float]]) -> Callable[[], float]:
    """
    Return a measurement that appends three CPU times, in microseconds, to ``results``.

    They are the time of the caller's thread and of the process for switching on, and the time of
    the process for importing the client.
    """
    environment = dict(os.environ)
    # Byte code must be cached, as in production.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    if python != sys.executable:
        environment.pop("PYTHONPATH", None)

    def measured() -> float:
        ran = subprocess.run(
            [python, "-P", "-c", _PROGRAM.format(switching_on=switching_on)],
            check=True,
            capture_output=True,
            text=True,
            env=environment,
        )
        results.append([nanoseconds / 1000 for nanoseconds in json.loads(ran.stdout)])
        return results[-1][0]

    return measured
