"""Parts of a run whose results are numbers, with their measurements and their tables' columns."""

from __future__ import annotations

import json
import subprocess
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from _bench import Scale
from _collectors import hangs, refuses
from rivals._process import SubjectFailedError, environment
from rivals._subjects import Mode
from rivals._turns import Field, Values, take_turns


@dataclass(frozen=True, slots=True)
class Column:
    """
    Column of a table: one figure of every subject.

    Args:
        key: Key of the figure in the results.
        title: Heading of the column.
        unit: Unit of the figure.
    """

    key: str
    title: str
    unit: str = "µs"


@dataclass(frozen=True, slots=True)
class Part:
    """
    Part of a run, with its table.

    Args:
        title: Title above the table.
        columns: Columns of the table.
        measure: Function that measures, and returns the results of each subject by its name.
    """

    title: str
    columns: Sequence[Column]
    measure: Callable[[Field, Scale], Mapping[str, Values]]


def _costs(taking_part: Field, scale: Scale) -> Mapping[str, Values]:
    works = {"chunks": scale.of(5), "calls": scale.of(20)}
    return take_turns(taking_part, works, generations=_generations(scale))


def _streams(taking_part: Field, scale: Scale) -> Mapping[str, Values]:
    return take_turns(taking_part, {"streams": 2}, generations=1 if scale.quick else 2)


def _collector(taking_part: Field, scale: Scale) -> Mapping[str, Values]:
    results: dict[str, Values] = defaultdict(dict)
    for name, collector in (("refusing", refuses), ("hanging", hangs)):
        with collector() as address:
            taken = take_turns(
                taking_part,
                {"slow_calls": scale.of(5)},
                generations=1 if scale.quick else 2,
                mode=Mode.COLLECTOR,
                collector=address,
            )
        for subject, values in taken.items():
            results[subject] |= {f"{name} {key}": value for key, value in values.items()}
    # A subject that failed with the second collector is removed from the results of the first too.
    return {each.name: results[each.name] for each in taking_part.subjects}


def _imports(taking_part: Field, scale: Scale) -> Mapping[str, Values]:
    taken: dict[str, Values] = defaultdict(lambda: {"imported": [], "switched on": []})
    order = list(taking_part.subjects)
    # Round -1 is not counted: it compiles the imported modules to byte code.
    for number in range(-1, scale.of(8)):
        for subject in list(order):
            python = taking_part.pythons[subject.library.name]
            ran = subprocess.run(
                [str(python), "-P", "-m", "rivals._import_of", subject.name],
                capture_output=True,
                text=True,
                env=environment(),
                check=False,
            )
            if ran.returncode:
                output = ran.stderr.strip().splitlines() or [f"exit status {ran.returncode}"]
                taking_part.drop(subject, SubjectFailedError(output[-1]))
                order.remove(subject)
            elif number >= 0:
                imported, switched_on = json.loads(ran.stdout.splitlines()[-1])
                taken[subject.name]["imported"].append(imported / 1000)
                taken[subject.name]["switched on"].append(switched_on / 1000)
        order.append(order.pop(0))
    return {subject.name: taken[subject.name] for subject in taking_part.subjects}


def _generations(scale: Scale) -> int:
    return 1 if scale.quick else 4


PARTS: Final[Mapping[str, Part]] = {
    "costs": Part(
        "CPU time of streams and calls",
        [
            Column("chunks streaming", "per chunk, while streaming"),
            Column("chunks thread", "per chunk, whole call, caller's thread"),
            Column("chunks process", "per chunk, whole call, process"),
            Column("calls thread", "per call, caller's thread"),
            Column("calls process", "per call, process"),
        ],
        _costs,
    ),
    "streams": Part(
        "200 streams at once",
        [
            Column("streams process", "per chunk, process"),
            Column("streams late p50", "lateness per chunk, p50", "ms"),
            Column("streams late p95", "lateness per chunk, p95", "ms"),
        ],
        _streams,
    ),
    "collector": Part(
        "Calls of 8 ms with a dead collector",
        [
            Column("refusing slow_calls p50", "refusing, p50", "ms"),
            Column("refusing slow_calls p95", "refusing, p95", "ms"),
            Column("hanging slow_calls p50", "hanging, p50", "ms"),
            Column("hanging slow_calls p95", "hanging, p95", "ms"),
        ],
        _collector,
    ),
    "import": Part(
        "CPU time of a start",
        [
            Column("imported", "imported", "ms"),
            Column("switched on", "imported and switched on", "ms"),
        ],
        _imports,
    ),
}
"""Parts by name, as on the command line."""
