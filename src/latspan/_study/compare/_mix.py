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
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from latspan._study.compare._run import STRATA, Run, Stratum, reweighted
from latspan._study.stats import effective_size, fraction_above
from latspan.histogram import values_needed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from latspan._study.table import Table

MIX: Final = "mix"
"""Name by which a change of the mix is accepted."""

MIN_CHANGE: Final = 0.05
"""Change of a share up to which the mix is the same."""

MAX_ONE_SIDED: Final = 0.01
"""Share of the requests that may be in strata of one side only."""

MAX_OF_TAIL: Final = 0.2
"""The same as a part of the requests beyond the percentile."""

MAX_WEIGHT: Final = 10.0
"""Weight of a request above which one request would stand for too many."""

MAX_SHOWN: Final = 4
"""Number of strata in a text."""

MIN_DEVIATIONS: Final = 3.0
"""Standard deviations of chi-squared above which a change is more than chance."""


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
        is_accepted: Whether an attribute that makes the mix was changed on purpose.
    """

    before: Mapping[str, float]
    after: Mapping[str, float]
    changed: bool
    refused: str
    runs: tuple[Run, ...]
    is_weighted: bool = True
    is_accepted: bool = False

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


STREAMED: Final = "streamed"
"""Whether a request streams, as an attribute that divides requests."""


class Stratification(NamedTuple):
    """
    How the requests of a comparison are divided into strata.

    Args:
        without: Attributes that do not divide them: the ones that were changed on purpose, and
            whether a request streams if a run states it of none.
        usual: Requests of each kind that stream, less those that do not. A request that ended
            before its first call is taken for one that streams as the others of its kind do.
    """

    without: frozenset[str]
    usual: Mapping[str, float]


def division_of(runs: Sequence[Run], accept: Collection[str]) -> Stratification:
    """
    Return how the requests of a comparison are divided.

    Args:
        runs: The runs of both sides.
        accept: Names of what was changed on purpose.
    """
    without = frozenset(accept if all(map(_knows_streams, runs)) else {*accept, STREAMED})
    usual: defaultdict[str, float] = defaultdict(float)
    for run in runs:
        for each in _strata(run, without):
            if each.streamed is not None:
                usual[_kind_of(each, without)] += each.requests if each.streamed else -each.requests
    return Stratification(without, usual)


def _knows_streams(run: Run) -> bool:
    if run.table is not None:
        return bool((run.table.streamed >= 0).any())
    return any(each.streamed is not None for each in run.strata)


class _Distinct(NamedTuple):
    """
    Distinct kinds of the requests of a table.

    Args:
        strata: The kinds, in the order in which they occur.
        places: Kind of each request; shape ``(n,)``.
    """

    strata: list[Stratum]
    places: NDArray[np.int64]


def _distinct(table: Table, without: Collection[str]) -> _Distinct:
    chosen = {
        name: table.groups[name] for name in STRATA if name in table.groups and name not in without
    }
    streams = np.zeros(len(table), np.int8) if STREAMED in without else table.streamed
    places: NDArray[np.int64] = streams.astype(np.int64)
    for codes, values in chosen.values():
        # Numbered anew each time: the product of the numbers of values may exceed 64 bits.
        _, places = np.unique(places * (len(values) + 1) + codes, return_inverse=True)
    _, first, places = np.unique(places, return_index=True, return_inverse=True)
    order = np.argsort(first)
    places = np.argsort(order)[places]
    weights: list[float] = np.bincount(places, table.weight, len(first)).tolist()
    rows: list[int] = first[order].tolist()
    strata = [
        Stratum(
            {
                name: values[codes[row]]
                for name, (codes, values) in chosen.items()
                if codes[row] >= 0
            },
            None if streams[row] < 0 else bool(streams[row]),
            weight,
        )
        for row, weight in zip(rows, weights, strict=True)
    ]
    return _Distinct(strata, places)


def _strata(run: Run, without: Collection[str] = ()) -> Sequence[Stratum]:
    return run.strata if run.table is None else _distinct(run.table, without).strata


def _kind_of(stratum: Stratum, without: Collection[str]) -> str:
    named = [stratum.attributes.get(name) for name in STRATA if name not in without]
    # An inference path often has the name of its route.
    return " ".join(dict.fromkeys(filter(None, named)))


def _name_of(stratum: Stratum, division: Stratification) -> str:
    """Return the name of a kind of requests; several kinds may have the same."""
    kind = _kind_of(stratum, division.without)
    streams = stratum.streamed
    if streams is None:
        streams = division.usual.get(kind, 0) > 0
    if STREAMED not in division.without and streams:
        return f"{kind} streamed".strip()
    return kind or "other"


def strata_of(run: Run, division: Stratification) -> tuple[NDArray[np.int64], list[str]] | None:
    """
    Return the stratum of each request, as a code, and the names by code.

    Args:
        run: The run.
        division: How the requests are divided.

    Returns:
        ``None`` if the run has no single requests.
    """
    if run.table is None:
        return None
    strata, places = _distinct(run.table, division.without)
    rows = [_name_of(each, division) for each in strata]
    names = list(dict.fromkeys(rows))
    number = {name: code for code, name in enumerate(names)}
    return np.array([number[row] for row in rows], np.int64)[places], names


def stored_strata(run: Run) -> tuple[Stratum, ...]:
    """Return the kinds of requests of a run, for a file without the requests themselves."""
    return tuple(_strata(run))


def mix_of(
    before: Sequence[Run],
    after: Sequence[Run],
    percentile: float,
    accept: Collection[str] = (),
) -> Mix:
    """
    Return the mixes of both sides, and the second side under the mix of the first.

    Args:
        before: Runs of the first side.
        after: Runs of the second side.
        percentile: Percentile that the weighted runs must be able to give.
        accept: Names of what was changed on purpose: attributes that are no strata then, or the mix
            itself, so that the runs stay as they are.
    """
    division = division_of([*before, *after], accept)
    totals = [_totals(side, division) for side in (before, after)]
    if not all(totals) or not _are_comparable([*before, *after]):
        return Mix({}, {}, changed=False, refused="", runs=tuple(after))
    one, two = ({name: part / sum(each.values()) for name, part in each.items()} for each in totals)
    beyond = fraction_above(percentile)
    if not _has_changed(
        one, two, [sum(run.size for run in side) for side in (before, after)], beyond
    ):
        return Mix(
            one,
            two,
            changed=False,
            refused="",
            runs=tuple(after),
            is_accepted=(
                not {MIX, *STRATA}.isdisjoint(accept) and mix_of(before, after, percentile).changed
            ),
        )
    if MIX in accept:
        return Mix(one, two, changed=True, refused="", runs=tuple(after), is_weighted=False)
    refused = _refused(one, two, beyond)
    if any(run.table is None for run in after):
        refused = "without single requests, the requests after cannot be weighted"
    runs: list[Run] = []
    if not refused:
        for run in after:
            codes, names = strata_of(run, division) or (np.empty(0, np.int64), [])
            # The few requests of a kind that is new stay as they are: they may be what is wrong.
            factors = np.array([one[name] / two[name] if name in one else 1.0 for name in names])
            runs.append(reweighted(run, factors[codes]))
        needed = values_needed(percentile)
        if any(run.table is None or effective_size(run.table.weight) < needed for run in runs):
            refused = f"a run has too few requests of a kind for a p{percentile:g}"
    return Mix(one, two, changed=True, refused=refused, runs=tuple(runs) or tuple(after))


def _totals(runs: Sequence[Run], division: Stratification) -> dict[str, float]:
    """Return the number of requests of each stratum of a side; empty if a run's are unknown."""
    totals: defaultdict[str, float] = defaultdict(float)
    for run in runs:
        strata = _strata(run, division.without)
        if not strata and run.units:
            return {}
        for each in strata:
            totals[_name_of(each, division)] += each.requests
    return dict(totals) or {"other": 1.0}


