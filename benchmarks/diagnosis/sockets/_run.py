"""
Judge `latspan diagnose` on systems of real sockets that share no code with the rules.

Method: model servers, gateways, network paths and programs are processes of their own that talk
over loopback. ``latspan measure`` or ``latspan run --record`` records requests, and the diagnosis
receives the recording and, where the fault has one, a measurement at concurrency 1. The author of
the faults had seen neither the simulation nor the rules; the right answers were committed before
the first diagnosis. The recordings that are kept have the digits of the commit of frozen rules as
their seed. Rules that were changed after it prove nothing on them.

*Right* names a right cause in a right segment. *Hedged* names no cause: a tie, time that is spread
out, or a wait for the server. Everything else is wrong.

Caveats: one machine, small times (tens to hundreds of milliseconds), and some 130 requests each.
Runs of one fault resemble one another, so intervals are of faults: they come from draws of whole
faults.

Reproduce: ``make bench-diagnose ARGS=sockets`` judges the kept recordings; with ``--record SEED``,
recordings are made again (some 11 minutes) and kept under that seed.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Final

import numpy as np

from _table import markdown
from diagnosis.sockets._fault import answers
from diagnosis.sockets._judged import Judged, Result, judged
from diagnosis.sockets._recorded import SEEDS, kept, made, record

_AT_ONCE: Final = 2
_DRAWS: Final = 4_000
_TARGETS: Final = {
    "client": (Result.RIGHT, 0.95),
    "application": (Result.RIGHT, 0.95),
    "server": (Result.RIGHT, 0.80),
    "gateway": (Result.RIGHT, 0.80),
    "network": (Result.RIGHT, 0.80),
}
_ALL: Final = {Result.RIGHT: 0.85, Result.HEDGED: 0.15, Result.WRONG: 0.01}


def run(only: str, *, seed: str | None, as_json: bool) -> int:
    """
    Print how the recordings are judged; return 1 if a target is missed.

    Args:
        only: Beginnings of the names of faults, separated by commas; empty for all.
        seed: Seed of recordings to make first; ``None`` to judge the kept ones.
        as_json: Whether to print one document instead of tables.
    """
    chosen = [name for name in answers() if name.startswith(tuple(only.split(",")))]
    if seed is not None:
        record(seed, chosen, at_once=_AT_ONCE)
    seeds = SEEDS if seed is None else (seed,)
    results = [each for one in seeds for each in _judged(one, chosen)]
    if not results:
        print("no recording of these faults is kept: make some with --record SEED", file=sys.stderr)
        return 1
    print(f"{len(results)} runs of {len({each.name for each in results})} systems", file=sys.stderr)
    rows = list(_summary(results))
    if as_json:
        print(json.dumps({"summary": rows, "runs": [_as_data(each) for each in results]}, indent=2))
    else:
        print(markdown(list(_matrix(results))), end="\n\n")
        print(markdown([("family", "what", "runs", "interval by fault", "target", "met"), *rows]))
        for each in results:
            if each.result is not Result.RIGHT:
                print(f"{each.result}: {each.name}: {each.sentence}")
    return int(any(row[-1] == "no" for row in rows))


def _judged(seed: str, names: Sequence[str]) -> Iterator[Judged]:
    right = answers()
    with kept(seed) as folder, ProcessPoolExecutor(_AT_ONCE) as pool:
        found = [name for name in names if (folder / name).exists()]
        yield from pool.map(
            judged, found, [right[name] for name in found], [made(folder / name) for name in found]
        )


def _matrix(results: Sequence[Judged]) -> Iterator[tuple[str, ...]]:
    """Yield one row per fault: how it was answered."""
    yield ("fault", "right answers", "right", "hedged", "wrong", "named")
    for name in dict.fromkeys(each.name for each in results):
        runs = [each for each in results if each.name == name]
        counts = Counter(each.result for each in runs)
        named = Counter(each.named for each in runs)
        yield (
            name,
            ", ".join(sorted(runs[0].answer.causes)),
            *(str(counts[each]) for each in Result),
            ", ".join(f"{cause} {count}" for cause, count in named.most_common()),
        )


def _summary(results: Sequence[Judged]) -> Iterator[tuple[str, ...]]:
    for family, (result, least) in _TARGETS.items():
        runs = [each for each in results if each.answer.family == family]
        if runs:
            yield _row(family, runs, result, least)
            yield _row(family, runs, Result.HEDGED, None)
            yield _row(family, runs, Result.WRONG, None)
    for result, limit in _ALL.items():
        yield _row("all", results, result, limit)


def _row(
    family: str, runs: Sequence[Judged], result: Result, limit: float | None
) -> tuple[str, ...]:
    count = sum(each.result is result for each in runs)
    share = count / len(runs)
    low, high = _interval(runs, result)
    target, met = "", ""
    if limit is not None:
        is_least = result is Result.RIGHT
        target = f"{'≥' if is_least else '≤'} {100 * limit:.0f} %"
        met = "yes" if (share >= limit if is_least else share <= limit) else "no"
    return (
        family,
        result.value,
        f"{count} of {len(runs)} ({100 * share:.1f} %)",
        f"{100 * low:.1f} to {100 * high:.1f} %",
        target,
        met,
    )


def _interval(runs: Iterable[Judged], result: Result) -> tuple[float, float]:
    """
    Return the 95 % interval of a share, from draws of whole faults.

    If no run or every run has the result, draws cannot vary, and the bound is that of as many
    independent faults: Hanley and Lippman-Hand, JAMA 249 (1983).
    """
    by_fault: dict[str, list[bool]] = {}
    for each in runs:
        by_fault.setdefault(each.name, []).append(each.result is result)
    hits = np.array([sum(each) for each in by_fault.values()], np.float64)
    sizes = np.array([len(each) for each in by_fault.values()], np.float64)
    if hits.sum() in (0, sizes.sum()):
        bound = min(3 / len(sizes), 1.0)
        return (0.0, bound) if not hits.sum() else (1 - bound, 1.0)
    chosen = np.random.default_rng(0).integers(0, len(sizes), (_DRAWS, len(sizes)))
    shares = hits[chosen].sum(axis=1) / sizes[chosen].sum(axis=1)
    low, high = np.quantile(shares, (0.025, 0.975))
    return float(low), float(high)


def _as_data(each: Judged) -> dict[str, object]:
    return {
        "fault": each.name,
        "family": each.answer.family,
        "causes": sorted(each.answer.causes),
        "named": each.named,
        "result": each.result.value,
        "sentence": each.sentence,
    }
