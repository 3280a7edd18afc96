"""
Rules on groups of units: one route, model, replica or tenant that is slow, or that others overtake.

They test each value of each attribute. Their probabilities are corrected for the number of tests by
Holm's method.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from math import nan
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from latspan._model.metrics import OF_PACE, TIME_TO_FIRST_TOKEN
from latspan._model.segments import SegmentName
from latspan._model.text import percent
from latspan._model.units import rounded_ms
from latspan._study.diagnose._cause import Cause
from latspan._study.diagnose._facts import SIMILAR, Facts
from latspan._study.diagnose._finding import Finding, times
from latspan._study.stats import hypergeometric_tail

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SIGNIFICANT: Final = 0.01
_LIFT: Final = 1.5
"""Fraction of the tail band that a group holds, over that of all units, from which it is common."""

_EXPLAINS: Final = 0.5
"""
Fraction of the tail band that one group must hold to explain it. If a group is smaller than the
band, this fraction of the group must be in the band.
"""

_SAVED: Final = 0.5
"""Fraction of the difference between slow and typical units that goes without a slow group."""

_PARTS: Final = 4
_LEVELS: Final = 3
"""Number of levels of load at which a group is compared with the other units."""

_MIN_AT_LEVEL: Final = 5
_SLOWER: Final = 1.3
"""A group is slow if its mean is more than this many times the mean of the other units. It must
be slow in at least three of the four quarters of the recording."""

_CLEARLY: Final = 0.05
"""Time between two units in a queue, over the wait of slow units, from which their order counts."""

_NEARLY_ALL: Final = 0.8
"""Fraction of the units that are overtaken, or slow in one respect, that must be of one group."""

_LONGER: Final = 2.0
"""Mean wait of an overtaken group over that of the others from which the order counts."""

_MINORITY: Final = 0.5
"""Largest fraction of all units in a group that others overtake, and not itself the load."""

_EMPTY: Final = 0.5
"""Wait of the quickest tenth over the mean wait, below which a queue is empty at times."""

_PLACES: Final = frozenset({"backend", "host", "instance", "node", "pod", "replica", "server"})
"""Words in the names of attributes whose values are places that requests need not use."""

_CAPACITY: Final = frozenset(
    {SegmentName.QUEUE, SegmentName.SERVER_WAIT, SegmentName.GATEWAY, SegmentName.POOL_WAIT}
)


class _Group(NamedTuple):
    """
    Units with one value of one attribute.

    Args:
        attribute: Name of the attribute.
        value: Its value.
        inside: Which units belong to the group.
    """

    attribute: str
    value: str
    inside: NDArray[np.bool_]

    @property
    def is_place(self) -> bool:
        """Whether the value is a place that requests need not use: a replica, but not a tenant."""
        return not _PLACES.isdisjoint(re.split(r"[\W_]+", self.attribute.lower()))

    @property
    def of_all(self) -> float:
        """Fraction of all units that belong to the group."""
        return float(self.inside.mean())


class _Test(NamedTuple):
    """
    Test of whether some units belong to one group more often than by chance.

    Args:
        probability: Probability that as many of them belong to it by chance.
        held: Fraction of these units, or of the group if it is smaller, that are in both.
        of_them: Fraction of these units that belong to the group.
        group: The group.
    """

    probability: float
    held: float
    of_them: float
    group: _Group


def slow_group(facts: Facts) -> Finding | None:
    """Return the finding if most of the tail has one route, model, replica or tenant."""
    group = next(
        (
            test.group
            for test in _significant(facts, facts.attribution.tail)
            if test.held >= _EXPLAINS
            and test.of_them >= _LIFT * test.group.of_all
            and _is_slow_throughout(facts, test.group)
        ),
        None,
    )
    if group is None:
        return None
    values, inside = facts.table.value_ns, group.inside
    own_ns, others_ns = float(np.nanmedian(values[inside])), float(np.nanmedian(values[~inside]))
    if own_ns < SIMILAR * others_ns or not _saves(facts, group):
        return None
    if facts.are_larger(inside) or facts.has_more(facts.uncached_tokens, inside):
        # The rule of the segment explains that.
        return None
    segment, own, others = _slower_in(facts, group)
    alike = "; its prompts and answers are not longer"
    if not facts.knows_sizes:
        alike = "; whether its prompts or answers are longer is not known"
    elif facts.table.goal.metric in OF_PACE and facts.has_more(
        facts.table.number("output_tokens"), ~inside
    ):
        alike = "; its answers are shorter, so that what each needs once counts more per token"
    return Finding(
        Cause.SLOW_GROUP,
        f"requests of one {group.attribute} are slow: '{group.value}', because of {segment}"
        f" ({rounded_ms(own)} on average, others {rounded_ms(others)})",
        _lever(group, segment),
        (
            (
                f"'{group.value}' has {percent(group.of_all)} of the requests and"
                f" {percent(float(inside[facts.attribution.tail].mean()))} of the slow ones"
            ),
            (
                f"its median is {rounded_ms(own_ns)}, {times(own_ns / max(others_ns, 1.0))} that"
                f" of the others{alike}"
            ),
        ),
        f"the same requests are as slow with another {group.attribute}",
        (segment,),
    )


def overtaken_group(facts: Facts) -> Finding | None:
    """
    Return the finding if a queue is not served in order, at the cost of one group.

    In a queue for too little capacity, each request waits for those that came before it. If the
    requests of one group wait while later ones of others begin, these have precedence, or places of
    their own.
    """
    if facts.leader.name != SegmentName.QUEUE:
        return None
    waits, overtaken = facts.table.segment(SegmentName.QUEUE), np.flatnonzero(_overtaken(facts))
    for test in _significant(facts, overtaken):
        group, inside = test.group, test.group.inside
        own, others = float(waits[inside].mean()), float(waits[~inside].mean())
        if test.of_them < _NEARLY_ALL or group.of_all > _MINORITY or own < _LONGER * others:
            continue
        # A wait that even the quickest of the group have is no queue.
        is_queue = float(np.quantile(waits[inside], 0.1)) <= _EMPTY * own
        if is_queue and _is_slow_at_equal_load(facts, group) and not facts.are_larger(inside):
            return Finding(
                Cause.SLOW_GROUP,
                f"requests of one {group.attribute} wait while later ones of others begin:"
                f" '{group.value}', {rounded_ms(own)} in the queue against"
                f" {rounded_ms(others)}",
                _lever(group, SegmentName.QUEUE),
                (
                    (
                        f"later requests overtake {len(overtaken):,} requests in the queue, and"
                        f" {percent(test.of_them)} of these are of '{group.value}', which has"
                        f" {percent(group.of_all)} of all"
                    ),
                ),
                "the queue is served in the order of arrival",
                (SegmentName.QUEUE,),
            )
    return None


def slower_group(facts: Facts, times_ns: NDArray[np.float64], name: str) -> Finding | None:
    """
    Return the finding if the slow units are of one group where a time of theirs is longer.

    Args:
        facts: The facts.
        times_ns: A time of each unit that does not depend on the size of its work.
        name: What the time is.
    """
    tail, usual = facts.attribution.tail, facts.typical(times_ns)
    chosen = tail[times_ns[tail] > SIMILAR * usual]
    for test in _significant(facts, chosen):
        group, inside = test.group, test.group.inside
        own, others = (float(np.nanmedian(times_ns[rows])) for rows in (inside, ~inside))
        if test.of_them >= _NEARLY_ALL and own >= SIMILAR * others:
            return Finding(
                Cause.SLOW_GROUP,
                f"requests of one {group.attribute} are slow: '{group.value}', because of the"
                f" {name} ({rounded_ms(own)} on average, others {rounded_ms(others)})",
                _lever(group, name),
                (
                    (
                        f"{percent(test.of_them)} of the slow requests with a longer {name}"
                        f" are of '{group.value}', which has {percent(group.of_all)} of all"
                    ),
                ),
                f"the same requests are as slow with another {group.attribute}",
                (facts.leader.name,),
            )
    return None


def _lever(group: _Group, segment: str) -> str:
    """Return what to change about a slow group: a place can be left, and a tenant cannot."""
    value = group.value
    if group.is_place:
        return f"take '{value}' out of the rotation, compare, and look at {segment} there"
    if segment in _CAPACITY:
        return f"give '{value}' capacity of its own, and look at {segment} of its requests"
    return f"shorten {segment} for '{value}': compare what it does there with the others"


def _significant(facts: Facts, chosen: NDArray[np.int64]) -> Iterator[_Test]:
    """
    Yield the groups to which some units belong more often than by chance, the clearest first.

    Args:
        facts: The facts.
        chosen: Indexes of the units.
    """
    usable = ~np.isnan(facts.table.value_ns)
    size = int(usable.sum())
    tests: list[_Test] = []
    for group in _groups(facts):
        members, found = int((group.inside & usable).sum()), int(group.inside[chosen].sum())
        if 0 < members < size and len(chosen):
            probability = hypergeometric_tail(found, size, members, len(chosen))
            # A group that is smaller than the number of units cannot have all of them.
            held = found / min(len(chosen), members)
            tests.append(_Test(probability, held, found / len(chosen), group))
    yield from _by_holm(tests)


def _groups(facts: Facts) -> Iterator[_Group]:
    for name, (codes, values) in facts.table.groups.items():
        for code, value in enumerate(values):
            yield _Group(name, value, codes == code)


def _by_holm(tests: Iterable[_Test]) -> Iterator[_Test]:
    """Yield the tests that are significant by Holm's method."""
    ordered = sorted(tests, key=lambda test: (test.probability, -test.of_them))
    for rank, test in enumerate(ordered):
        if test.probability * (len(ordered) - rank) >= _SIGNIFICANT:
            return
        yield test


