"""
Count right and wrong verdicts of ``latspan compare`` and of targets, on recordings of known truth.

Method: a generator that shares no code with latspan writes recordings from the published schema.
``latspan compare`` judges pairs of sides, each of five runs of 400 requests, and targets are judged
whose percentile is exactly at the limit. What is right was written down before the first run, in
``_scenarios.py``:

- *pairs* have no change of the speed of the system: "improved" and "worse" are false;
- *power* pairs differ by 20 %: "worse", or "improved", is right;
- *targets* at the limit: "met" and "missed" are both false.

Targets are judged by the assertion of a test, and by ``latspan diagnose`` and ``latspan scorecard``
from files. The assertion judges every recording, and the commands judge one in 20. A test records
every request, so for sampled recordings ``diagnose`` judges all of them.

Caveats: the recordings have no histograms, so a sampled one is judged from its lines alone. Rates
are those of these systems, not of any system.

Reproduce: ``make bench-verdicts``; ``ARGS=--quick`` makes a tenth of the recordings, ``--only``
selects scenarios, and ``--seed`` draws other recordings. The exit status is 1 if an error
rate is above its limit beyond chance.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Final

from _table import markdown
from verdicts._judge import Job, judged
from verdicts._scenarios import CELLS, PAIRS, POWER
from verdicts._statistics import lower_limit, upper_limit
from verdicts.adapter import ERROR, JUDGEMENTS, VERDICTS

_MAX_FALSE: Final = 0.05
_MIN_RIGHT: Final = 0.9
_QUICK: Final = 10
_PAIRS_PER_JOB: Final = 5
_TARGETS_PER_JOB: Final = 100
_PROGRESS_S: Final = 15.0

_Answers = Mapping[str, Counter[tuple[str, str]]]


@dataclass(frozen=True, slots=True)
class Figure:
    """
    Result of one scenario.

    Args:
        part: ``pairs``, ``power`` or ``targets``.
        name: Name of the scenario.
        what: The situation, in words.
        expected: The right answer.
        judged_by: The command, or ``assert_target``.
        size: Number of pairs or recordings.
        answers: Number of each answer.
        counted: Answers that are false; for power, the right one.
        count: Number of these answers; for a target, of the more frequent wrong answer.
        limit: Exact one-sided 95 % limit of their share: an upper one, and for power a lower one.
        met: ``yes`` if the share is at most 5 %, and for power at least 90 %; ``no`` if the other
            exact limit excludes that; otherwise ``unclear``, because there are too few trials.
    """

    part: str
    name: str
    what: str
    expected: str
    judged_by: str
    size: int
    answers: Mapping[str, int]
    counted: Sequence[str]
    count: int
    limit: float
    met: str


def main() -> int:
    """Execute the command line, and return the exit status: 1 if an error rate is too high."""
    parser = argparse.ArgumentParser(description="Error rates of latspan's verdicts")
    parser.add_argument("--pairs", type=int, default=400, help="pairs per scenario")
    parser.add_argument("--targets", type=int, default=10_000, help="recordings per target")
    parser.add_argument("--quick", action="store_true", help="a tenth of both")
    parser.add_argument("--seed", type=int, default=1, help="seed of the random numbers")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--part", choices=("pairs", "power", "targets"), help="one part only")
    parser.add_argument("--only", default="", help="scenarios to run, separated by commas")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write a document")
    options = parser.parse_args()
    divisor = _QUICK if options.quick else 1
    sizes = _sizes(
        max(1, options.pairs // divisor), max(1, options.targets // divisor), options.part
    )
    if options.only:
        only = options.only.split(",")
        unknown = sorted({*only} - {*sizes})
        if unknown:
            parser.error(f"no such scenario: {', '.join(unknown)}; choose from {', '.join(sizes)}")
        sizes = {name: size for name, size in sizes.items() if name in only}
    began = time.monotonic()
    answers = _answers(sizes, options.seed, options.jobs)
    figures = list(_figures(answers))
    for table in (_pairs_table(figures), _power_table(figures), _targets_table(figures)):
        if len(table) > 1:
            print(markdown(table), end="\n\n")
    print(f"{time.monotonic() - began:.0f} s, seed {options.seed}")
    if options.json is not None:
        document = {"seed": options.seed, "figures": [asdict(each) for each in figures]}
        options.json.write_text(json.dumps(document, indent=2) + "\n", "utf-8")
    return int(any(each.met == "no" for each in figures))


def _sizes(pairs: int, targets: int, part: str | None) -> dict[str, int]:
    """Return the number of pairs or recordings of each scenario."""
    parts = {
        "pairs": {each.name: pairs for each in PAIRS},
        "power": {each.name: max(1, pairs // 2) for each in POWER},
        "targets": {each.name: targets for each in CELLS},
    }
    return {
        name: size
        for key, sizes in parts.items()
        if part in {None, key}
        for name, size in sizes.items()
    }


def _answers(sizes: Mapping[str, int], seed: int, processes: int) -> _Answers:
    targets = {each.name for each in CELLS}
    jobs = [
        Job(name, seed, first, min(first + step, size))
        for name, size in sizes.items()
        for step in [_TARGETS_PER_JOB if name in targets else _PAIRS_PER_JOB]
        for first in range(0, size, step)
    ]
    found: dict[str, Counter[tuple[str, str]]] = {name: Counter() for name in sizes}
    done: Counter[str] = Counter()
    shown = time.monotonic()
    with get_context("spawn").Pool(processes) as pool:
        for number, result in enumerate(pool.imap_unordered(judged, jobs), 1):
            found[result.name] += result.answers
            done[result.name] += result.size
            if number == len(jobs) or time.monotonic() - shown > _PROGRESS_S:
                shown = time.monotonic()
                share = f"{done[result.name]:,} of {sizes[result.name]:,}"
                sys.stderr.write(f"{number:,} of {len(jobs):,} jobs, {result.name}: {share}\n")
    return found


def _figures(answers: _Answers) -> Iterable[Figure]:
    for pair in PAIRS:
        for by, counts in _by_command(answers.get(pair.name)).items():
            size, count = counts.total(), sum(counts[each] for each in pair.false)
            yield Figure(
                "pairs",
                pair.name,
                pair.what,
                pair.expected,
                by,
                size,
                dict(counts),
                sorted(pair.false),
                count,
                upper_limit(count, size),
                _is_rare(count, size),
            )
    for power in POWER:
        for by, counts in _by_command(answers.get(power.name)).items():
            size, count = counts.total(), counts[power.right]
            yield Figure(
                "power",
                power.name,
                power.what,
                power.right,
                by,
                size,
                dict(counts),
                [power.right],
                count,
                lower_limit(count, size),
                _is_frequent(count, size),
            )
    for cell in CELLS:
        for by, counts in _by_command(answers.get(cell.name)).items():
            size, count = counts.total(), max(counts["met"], counts["missed"])
            yield Figure(
                "targets",
                cell.name,
                f"p{cell.percentile}, {cell.what}",
                "undecided: the percentile is exactly at the limit",
                by,
                size,
                dict(counts),
                ["met", "missed"],
                count,
                upper_limit(count, size),
                _is_rare(count, size),
            )


def _by_command(answers: Counter[tuple[str, str]] | None) -> dict[str, Counter[str]]:
    """Return the answers of each command."""
    found: dict[str, Counter[str]] = {}
    for (command, answer), count in (answers or Counter()).items():
        found.setdefault(command, Counter())[answer] += count
    return found


def _pairs_table(figures: Iterable[Figure]) -> list[tuple[str, ...]]:
    names = ("improved", "worse", "no worse", "inconclusive", "not interpretable")
    rows = [("no change", "situation", "pairs", "false", "at most", *names, "refused", "≤ 5 %")]
    rows += [
        (
            each.name,
            each.what,
            f"{each.size:,}",
            _share(each.count, each.size),
            f"{100 * each.limit:.1f} %",
            *(f"{each.answers.get(name, 0):,}" for name in (*JUDGEMENTS, ERROR)),
            each.met,
        )
        for each in figures
        if each.part == "pairs"
    ]
    return rows


def _power_table(figures: Iterable[Figure]) -> list[tuple[str, ...]]:
    rows = [("change", "situation", "pairs", "right is", "right", "at least", "others", "≥ 90 %")]
    rows += [
        (
            each.name,
            each.what,
            f"{each.size:,}",
            each.expected,
            _share(each.count, each.size),
            f"{100 * each.limit:.1f} %",
            ", ".join(
                f"{name.replace('_', ' ')} {count}"
                for name, count in sorted(each.answers.items())
                if name not in each.counted
            ),
            each.met,
        )
        for each in figures
        if each.part == "power"
    ]
    return rows


def _targets_table(figures: Iterable[Figure]) -> list[tuple[str, ...]]:
    heading = ("target at its limit", "situation", "judged by", "recordings")
    rows: list[tuple[str, ...]] = [
        (*heading, "met", "at most", "missed", "at most", "undecided", "refused", "≤ 5 %")
    ]
    for each in figures:
        if each.part == "targets":
            met, missed, undecided, refused = (
                each.answers.get(name, 0) for name in (*VERDICTS, ERROR)
            )
            rows.append(
                (
                    each.name,
                    each.what,
                    each.judged_by,
                    f"{each.size:,}",
                    _share(met, each.size),
                    f"{100 * upper_limit(met, each.size):.1f} %",
                    _share(missed, each.size),
                    f"{100 * upper_limit(missed, each.size):.1f} %",
                    f"{undecided:,}",
                    f"{refused:,}",
                    each.met,
                )
            )
    return rows


def _share(count: int, size: int) -> str:
    return f"{count:,} ({100 * count / size:.1f} %)"


def _is_rare(count: int, size: int) -> str:
    if count <= _MAX_FALSE * size:
        return "yes"
    return "no" if lower_limit(count, size) > _MAX_FALSE else "unclear"


def _is_frequent(count: int, size: int) -> str:
    if count >= _MIN_RIGHT * size:
        return "yes"
    return "no" if upper_limit(count, size) < _MIN_RIGHT else "unclear"


if __name__ == "__main__":
    sys.exit(main())
