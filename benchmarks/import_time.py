"""
What importing latspan costs, beside the OpenTelemetry API.

How: fresh interpreters take turns, each importing one thing; CPU time of the process from before
the import until after it, so the interpreter's own start is not counted. Byte code is cached.

Caveats: files are in the system's cache; the first import after an installation takes longer.
``from latspan import traced ...`` imports ``opentelemetry.trace`` too, so its ratio is never below
1. An application that has imported OpenTelemetry already pays only the rest.

Reproduce: ``make bench ARGS=import_time``
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Final

from _bench import Row, Scale, Target, figure, interleaved

__all__ = ["measure"]

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