def _overtaken(facts: Facts) -> NDArray[np.bool_]:
    """Return which units leave the queue clearly after one that came clearly later."""
    table, waits = facts.table, facts.table.segment(SegmentName.QUEUE)
    work = table.segment(SegmentName.MODEL_LOAD, SegmentName.PREFILL, SegmentName.REASONING)
    left = table.start_ns + table.number(TIME_TO_FIRST_TOKEN) - work
    known = np.flatnonzero(np.isfinite(left))
    left = left[known]
    came = left - waits[known]
    clearly = _CLEARLY * facts.leader.mean_ns
    order = np.argsort(came, kind="stable")
    # Of the units that came at an instant or later, the one that left first.
    first = np.minimum.accumulate(np.append(left[order], np.inf)[::-1])[::-1]
    later = np.searchsorted(came[order], came + clearly, "right")
    result = np.zeros(len(table), dtype=bool)
    result[known] = first[later] < left - clearly
    return result


def _is_slow_throughout(facts: Facts, group: _Group) -> bool:
    """
    Return whether a group is slow throughout the recording, and also at equal load.

    The group must be slow in at least three of the four quarters of the recording. It must also be
    slow at equal load: units that met the same load at their server are compared, at half or more
    of three levels of load. One long queue delays many requests of one server at the same time.
    Fisher's exact test alone would then report this server as a slow group, so the group must be
    slow in several quarters.
    """
    inside, values = group.inside, facts.table.value_ns
    parts = np.array_split(np.arange(len(facts.table)), _PARTS)
    if sum(_is_slow(part, inside, values) for part in parts) < _PARTS - 1:
        return False
    return _is_slow_beside_others(facts, group) and _is_slow_at_equal_load(facts, group)


