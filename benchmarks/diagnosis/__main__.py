"""
Print the confusion matrix of `latspan diagnose` on simulated faults.

Method: a simulation in virtual time (``tests/support/simulation``) makes recordings of systems with
known faults, at several strengths, alone, in pairs and over background noise. Each is written to a
folder, read again and diagnosed. The diagnosis receives nothing but the recording; with
*calibrated*, also a measurement at concurrency 1. The truth of a pair is the fault whose removal
lowers the percentile more, from simulations of 1,200 requests; if the gains differ by less than a
quarter, either is right.

Caveats: a simulation has only the faults that its authors thought of, with sharper edges than real
ones. The figures show that the rules distinguish these causes, and not how often real systems have
them.

Reproduce: ``make bench-diagnose`` judges the kept recordings of real sockets (``sockets/_run.py``),
and then the simulation. ``ARGS=sockets`` or ``ARGS=simulated`` selects one; ``--quick`` runs
a fifth of the cells; ``--training`` runs the cells on which thresholds were set. ``ARGS=real`` puts
faults into real parts instead: see ``real/_run.py``.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Final

from _table import markdown
from diagnosis._cells import HELD_OUT, TRAINING, Cell, Evidence, cells_of
from diagnosis._coverage import Covered, covered
from diagnosis._judged import Judged, Result, judged
from latspan._study.stats import wilson_interval

_AT_ONCE: Final = 2


def main() -> int:
    """Execute the command line, and return the exit status: 1 if a target is missed."""
    parser = argparse.ArgumentParser(description="Confusion matrix of `latspan diagnose`")
    parser.add_argument(
        "what",
        nargs="?",
        choices=("both", "sockets", "simulated", "real"),
        default="both",
        help="kind of faults",
    )
    parser.add_argument("--record", metavar="SEED", help="make the recordings of sockets first")
    parser.add_argument("--traces", metavar="SEED", help="compare recordings with their traces")
    parser.add_argument("--quick", action="store_true", help="fewer cells and repeats")
    parser.add_argument("--training", action="store_true", help="cells that set thresholds")
    parser.add_argument("--json", action="store_true", help="print one document instead of tables")
    parser.add_argument("--only", default="", help="faults to run, separated by commas")
    parser.add_argument("--part", choices=("cells", "coverage"), help="one part only")
    arguments = parser.parse_args()
    if arguments.what == "real":
        from diagnosis.real._run import run

        return run(arguments.only, as_json=arguments.json)
    if arguments.traces is not None:
        from diagnosis.sockets._traces import compare

        return compare(arguments.only, seed=arguments.traces)
    missed = 0
    if arguments.what in ("both", "sockets"):
        from diagnosis.sockets import _run as sockets

        missed = sockets.run(arguments.only, seed=arguments.record, as_json=arguments.json)
        if arguments.what == "sockets":
            return missed
        print()
    began = time.monotonic()
    split = TRAINING if arguments.training else HELD_OUT
    results: list[Judged] = []
    if arguments.part != "coverage":
        cells = list(cells_of(split, quick=arguments.quick))
        if arguments.only:
            only = set(arguments.only.split(","))
            cells = [cell for cell in cells if only & {name for name, _ in cell.faults}]
        results = list(_run(cells))
    shares: list[Covered] = []
    if arguments.part != "cells" and not arguments.only:
        shares = list(covered(10 if arguments.quick else 40))
    rows = list(_summary(results, shares))
    if arguments.json:
        print(json.dumps({"summary": rows, "wrong": _wrong(results)}, indent=2))
    else:
        if results:
            print(markdown(_matrix(results)), end="\n\n")
        if shares:
            print(markdown(_coverage(shares)), end="\n\n")
        print(markdown([("what", "measured", "95 % interval", "target", "met"), *rows]))
        for line in _wrong(results):
            print(f"wrong: {line}")
        print(f"\n{time.monotonic() - began:.0f} s")
    return int(missed or any(row[-1] == "no" for row in rows))


def _run(cells: Sequence[Cell]) -> Iterable[Judged]:
    with ProcessPoolExecutor(_AT_ONCE) as pool:
        for number, result in enumerate(pool.map(judged, cells, chunksize=4)):
            if number % 50 == 0:
                sys.stderr.write(f"{number:,} of {len(cells):,} cells\n")
            if result is not None:
                yield result


def _matrix(results: Sequence[Judged]) -> list[tuple[str, ...]]:
    """Return one row per fault: how it was answered."""
    rows = [("fault", "evidence", "right", "tie", "wrong", "answers")]
    groups: dict[tuple[str, str], list[Judged]] = {}
    for each in results:
        names = " + ".join(name for name, _ in each.cell.faults) or "none, target met"
        groups.setdefault((names, each.cell.evidence), []).append(each)
    for (names, evidence), cells in groups.items():
        counts = Counter(each.result for each in cells)
        answers = Counter(each.answer for each in cells)
        rows.append(
            (
                names,
                evidence,
                str(counts[Result.RIGHT]),
                str(counts[Result.TIE]),
                str(counts[Result.WRONG]),
                ", ".join(f"{answer} {count}" for answer, count in answers.most_common()),
            )
        )
    return rows


def _coverage(shares: Sequence[Covered]) -> list[tuple[str, ...]]:
    rows = [("scenario", "goal", "intervals", "with the truth", "95 % interval")]
    rows += [
        (
            each.name,
            each.goal,
            f"{each.intervals:,}",
            f"{100 * each.hits / each.intervals:.1f} %",
            _interval(each.hits, each.intervals),
        )
        for each in shares
    ]
    return rows


def _summary(
    results: Sequence[Judged], shares: Sequence[Covered]
) -> Iterable[tuple[str, str, str, str, str]]:
    faulty = [each for each in results if each.cell.faults]
    parts = {
        "alone": [each for each in faulty if len(each.cell.faults) == 1],
        "in pairs": [each for each in faulty if len(each.cell.faults) == 2],
    }
    separable = (Evidence.REPORTED, Evidence.CALIBRATED)
    for name, cells in parts.items():
        chosen = [each for each in cells if each.cell.evidence in separable]
        yield from _row(f"right cause first, {name}", chosen, Result.RIGHT, least=0.90)
        yield from _row(f"confident and wrong, {name}", chosen, Result.WRONG, most=0.01)
    every = [each for each in faulty if each.cell.evidence in separable]
    yield from _row("right cause first, all", every, Result.RIGHT, least=0.90)
    yield from _row("confident and wrong, all", every, Result.WRONG, most=0.01)
    healthy = [each for each in results if not each.cell.faults]
    yield from _row("no fault, target met: nothing to fix", healthy, Result.RIGHT, least=0.95)
    blind = [each for each in faulty if each.cell.evidence is Evidence.NONE]
    yield from _row("right segment, no server evidence", blind, Result.RIGHT, least=0.85)
    split = sum(each.splits for each in blind)
    if blind:
        yield (
            "queue and prefill separated without evidence",
            f"{split} of {len(blind)}",
            _interval(split, len(blind)),
            "0",
            "yes" if not split else "no",
        )
    if shares:
        hits, count = sum(each.hits for each in shares), sum(each.intervals for each in shares)
        yield (
            "90 % intervals with the true share",
            f"{hits:,} of {count:,} ({100 * hits / count:.1f} %)",
            _interval(hits, count),
            "86 to 94 %",
            "yes" if 0.86 <= hits / count <= 0.94 else "no",
        )


def _row(
    what: str,
    cells: Sequence[Judged],
    result: Result,
    *,
    least: float | None = None,
    most: float | None = None,
) -> Iterable[tuple[str, str, str, str, str]]:
    if not cells:
        return
    count = sum(each.result is result for each in cells)
    share = count / len(cells)
    limit = f"≥ {100 * least:.0f} %" if least is not None else f"≤ {100 * (most or 0):.0f} %"
    met = (least is None or share >= least) and (most is None or share <= most)
    yield (
        what,
        f"{count:,} of {len(cells):,} ({100 * share:.1f} %)",
        _interval(count, len(cells)),
        limit,
        "yes" if met else "no",
    )


def _interval(count: int, trials: int) -> str:
    interval = wilson_interval(count, trials)
    if interval is None:
        return ""
    return f"{100 * interval.low:.1f} to {100 * interval.high:.1f} %"


def _wrong(results: Iterable[Judged]) -> list[str]:
    return [
        f"{each.cell}: expected {each.expected}, answered {each.answer}: {each.sentence}"
        for each in results
        if each.result is Result.WRONG
    ]


if __name__ == "__main__":
    sys.exit(main())
