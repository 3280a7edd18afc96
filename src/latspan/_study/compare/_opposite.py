"""Strata that changed in opposite directions, which one number for all requests would hide."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from latspan._study.compare._mix import division_of, strata_of
from latspan._study.compare._question import Question
from latspan._study.compare._rows import PercentileChange, judged_rows
from latspan._study.compare._run import Run, reweighted

MIN_SHARE: Final = 0.10
"""Share of the requests from which a stratum is looked at."""


def opposite_strata(
    before: Sequence[Run], after: Sequence[Run], asked: Question, accept: Collection[str] = ()
) -> Iterator[str]:
    """
    Yield the names of a stratum that improved and of one that became worse, if there are any.

    Args:
        before: Runs of the first side.
        after: Runs of the second side.
        asked: The question.
        accept: Attributes that were changed on purpose.
    """
    if len(before) + len(after) < 3:
        return
    division = division_of([*before, *after], accept)
    sides = [[(run, strata_of(run, division)) for run in side] for side in (before, after)]
    names = _large(sides)
    if len(names) < 2:
        return
    changes: dict[PercentileChange, str] = {}
    for name in names:
        one, two = ([_part(run, strata, name) for run, strata in side] for side in sides)
        if all(asked.metric in run.samples and run.units for run in (*one, *two)):
            row = judged_rows(one, two, asked.metric, asked.percentile, margin=asked.margin)[0]
            changes.setdefault(row.change, name)
    if PercentileChange.IMPROVED in changes and PercentileChange.WORSE in changes:
        better, worse = changes[PercentileChange.IMPROVED], changes[PercentileChange.WORSE]
        yield f"{better} improved and {worse} became worse: compare each by itself with --by route"


_Strata = tuple["np.ndarray[tuple[int], np.dtype[np.int64]]", list[str]] | None


def _large(sides: Sequence[Sequence[tuple[Run, _Strata]]]) -> list[str]:
    """Return the names of the strata that are large in every run."""
    large: set[str] | None = None
    for side in sides:
        for run, strata in side:
            if strata is None or run.table is None or not len(run.table):
                return []
            codes, names = strata
            shares = np.bincount(codes, run.table.weight, len(names)) / run.table.requests
            found = {name for name, share in zip(names, shares, strict=True) if share >= MIN_SHARE}
            large = found if large is None else large & found
    return sorted(large or ())


def _part(run: Run, strata: _Strata, name: str) -> Run:
    codes, names = strata or (np.empty(0, np.int64), [])
    chosen = codes == names.index(name)
    return replace(reweighted(run, chosen.astype(np.float64)), name=f"{run.name}, {name}")