def _is_slow_beside_others(facts: Facts, group: _Group) -> bool:
    """
    Return whether a group is slower than the units of others that start just before or after.

    A group that is active while everything is slow is as slow as the units next to it.
    """
    known = ~np.isnan(facts.table.value_ns)
    own, others = np.flatnonzero(group.inside & known), np.flatnonzero(~group.inside & known)
    if not len(own) or not len(others):
        return False
    after = np.searchsorted(others, own)
    beside = np.concatenate(
        [others[np.maximum(after - 1, 0)], others[np.minimum(after, len(others) - 1)]]
    )
    values = facts.table.value_ns
    return bool(values[own].mean() > _SLOWER * values[beside].mean())


def _is_slow_at_equal_load(facts: Facts, group: _Group) -> bool:
    """
    Return whether a group is slower than other units that met the same load at their place.

    A replica with more to do, which is as fast as the others at the same load, is not slow by
    itself. Chance lets one of several equal queues be longer for a while.
    """
    inside, values = group.inside, facts.table.value_ns
    load = facts.in_flight_of(group.attribute) if group.is_place else facts.in_flight_at_server
    low, high = (
        end(float(end_of(load[rows])) for rows in (inside, ~inside))
        for end, end_of in ((max, np.min), (min, np.max))
    )
    alike = np.flatnonzero((load >= low) & (load <= high))
    levels = [
        rows
        for rows in np.array_split(alike[np.argsort(load[alike], kind="stable")], _LEVELS)
        if min(inside[rows].sum(), (~inside[rows]).sum()) >= _MIN_AT_LEVEL
    ]
    return not levels or sum(_is_slow(rows, inside, values) for rows in levels) >= len(levels) / 2


def _is_slow(
    rows: NDArray[np.int64], inside: NDArray[np.bool_], values: NDArray[np.float64]
) -> bool:
    own, others = rows[inside[rows]], rows[~inside[rows]]
    return bool(_mean(values[own]) > _SLOWER * _mean(values[others]))


def _saves(facts: Facts, group: _Group) -> bool:
    """
    Return whether the group is the one delay to fix: the percentile falls enough without it.

    If slow units differ from typical ones, half of the difference must go with the group. Otherwise
    the percentile must fall by more than the mean time of the largest segment of the other units,
    because that segment is a larger delay, which all units have.
    """
    values, percentile = facts.table.value_ns, facts.table.goal.percentile
    others = ~group.inside & ~np.isnan(values)
    whole = float(np.nanpercentile(values, percentile))
    without = float(np.percentile(values[others], percentile))
    if facts.attribution.by_excess:
        return whole - without >= _SAVED * (whole - facts.attribution.typical_ns)
    means = facts.table.segments_ns[others].mean(axis=0, dtype=np.float64)
    return whole - without > float(means.max())


def _slower_in(facts: Facts, group: _Group) -> tuple[str, float, float]:
    """
    Return the segment in which a group loses most.

    Returns:
        Its name, and its mean time per unit of the group and of the others, in nanoseconds.
    """
    inside, usable = group.inside, ~np.isnan(facts.table.value_ns)
    own, others = (
        facts.table.segments_ns[rows].mean(axis=0, dtype=np.float64)
        for rows in (inside & usable, ~inside & usable)
    )
    most = int(np.argmax(own - others))
    return facts.table.names[most], float(own[most]), float(others[most])


def _mean(values: NDArray[np.float64]) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else nan
