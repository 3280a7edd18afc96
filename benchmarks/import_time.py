"""
Cost of importing latspan, compared with the OpenTelemetry API.

Method: new interpreters take turns, and each executes one import statement. The figure is the CPU
time of the process from just before the import to just after it, so it does not include the start
of the interpreter. Byte code is cached.

Caveats: the files are in the operating system's cache; the first import after an installation takes
longer. ``from latspan import traced ...`` also imports ``opentelemetry.trace``, so its ratio is
never below 1. If an application has already imported OpenTelemetry, importing latspan costs only
the difference.

Reproduce: ``make bench ARGS=import_time``
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Final

from _bench import Row, Scale, Target, figure, interleaved

_RIVAL: Final = "import opentelemetry.trace"
_TARGETS: Final = {
    "import latspan": Target(ratio=1),
    "from latspan import traced, request, stage, configure": Target(ratio=2),
}
_PROGRAM: Final = """
import time
before = time.process_time_ns()
{statement}
print(time.process_time_ns() - before)
"""


def measure(scale: Scale) -> Iterator[Row]:
    """Yield the rows of this benchmark."""
    statements = [_RIVAL, *_TARGETS]
    measures = [_importing(statement) for statement in statements]
    for each in measures:
        each()
    results = interleaved(measures, scale.of(40))
    rival, *ours = map(figure, results)
    for (statement, target), cost in zip(_TARGETS.items(), ours, strict=True):
        yield Row(what=statement, latspan=cost, rival=rival, rival_name=_RIVAL, target=target)


def _importing(statement: str) -> Callable[[], float]:
    program = _PROGRAM.format(statement=statement)

    def measured() -> float:
        ran = subprocess.run(
            [sys.executable, "-c", program], check=True, capture_output=True, text=True
        )
        return int(ran.stdout) / 1000

    return measured