def _are_comparable(runs: Sequence[Run]) -> bool:
    """Return whether all or none of the runs are histograms, which divide requests otherwise."""
    return len({run.has_histograms_only for run in runs}) == 1


def _has_changed(
    one: Mapping[str, float], two: Mapping[str, float], sizes: Sequence[float], beyond: float
) -> bool:
    """
    Return whether the shares changed by more than the tolerance, and by more than chance.

    The change is half of the sum of all changes: the share of the requests that are of another
    kind. A high percentile needs a smaller tolerance, because a rare kind can be all of its tail.
    """
    if not all(sizes):
        # A side without a request has no mix that could have changed.
        return False
    names = {**one, **two}
    changed = sum(abs(two.get(name, 0.0) - one.get(name, 0.0)) for name in names) / 2
    if changed <= min(MIN_CHANGE, beyond / 2):
        return False
    parts = sum(1 / size for size in sizes)
    chi_squared = 0.0
    for name in names:
        before, after = one.get(name, 0.0), two.get(name, 0.0)
        both = (before * sizes[0] + after * sizes[1]) / sum(sizes)
        chi_squared += (after - before) ** 2 / (both * parts)
    freedom = max(len(names) - 1, 1)
    return chi_squared > freedom + MIN_DEVIATIONS * math.sqrt(2 * freedom)


def _refused(one: Mapping[str, float], two: Mapping[str, float], beyond: float) -> str:
    for shares, others, word in ((one, two, "before"), (two, one, "after")):
        alone = {name: share for name, share in shares.items() if name not in others}
        if sum(alone.values()) > min(MAX_ONE_SIDED, MAX_OF_TAIL * beyond):
            name = max(alone, key=alone.__getitem__)
            return f"{sum(alone.values()):.0%} of the requests exist only {word}, such as {name}"
    name = max(one.keys() & two.keys(), key=lambda each: one[each] / two[each], default="")
    if name and one[name] / two[name] > MAX_WEIGHT:
        return f"too few requests of {name} after: {two[name]:.1%}, and {one[name]:.0%} before"
    return ""
