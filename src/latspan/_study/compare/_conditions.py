"""
Differences between the conditions of two sides, and whether they can explain a change.

A comparison shows the effect of one change, so everything else must be equal: prompts, load, model,
parameters, cache, the length of the answers. Shorter answers look like a faster system, and a cache
that the first measurement has filled looks like an improvement. A difference that the user names as
the change is *accepted*. Any other difference that can explain the result makes the comparison not
interpretable.

Source: MLPerf's rules for the bounds of the output length.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import stdev
from typing import Any, Final, cast

from latspan._base.text import text_of
from latspan._model.goals import LOAD_CONDITIONS
from latspan._study.compare._run import Profile, Run

MAX_LENGTH_CHANGE: Final = 0.10
"""Ignore changes of a length, in tokens or chunks, up to 10 %."""
_MAX_CACHED_CHANGE: Final = 0.10
"""A change of the cached fraction of the input up to this is not a difference."""
_MAX_REUSED_CHANGE: Final = 0.10
"""A change of the share of requests on a reused connection up to this is not a difference."""
_MAX_RATE_CHANGE: Final = 0.25
"""A relative change of the request rate up to this is not a difference. Not used for load tests."""
RATE: Final = "rate"
"""Name of the condition that is the number of requests per second."""
_SURE: Final = 3.0
"""Standard errors above which a change of the mean output length is not chance."""
_MAX_LENGTH: Final = 60
"""Maximum length of a value that is shown. Values are compared as a whole."""
_MAX_LOAD_LENGTH: Final = 200
_MAX_FINGERPRINT_LENGTH: Final = 15
_FINGERPRINT: Final = "sha256:"
_CUT: Final = "…"
_WITHIN: Final = " of "
"""Text between the name of a condition and the side whose runs differ in it."""


class Weight(StrEnum):
    """What a difference means for the comparison."""

    EXPLAINS = "explains"
    """It can explain a change by itself."""
    IMPROVEMENT = "improvement"
    """It can explain an improvement by itself, so none is claimed."""
    NOTE = "note"
    """A reader should know it."""


@dataclass(frozen=True, slots=True)
class Difference:
    """
    One condition in which two sides differ.

    Args:
        name: Name of the condition, by which it can be accepted.
        before: Value before, as text; that of some runs if the runs of one side differ.
        after: Value after, as text; that of other runs if the runs of one side differ.
        weight: What it means.
        accepted: Whether it is the change that was made.
    """

    name: str
    before: str
    after: str
    weight: Weight
    accepted: bool = False

    @property
    def condition(self) -> str:
        """Name of the condition, without the side whose runs differ."""
        return self.name.removesuffix(f"{_WITHIN}BEFORE").removesuffix(f"{_WITHIN}AFTER")

    @property
    def is_within_a_side(self) -> bool:
        """Whether runs of one side differ, and not the sides."""
        return self.condition != self.name

    def is_named(self, names: Collection[str], *, exactly: bool = False) -> bool:
        """
        Return whether one of the names is that of the difference or of its condition.

        Args:
            names: The names.
            exactly: Whether the name of a condition matches only a difference between the two
                sides, and not a difference between the runs of one side.
        """
        return self.name in names or (not exactly and self.condition in names)

    @property
    def forbids_improved(self) -> bool:
        """Whether no improvement is claimed because of it."""
        return self.weight is Weight.IMPROVEMENT and not self.accepted

    @property
    def blocks(self) -> bool:
        """Whether the comparison is not interpretable because of it."""
        return self.weight is Weight.EXPLAINS and not self.accepted

    def __str__(self) -> str:
        if self.is_within_a_side:
            return f"{self.name}: {self.before} in some runs, {self.after} in others"
        return f"{self.name}: {self.before} before, {self.after} after"


_CONDITIONS: Final[dict[str, tuple[str, Weight]]] = {
    "model": ("model", Weight.EXPLAINS),
    "prompts.fingerprint": ("prompts", Weight.EXPLAINS),
    "prompts.order": ("order", Weight.NOTE),
    "arrivals": ("arrivals", Weight.NOTE),
    "seed": ("seed", Weight.NOTE),
    **{name: (name, Weight.EXPLAINS) for name in LOAD_CONDITIONS},
    "processors": ("machine", Weight.EXPLAINS),
    "platform": ("machine", Weight.EXPLAINS),
    "host": ("host", Weight.NOTE),
    "measured": ("measured", Weight.NOTE),
    "python": ("python", Weight.NOTE),
    "latspan": ("latspan", Weight.NOTE),
    "revision": ("revision", Weight.NOTE),
    "program": ("program", Weight.NOTE),
}
"""Name and weight of each known condition; unknown conditions are parameters."""

_ANSWERED: Final = "response_model"
_REUSED: Final = "connections_reused"
_IGNORED: Final = frozenset(
    {
        "prompts.source",
        "prompts.count",
        "prompts.characters",
        "prompts.shared",
        # What the responses show varies from run to run, so it is compared with a tolerance.
        "models_returned",
        "cached_input",
        _REUSED,
    }
)


def differences(
    before: Sequence[Run],
    after: Sequence[Run],
    accept: Collection[str] = (),
    *,
    exactly: bool = False,
) -> tuple[Difference, ...]:
    """
    Return the differences between two sides, those that explain a change first.

    Args:
        before: Runs of the first side.
        after: Runs of the second side.
        accept: Names of the differences that are the change.
        exactly: Whether the name of a condition accepts only a difference between the two sides,
            and not a difference between the runs of one side.
    """
    found = [
        *_within(before, "BEFORE"),
        *_within(after, "AFTER"),
        *_of_conditions(before, after),
        *_of_profiles([run.profile for run in before], [run.profile for run in after]),
        *_of_connections(before, after),
    ]
    marked = [replace(each, accepted=each.is_named(accept, exactly=exactly)) for each in found]
    return tuple(
        sorted(marked, key=lambda each: (not each.blocks, each.weight is not Weight.EXPLAINS))
    )


def _within(runs: Sequence[Run], side: str) -> Iterator[Difference]:
    """Yield the differences between the runs of one side, which should have equal conditions."""

    def found(
        name: str, values: Iterable[str], max_length: int = _MAX_LENGTH
    ) -> Iterator[Difference]:
        different = list(dict.fromkeys(values))
        if len(different) > 1:
            one, two, *_ = _shortened(different, max_length)
            yield Difference(f"{name}{_WITHIN}{side}", one, two, Weight.EXPLAINS)

    yield from found("kind", (run.kind for run in runs))
    known = [run for run in runs if run.conditions]
    shown: set[str] = set()
    for key, (name, weight) in _names(known).items():
        if weight is Weight.EXPLAINS and name not in shown:
            differ = list(found(name, (_text(_flat(run).get(key)) for run in known)))
            shown |= {name for _ in differ}
            yield from differ
    yield from found("load", (_load(run.profile.load) for run in runs), _MAX_LOAD_LENGTH)
    # The models of a run without a response are unknown.
    answered = [sorted(run.profile.models) for run in runs if run.profile.models]
    yield from found(_ANSWERED, map(", ".join, answered))


def _of_conditions(before: Sequence[Run], after: Sequence[Run]) -> Iterator[Difference]:
    yield from _between("kind", *(sorted({run.kind for run in runs}) for runs in (before, after)))
    unknown = [not any(run.conditions for run in runs) for runs in (before, after)]
    if any(unknown):
        one, two = ("unknown" if each else "known" for each in unknown)
        yield Difference("conditions", one, two, Weight.NOTE)
        return
    names = _names([*before, *after])
    shown: set[str] = set()
    for key, (name, weight) in names.items():
        if name not in shown:
            differ = list(
                _between(name, *(_values(runs, key) for runs in (before, after)), weight=weight)
            )
            shown |= {name for _ in differ}
            yield from differ
    yield from _between(
        "load",
        *(sorted({_load(run.profile.load) for run in runs}) for runs in (before, after)),
        max_length=_MAX_LOAD_LENGTH,
    )


def _between(
    name: str,
    before: Sequence[str],
    after: Sequence[str],
    *,
    weight: Weight = Weight.EXPLAINS,
    max_length: int = _MAX_LENGTH,
) -> Iterator[Difference]:
    """
    Yield a difference if two sides do not have the same values.

    The values of each side are distinct and sorted.
    """
    if before != after:
        every = list(dict.fromkeys([*before, *after]))
        short = dict(zip(every, _shortened(every, max_length), strict=True))
        one, two = (", ".join(short[value] for value in side) for side in (before, after))
        yield Difference(name, one, two, weight)


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
    """Return the values of a condition, each once and sorted."""
    return sorted({_text(_flat(run).get(key)) for run in runs})


def _text(value: object) -> str:
    """Return a value as a whole, because two values may differ in their last character."""
    return "none" if value is None else text_of(value, sys.maxsize)


def _load(load: Mapping[str, Any] | None) -> str:
    if not load:
        return "none"
    return ", ".join(f"{name} {_text(value)}" for name, value in sorted(load.items()))


def _shortened(values: Sequence[str], max_length: int) -> list[str]:
    """
    Return different values short enough to be shown, each with the part in which it differs.

    Args:
        values: The values, each once.
        max_length: Maximum length of a value that is not cut.
    """
    short: list[str] = []
    for value in values:
        same = max((_same_start(value, one) for one in values if one != value), default=0)
        if value.startswith(_FINGERPRINT) and same < _MAX_FINGERPRINT_LENGTH:
            short.append(value[:_MAX_FINGERPRINT_LENGTH])
            continue
        # A part of the common beginning is kept, so that a reader recognises the value.
        start = (
            0 if same < max_length * 2 // 3 or len(value) <= max_length else same - max_length // 3
        )
        shown = value[start : start + max_length]
        before = _CUT if start else ""
        after = _CUT if start + max_length < len(value) else ""
        short.append(f"{before}{shown}{after}")
    return short


def _same_start(one: str, two: str) -> int:
    """Return the number of characters that two values have in common at their beginning."""
    pairs = enumerate(zip(one, two, strict=False))
    return next((at for at, (left, right) in pairs if left != right), min(len(one), len(two)))


def _of_profiles(before: Sequence[Profile], after: Sequence[Profile]) -> Iterator[Difference]:
    models = [sorted({name for each in side for name in each.models}) for side in (before, after)]
    if all(models):
        yield from _between(_ANSWERED, *models)
    yield from _output_lengths(before, after)
    yield from _input_lengths(before, after)
    cached = [_mean(each.cached for each in side) for side in (before, after)]
    if None not in cached:
        one, two = (value or 0.0 for value in cached)
        if abs(two - one) > _MAX_CACHED_CHANGE:
            yield Difference("cached", f"{one:.0%}", f"{two:.0%}", Weight.EXPLAINS)
    if not any(each.load is not None for each in (*before, *after)):
        yield from _rates(before, after)


def _rates(before: Sequence[Profile], after: Sequence[Profile]) -> Iterator[Difference]:
    """
    Yield a difference of the rate of requests, which is the load of a system in production.

    In a closed loop, each request waits for an earlier one, so a faster system gets more requests:
    the rate is a result, and the number in flight is the load.
    """
    rates, in_flight = (
        [_mean(getattr(each, name) for each in side) for side in (before, after)]
        for name in ("per_s", "in_flight")
    )
    if not (rates[0] and rates[1]) or min(rates[0], rates[1]) <= 0:
        return
    limit = math.log1p(_MAX_RATE_CHANGE)
    if abs(math.log(rates[1] / rates[0])) <= limit:
        return
    error = math.hypot(*(_error([each.per_s for each in side]) for side in (before, after)))
    if abs(rates[1] - rates[0]) <= 2 * error:
        return
    is_closed = bool(
        in_flight[0] and in_flight[1] and abs(math.log(in_flight[1] / in_flight[0])) <= limit
    )
    weight = Weight.NOTE if is_closed else Weight.EXPLAINS
    yield Difference(RATE, f"{rates[0]:.3g} per second", f"{rates[1]:.3g} per second", weight)


def _error(values: Sequence[float | None]) -> float:
    """Return the standard error of the mean over runs; 0 for fewer than two."""
    known = [value for value in values if value is not None]
    return stdev(known) / math.sqrt(len(known)) if len(known) > 1 else 0.0


def _of_connections(before: Sequence[Run], after: Sequence[Run]) -> Iterator[Difference]:
    """
    Yield a difference in the reuse of connections, if it is larger than between equal runs.

    It explains nothing by itself: a faster server needs fewer connections for the same load, and
    the time to open connections is a separate segment.
    """
    one, two = (
        _mean(
            float(reused)
            for run in side
            if isinstance(reused := run.conditions.get(_REUSED), int | float)
        )
        for side in (before, after)
    )
    if one is not None and two is not None and abs(two - one) > _MAX_REUSED_CHANGE:
        yield Difference(_REUSED, f"{one:.0%}", f"{two:.0%}", Weight.NOTE)


def _output_lengths(before: Sequence[Profile], after: Sequence[Profile]) -> Iterator[Difference]:
    """
    Yield a difference of the lengths of the answers, of all and of the longest tenth.

    Longer answers take longer, and equal means may hide another tail. Without tokens the number of
    chunks is compared; if that is unknown too, an improvement may be one of shorter answers.
    Requests without a call have no answer of a model, so nothing is unknown.
    """
    lengths = [[each.lengths for each in side] for side in (before, after)]
    known = [[each for each in side if each is not None] for side in lengths]
    if not any(known) and all(each.with_calls == 0 for each in (*before, *after)):
        return
    if any(None in side for side in lengths) or not all(known):
        words = ["unknown" if None in side or not side else "known" for side in lengths]
        yield Difference("output_length", words[0], words[1], Weight.IMPROVEMENT)
        return
    units = {each.unit for side in known for each in side}
    if len(units) > 1:
        yield Difference("output_length", known[0][0].unit, known[1][0].unit, Weight.IMPROVEMENT)
        return
    unit = units.pop()
    one, two = known
    yield from _either(
        _length(
            "output_length",
            unit,
            [(each.mean, each.error) for each in one],
            [(each.mean, each.error) for each in two],
        ),
        _length(
            "longest_outputs",
            unit,
            [(each.longest, each.longest_error) for each in one],
            [(each.longest, each.longest_error) for each in two],
        ),
    )


def _input_lengths(before: Sequence[Profile], after: Sequence[Profile]) -> Iterator[Difference]:
    means, longest = (
        [
            [(getattr(each, value), getattr(each, error)) for each in side]
            for side in (before, after)
        ]
        for value, error in (
            ("input_tokens", "input_error"),
            ("long_input", "long_input_error"),
        )
    )
    yield from _either(
        _length("input_length", "tokens", *means), _length("longest_inputs", "tokens", *longest)
    )


def _either(means: Iterator[Difference], longest: Iterator[Difference]) -> Iterator[Difference]:
    """Yield the difference of the means, or that of the longest if the means are equal."""
    found = list(means)
    yield from found or longest


_OF_FEW: Final = frozenset({"longest_inputs", "longest_outputs"})
"""Lengths of a tenth of the requests, which in a small run is a single one."""


def _length(
    name: str,
    unit: str,
    before: Sequence[tuple[float | None, float | None]],
    after: Sequence[tuple[float | None, float | None]],
) -> Iterator[Difference]:
    """Yield a difference of a length if it exceeds the tolerance; a note if it may be chance."""
    one, two = (_mean(value for value, _ in side) for side in (before, after))
    if not one or two is None or abs(two / one - 1) <= MAX_LENGTH_CHANGE:
        return
    weight = Weight.EXPLAINS
    errors = [[error for _, error in side] for side in (before, after)]
    known = [[error for error in side if error is not None] for side in errors]
    if all(len(each) == len(side) for each, side in zip(known, errors, strict=True)):
        # The mean of few lengths varies; a difference by chance explains nothing.
        sides = [math.sqrt(sum(error**2 for error in side)) / len(side) for side in known]
        if abs(two - one) < _SURE * math.hypot(*sides):
            weight = Weight.NOTE
    elif name in _OF_FEW:
        weight = Weight.NOTE
    yield Difference(name, f"{one:,.1f} {unit}", f"{two:,.1f} {unit}", weight)


def _mean(values: Iterator[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
