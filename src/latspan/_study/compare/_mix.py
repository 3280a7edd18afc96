"""
Mix: the shares of the kinds of requests on both sides, and a comparison under one mix.

If more requests of a fast route are sent, the p95 of all requests falls although no route became
faster. So requests are divided into strata by what the caller chose before the call: route,
inference path, requested model, traffic class, and whether the response streams. If the shares of
the strata changed, the requests of the second side are weighted so that they have the mix of the
first (direct standardisation): a request of a stratum with the share ``a`` after and ``b`` before
weighs ``b / a``.

Source: Fleiss, Levin and Paik, Statistical Methods for Rates and Proportions, on direct
standardisation; Kish (1965) for the effective size; Simpson (1951) for strata of opposite sign.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from latspan._study.compare._run import Run, reweighted
from latspan._study.stats import effective_size
from latspan.histogram import values_needed

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["MIX", "STRATA", "Mix", "mix_of", "strata_of"]

MIX: Final = "mix"
"""Name by which a change of the mix is accepted."""

STRATA: Final = ("route", "inference_path", "model", "traffic_class")
"""Attributes that divide requests into strata; all are set before the call."""

MIN_CHANGE: Final = 0.05
"""Change of a share up to which the mix is the same."""

MAX_ONE_SIDED: Final = 0.01
"""Share of the requests that may be in strata of one side only."""

MAX_WEIGHT: Final = 10.0
"""Weight of a request above which one request would stand for too many."""

MAX_SHOWN: Final = 4
"""Number of strata in a text."""

MIN_DEVIATIONS: Final = 3.0
"""Standard errors above which a change of a share is more than chance."""


@dataclass(frozen=True, slots=True)
class Mix:
    """
    Shares of the strata on both sides.

    Args:
        before: Share of each stratum before, by its name.
        after: The same after.
        changed: Whether the shares changed by more than chance and tolerance.
        refused: Why the second side cannot have the mix of the first; empty if it can.
        runs: Runs of the second side, with the mix of the first if it changed.
        is_weighted: Whether these runs have other weights than the recorded ones.
    """

    before: Mapping[str, float]
    after: Mapping[str, float]
    changed: bool
    refused: str
    runs: tuple[Run, ...]
    is_weighted: bool = True

    def text(self) -> tuple[str, str]:
        """Return both mixes in words, the largest shares first."""
        names = sorted({**self.after, **self.before}, key=lambda each: -self.before.get(each, 0.0))[
            :MAX_SHOWN
        ]
        one, two = (
            ", ".join(f"{name} {shares.get(name, 0.0):.0%}" for name in names)
            for shares in (self.before, self.after)
        )
        return one, two


def strata_of(run: Run, *, by_streaming: bool = True) -> tuple[NDArray[np.int64], list[str]] | None:
    """
    Return the stratum of each request, as a code, and the names by code.

    Args:
        run: The run.
        by_streaming: Whether streams are strata of their own.

    Returns:
        ``None`` if the run has no single requests.
    """
    table = run.table
    if table is None:
        return None
    labels: list[list[str]] = []
    for name in STRATA:
        if name in table.groups:
            codes, values = table.groups[name]
            labels.append([values[code] if code >= 0 else "" for code in codes.tolist()])
    if by_streaming:
        labels.append([_STREAMED[code] for code in table.streamed.tolist()])
    if not labels:
        return np.zeros(len(table), np.int64), ["all"]
    rows = [" ".join(filter(None, parts)) or "other" for parts in zip(*labels, strict=True)]
    names = list(dict.fromkeys(rows))
    number = {name: code for code, name in enumerate(names)}
    return np.fromiter(map(number.__getitem__, rows), np.int64, len(rows)), names


_STREAMED: Final = {1: "streamed", 0: "", -1: ""}


def know_streaming(runs: Sequence[Run]) -> bool:
    """Return whether each run states of all its requests whether they stream."""
    return all(run.table is not None and (run.table.streamed >= 0).all() for run in runs)


def mix_of(
    before: Sequence[Run], after: Sequence[Run], percentile: float, *, accepted: bool = False
) -> Mix:
    """
    Return the mixes of both sides, and the second side under the mix of the first.

    Args:
        before: Runs of the first side.
        after: Runs of the second side.
        percentile: Percentile that the weighted runs must be able to give.
        accepted: Whether the mix is the change that was made, so that the runs stay as they are.
    """
    by_streaming = know_streaming([*before, *after])
    sides = [
        [strata_of(run, by_streaming=by_streaming) for run in side] for side in (before, after)
    ]
    if any(strata is None for side in sides for strata in side):
        return Mix({}, {}, changed=False, refused="", runs=tuple(after))
    totals = [_totals(runs, side) for runs, side in zip((before, after), sides, strict=True)]
    one, two = ({name: part / sum(each.values()) for name, part in each.items()} for each in totals)
    if not _has_changed(one, two, [_size(side) for side in (before, after)]):
        return Mix(one, two, changed=False, refused="", runs=tuple(after))
    if accepted:
        return Mix(one, two, changed=True, refused="", runs=tuple(after), is_weighted=False)
    refused = _refused(one, two)
    runs: list[Run] = []
    if not refused:
        for run, strata in zip(after, sides[1], strict=True):
            codes, names = strata or (np.empty(0, np.int64), [])
            factors = np.array([one.get(name, 0.0) / two[name] for name in names])
            runs.append(reweighted(run, factors[codes]))
        needed = values_needed(percentile)
        if any(run.table is None or effective_size(run.table.weight) < needed for run in runs):
            refused = f"a run has too few requests of a kind for a p{percentile:g}"
    return Mix(one, two, changed=True, refused=refused, runs=tuple(runs) or tuple(after))


def _totals(
    runs: Sequence[Run], strata: Sequence[tuple[NDArray[np.int64], list[str]] | None]
) -> dict[str, float]:
    totals: dict[str, float] = {}
    for run, each in zip(runs, strata, strict=True):
        if each is not None and run.table is not None:
            codes, names = each
            for name, part in zip(
                names, np.bincount(codes, run.table.weight, len(names)), strict=True
            ):
                totals[name] = totals.get(name, 0.0) + float(part)
    return totals or {"other": 1.0}


def _size(runs: Sequence[Run]) -> float:
    """Return the effective number of requests of a side."""
    weights = [run.table.weight for run in runs if run.table is not None]
    return effective_size(np.concatenate(weights)) if weights else 0.0


def _has_changed(
    one: Mapping[str, float], two: Mapping[str, float], sizes: Sequence[float]
) -> bool:
    """Return whether a share changed by more than the tolerance, and by more than chance."""
    for name in {**one, **two}:
        before, after = one.get(name, 0.0), two.get(name, 0.0)
        both = (before * sizes[0] + after * sizes[1]) / max(sum(sizes), 1.0)
        error = math.sqrt(both * (1 - both) * sum(1 / max(size, 1.0) for size in sizes))
        change = abs(after - before)
        if change > MIN_CHANGE and change > MIN_DEVIATIONS * error:
            return True
    return False


def _refused(one: Mapping[str, float], two: Mapping[str, float]) -> str:
    for shares, others, word in ((one, two, "before"), (two, one, "after")):
        alone = {name: share for name, share in shares.items() if name not in others}
        if sum(alone.values()) > MAX_ONE_SIDED:
            name = max(alone, key=alone.__getitem__)
            return f"{sum(alone.values()):.0%} of the requests exist only {word}, such as {name}"
    name = max(one.keys() & two.keys(), key=lambda each: one[each] / two[each], default="")
    if name and one[name] / two[name] > MAX_WEIGHT:
        return f"too few requests of {name} after: {two[name]:.1%}, and {one[name]:.0%} before"
    return ""
