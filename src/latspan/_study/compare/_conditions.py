"""
Differences between the conditions of two sides, and whether they can explain a change.

A comparison answers what one change did, so everything else must be equal: prompts, load, model,
parameters, cache, the length of the answers. Shorter answers look like a faster system, and a cache
that the first measurement has filled looks like an improvement. A difference that the user names as
the change is *accepted*. Any other one that can explain a change makes the comparison not
interpretable.

Source: MLPerf's rules for the bounds of the output length.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, cast

from latspan._study.compare._run import Profile, Run
from latspan._text import text_of

__all__ = ["Difference", "Weight", "differences"]

_MOST_LENGTH: Final = 0.10
"""Relative change of the mean number of tokens that is no difference."""
_MOST_CACHED: Final = 0.10
"""Change of the cached fraction of the input that is no difference."""
_MOST_REUSED: Final = 0.10
"""Change of the share of requests on a reused connection that is not named."""
_MOST_RATE: Final = 0.25
"""Relative change of the request rate of recordings without a load test that is not named."""
_SURE: Final = 3.0
"""Standard errors above which a change of the mean output length is not chance."""
_LONGEST: Final = 60


class Weight(StrEnum):
    """What a difference means for the comparison."""

    EXPLAINS = "explains"
    """It can explain a change by itself."""
    NOTE = "note"
    """A reader should know it."""


@dataclass(frozen=True, slots=True)
class Difference:
    """
    One condition in which two sides differ.

    Args:
        name: Name of the condition, by which it can be accepted.
        before: Its value before, as text.
        after: Its value after, as text.
        weight: What it means.
        accepted: Whether it is the change that was made.
    """

    name: str
    before: str
    after: str
    weight: Weight
    accepted: bool = False

    @property
    def blocks(self) -> bool:
        """Whether the comparison is not interpretable because of it."""
        return self.weight is Weight.EXPLAINS and not self.accepted

    def __str__(self) -> str:
        return f"{self.name}: {self.before} before, {self.after} after"


_CONDITIONS: Final[dict[str, tuple[str, Weight]]] = {
    "model": ("model", Weight.EXPLAINS),
    "prompts.fingerprint": ("prompts", Weight.EXPLAINS),
    "prompts.order": ("order", Weight.NOTE),
    "arrivals": ("arrivals", Weight.NOTE),
    "seed": ("seed", Weight.NOTE),
    "cache": ("cache", Weight.EXPLAINS),
    "connections": ("connections", Weight.EXPLAINS),
    "max_in_flight": ("max_in_flight", Weight.EXPLAINS),
    "timeout_s": ("timeout_s", Weight.EXPLAINS),
    "processors": ("machine", Weight.EXPLAINS),
    "platform": ("machine", Weight.EXPLAINS),
    "host": ("host", Weight.NOTE),
    "measured": ("measured", Weight.NOTE),
    "python": ("python", Weight.NOTE),
    "latspan": ("latspan", Weight.NOTE),
    "revision": ("revision", Weight.NOTE),
    "program": ("program", Weight.NOTE),
}
"""Name and weight of each known condition; conditions that are not known are parameters."""

_REUSED: Final = "connections_reused"
_IGNORED: Final = frozenset(
    {
        "prompts.source",
        "prompts.count",
        "prompts.characters",
        # What the responses show varies from run to run, so it is compared with a tolerance.
        "models_returned",
        "cached_input",
        _REUSED,
    }
)


def differences(
    before: Sequence[Run], after: Sequence[Run], accept: Collection[str] = ()
) -> tuple[Difference, ...]:
    """
    Return the differences between two sides, those that explain a change first.

    Args:
        before: Runs of the first side.
        after: Runs of the second side.
        accept: Names of the differences that are the change.
    """
    found = [
        *_within(before, "BEFORE"),
        *_within(after, "AFTER"),
        *_of_conditions(before, after),
        *_of_profiles([run.profile for run in before], [run.profile for run in after]),
        *_of_connections(before, after),
    ]
    marked = [
        Difference(each.name, each.before, each.after, each.weight, each.name in accept)
        for each in found
    ]
    return tuple(sorted(marked, key=lambda each: (not each.blocks, each.weight is Weight.NOTE)))


def _within(runs: Sequence[Run], side: str) -> Iterator[Difference]:
    """Yield what differs between the runs of one side, whose conditions must be equal."""
    for key, (name, weight) in _names(runs).items():
        values = list(dict.fromkeys(_shown(flat.get(key)) for flat in map(_flat, runs)))
        if weight is Weight.EXPLAINS and len(values) > 1 and runs[0].conditions:
            yield Difference(f"{name} of {side}", values[0], values[1], weight)


def _of_conditions(before: Sequence[Run], after: Sequence[Run]) -> Iterator[Difference]:
    if before[0].kind is not after[0].kind:
        yield Difference("kind", before[0].kind, after[0].kind, Weight.EXPLAINS)
    unknown = [not any(run.conditions for run in runs) for runs in (before, after)]
    if any(unknown):
        one, two = ("unknown" if each else "known" for each in unknown)
        yield Difference("conditions", one, two, Weight.NOTE)
        return
    names = _names([*before, *after])
    shown: set[str] = set()
    for key, (name, weight) in names.items():
        one, two = (_values(runs, key) for runs in (before, after))
        if one != two and name not in shown:
            shown.add(name)
            yield Difference(name, ", ".join(one), ", ".join(two), weight)
    loads = [
        list(dict.fromkeys(_load(run.profile.load) for run in runs)) for runs in (before, after)
    ]
    if loads[0] != loads[1]:
        yield Difference("load", ", ".join(loads[0]), ", ".join(loads[1]), Weight.EXPLAINS)


def _names(runs: Sequence[Run]) -> dict[str, tuple[str, Weight]]:
    """Return name and weight of each condition that occurs."""
    keys = dict.fromkeys(key for run in runs for key in _flat(run))
    known = {key: _CONDITIONS[key] for key in _CONDITIONS if key in keys}
    others = {key: (key, Weight.EXPLAINS) for key in keys if key not in _CONDITIONS}
    return {**known, **others}


def _flat(run: Run) -> dict[str, Any]:
    """Return the conditions of a run, those inside others as ``outer.inner``."""
    flat: dict[str, Any] = {}
    for name, value in run.conditions.items():
        if isinstance(value, Mapping):
            inner = cast("Mapping[str, Any]", value)
            flat |= {f"{name}.{each}": found for each, found in inner.items()}
        else:
            flat[name] = value
    return {name: value for name, value in flat.items() if name not in _IGNORED}


def _values(runs: Sequence[Run], key: str) -> list[str]:
    """Return the values of a condition, each once and in one order on both sides."""
    return sorted({_shown(_flat(run).get(key)) for run in runs})


def _shown(value: object) -> str:
    if value is None:
        return "none"
    text = text_of(value)
    is_fingerprint = text.startswith("sha256:")
    return text[:15] if is_fingerprint else text[:_LONGEST]


def _load(load: Mapping[str, Any] | None) -> str:
    if load is None:
        return "none"
    return ", ".join(f"{name} {_shown(value)}" for name, value in sorted(load.items()))


def _of_profiles(before: Sequence[Profile], after: Sequence[Profile]) -> Iterator[Difference]:
    models = [sorted({name for each in side for name in each.models}) for side in (before, after)]
    if all(models) and models[0] != models[1]:
        yield Difference(
            "response_model", ", ".join(models[0]), ", ".join(models[1]), Weight.EXPLAINS
        )
    yield from _lengths(before, after, "output_length", lambda each: each.output_tokens)
    yield from _lengths(before, after, "input_length", lambda each: each.input_tokens)
    cached = [_mean(each.cached for each in side) for side in (before, after)]
    if None not in cached:
        one, two = (value or 0.0 for value in cached)
        if abs(two - one) > _MOST_CACHED:
            yield Difference("cached", f"{one:.0%}", f"{two:.0%}", Weight.EXPLAINS)
    rates = [_mean(each.per_s for each in side) for side in (before, after)]
    is_load_test = any(each.load is not None for each in (*before, *after))
    if not is_load_test and rates[0] and rates[1]:
        change = abs(math.log(rates[1] / rates[0]))
        if change > math.log1p(_MOST_RATE):
            yield Difference(
                "rate", f"{rates[0]:.3g} per second", f"{rates[1]:.3g} per second", Weight.NOTE
            )


def _of_connections(before: Sequence[Run], after: Sequence[Run]) -> Iterator[Difference]:
    """
    Yield a difference in the reuse of connections, if it is larger than that of equal runs.

    It explains nothing by itself: a faster server needs fewer connections for the same load, and
    the time in which connections were opened is a segment of its own.
    """
    one, two = (
        _mean(
            float(reused)
            for run in side
            if isinstance(reused := run.conditions.get(_REUSED), int | float)
        )
        for side in (before, after)
    )
    if one is not None and two is not None and abs(two - one) > _MOST_REUSED:
        yield Difference(_REUSED, f"{one:.0%}", f"{two:.0%}", Weight.NOTE)


def _lengths(
    before: Sequence[Profile],
    after: Sequence[Profile],
    name: str,
    length: Callable[[Profile], float | None],
) -> Iterator[Difference]:
    one, two = (_mean(length(each) for each in side) for side in (before, after))
    if not one or two is None or abs(two / one - 1) <= _MOST_LENGTH:
        return
    errors = [each.output_error for each in (*before, *after)]
    weight = Weight.EXPLAINS
    if name == "output_length" and None not in errors:
        # The mean of few answers varies; a difference by chance explains nothing.
        sides = [
            math.sqrt(sum((each.output_error or 0) ** 2 for each in side)) / len(side)
            for side in (before, after)
        ]
        if abs(two - one) < _SURE * math.hypot(*sides):
            weight = Weight.NOTE
    yield Difference(name, f"{one:,.1f} tokens", f"{two:,.1f} tokens", weight)


def _mean(values: Iterator[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
