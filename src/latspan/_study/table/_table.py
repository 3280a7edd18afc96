"""
Table: the requests of a recording as columns, read once and shared by every conclusion.

A row is one *unit*: a request, or a call if the recording has no requests. Calls inside a request
are not rows of their own: their facts are those of the request, and no time is counted twice. Each
row has its weight, what is known of each metric (:mod:`latspan._model.censoring`), the phase and
step of a load test, and the attributes by which requests are grouped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import nan
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from latspan._base.shown import printable
from latspan._model.censoring import ValueState, state_of
from latspan._model.metrics import CHUNK_GAP_MAX, DURATION, FIRST_WAITS, FROM_START
from latspan._model.segments import CUT, FAILURES, Kind, Outcome, Source
from latspan._model.text import listed
from latspan._study.table._columns import MEASURED, OUTCOMES
from latspan._study.table._steps import Steps
from latspan.errors import ConfigError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Codes = NDArray[np.signedinteger[Any]]
    Floats = NDArray[np.float64]
    Mask = NDArray[np.bool_]

_STATES: Final = tuple(ValueState)
_STREAMED: Final = (False, True, None)
"""Values of the code of ``streamed``: 0, 1 and -1."""

_MAX_VALUES: Final = 10
"""Number of values that an error lists."""

_COMPLETED: Final = OUTCOMES.index(Outcome.COMPLETED)
_IS_CUT: Final = np.array([each in CUT for each in OUTCOMES])
_IS_FAILED: Final = np.array([each in FAILURES for each in OUTCOMES])


@dataclass(frozen=True, slots=True)
class ValueBounds:
    """
    What is known of one metric of each row.

    Args:
        low: Smallest possible value in nanoseconds, infinite for a failure, NaN where the metric
            does not apply; shape ``(n,)``.
        high: Largest possible value, infinite if there is no limit; shape ``(n,)``.
    """

    low: Floats
    high: Floats

    @property
    def applies(self) -> Mask:
        """Whether the metric applies to each row."""
        return ~np.isnan(self.low)

    @property
    def exact(self) -> Mask:
        """Whether the value of each row is known."""
        return (self.low == self.high) & np.isfinite(self.high)

    @property
    def failed(self) -> Mask:
        """Whether each row will never have a value, and misses every limit."""
        return np.isposinf(self.low)

    @property
    def cut(self) -> Mask:
        """Whether each row was given up, so that only a lower bound is known."""
        return self.low < self.high

    @property
    def values_ns(self) -> Floats:
        """Exact values, NaN elsewhere."""
        return np.where(self.exact, self.low, nan)


@dataclass(frozen=True, slots=True)
class Segments:
    """
    Time of each segment up to a metric.

    Args:
        times_ns: Nanoseconds; shape ``(n, segments)``.
        by_source: Summed time of each segment by source; shape ``(segments, sources)``.
    """

    times_ns: NDArray[np.float32]
    by_source: Floats


@dataclass(frozen=True, slots=True)
class Table:
    """
    Columns of all units, in the order of their starts.

    Args:
        kind: Kind of the units.
        start_ns: Start as Unix time in nanoseconds; shape ``(n,)``, ascending.
        duration_ns: Duration in nanoseconds; shape ``(n,)``.
        lag_ns: Time by which a load test sent the request late, at least 0; shape ``(n,)``.
        outcome: Code of the outcome in ``OUTCOMES``; shape ``(n,)``.
        streamed: 1 for a stream, 0 for another response, -1 if unknown; shape ``(n,)``.
        is_server: Whether it was recorded on the server's side; shape ``(n,)``.
        weight: Number of requests that the row stands for, at least 1; shape ``(n,)``.
        phase: Code of the phase of a load test in ``PHASES``; shape ``(n,)``.
        step: Number of the step of a load test; shape ``(n,)``.
        numbers: Metrics and facts by name, NaN where a row has none; shape ``(n,)`` each.
        groups: Codes of shape ``(n,)``, -1 where a row has no value, and the values by code.
        names: Names of the segments.
        segments: Time of each segment by the metric up to which it is summed.
        reported: Whether a server or gateway reported times; shape ``(n,)``.
        stage_kinds: Kind of each stage by its name.
        chains: Number of calls of each request that ran one after another; shape ``(n,)``.
        earlier: Time of each earlier call of a request, by name; shape ``(n,)`` each.
        steps: Steps of requests with several calls; ``None`` if there are none.
        late: Attributes that a record got when the latency of a part of it was known already. They
            are in ``groups`` only if they were asked for.
    """

    kind: Kind
    start_ns: NDArray[np.int64]
    duration_ns: NDArray[np.int64]
    lag_ns: NDArray[np.int64]
    outcome: Codes
    streamed: Codes
    is_server: Mask
    weight: Floats
    phase: Codes
    step: Codes
    numbers: Mapping[str, Floats]
    groups: Mapping[str, tuple[Codes, tuple[str, ...]]]
    names: tuple[str, ...]
    segments: Mapping[str, Segments]
    reported: Mask
    chains: Codes
    stage_kinds: Mapping[str, str] = field(default_factory=dict[str, str])
    earlier: Mapping[str, Floats] = field(default_factory=dict[str, Any])
    late: frozenset[str] = frozenset()
    steps: Steps | None = None

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def is_sampled(self) -> bool:
        """Whether a row stands for more than itself."""
        return bool((self.weight > 1).any())

    @property
    def requests(self) -> float:
        """Number of requests that the rows stand for."""
        return float(self.weight.sum())

    @property
    def completed(self) -> Mask:
        """Whether each unit completed."""
        return self.outcome == _COMPLETED

    @property
    def cut(self) -> Mask:
        """Whether the caller of each unit gave it up."""
        return _IS_CUT[self.outcome]

    @property
    def failed(self) -> Mask:
        """Whether each unit failed."""
        return _IS_FAILED[self.outcome]

    def number(self, name: str) -> Floats:
        """Return a metric or a fact; NaN for all rows if it does not occur."""
        if name in self.numbers:
            return self.numbers[name]
        return np.full(len(self), nan)

    def bounds(self, metric: str, *, from_schedule: bool = True) -> ValueBounds:
        """
        Return what is known of a metric of each row.

        Args:
            metric: Name of a metric that has at most one value per request.
            from_schedule: Whether the wait of a load test to be sent counts.
        """
        values = self.duration_ns.astype(np.float64) if metric == DURATION else self.number(metric)
        has_value = ~np.isnan(values)
        streamed = self.streamed
        if metric in FIRST_WAITS and not has_value.any() and not (streamed == 1).any():
            # No request of the table streams, so those of which it is unknown do not either.
            streamed = np.zeros_like(streamed)
        code = (self.outcome.astype(np.int64) * 2 + has_value) * 3 + streamed % 3
        state = _codes_of_states(metric, self.kind)[code]
        bound = values
        if metric in FIRST_WAITS:
            bound = np.where(has_value, values, self.number("waited_ns"))
        elif metric == CHUNK_GAP_MAX and "open_gap_ns" in self.numbers:
            bound = np.fmax(values, np.where(self.cut, self.number("open_gap_ns"), nan))
        if from_schedule and metric in FROM_START:
            bound = bound + self.lag_ns
        low = np.select(
            [state == _EXACT, state == _AT_LEAST, state == _NEVER, state == _UNKNOWN],
            [bound, np.nan_to_num(bound), np.inf, 0.0],
            nan,
        )
        is_open = (state == _AT_LEAST) | (state == _NEVER) | (state == _UNKNOWN)
        return ValueBounds(low, np.where(is_open, np.inf, low) if is_open.any() else low)

    def measured(self, step: int | None = None) -> Mask:
        """
        Return which rows count.

        Args:
            step: Number of the step of a load test; ``None`` for a recording of another origin, of
                which every row without a phase counts, and those of a measured phase.
        """
        if step is None:
            return (self.phase == 0) | (self.phase == MEASURED)
        return (self.phase == MEASURED) & (self.step == step)

    def matching(self, where: Mapping[str, str]) -> Table:
        """
        Return the rows that have all of some attributes.

        Args:
            where: Value of each attribute.

        Raises:
            ConfigError: No row has the attribute, or none has the value.
        """
        for name, value in where.items():
            _, values = self.codes_of(name)
            if value not in values:
                shown = sorted(values)[:_MAX_VALUES]
                more = ", ..." if len(values) > len(shown) else ""
                raise ConfigError(
                    f"no {self.kind} has {printable(name)}={printable(value)}",
                    hint=f"values are: {', '.join(map(printable, shown))}{more}",
                )
        return self.rows(self.has(where))

    def codes_of(self, name: str) -> tuple[Codes, tuple[str, ...]]:
        """
        Return the code of the value of an attribute of each row, and the values by code.

        Raises:
            ConfigError: No row has the attribute.
        """
        if not len(self):
            raise ConfigError(
                f"no {self.kind} was recorded", hint="record the program while it serves requests"
            )
        present = {each for each, (codes, _) in self.groups.items() if (codes >= 0).any()}
        if name not in present:
            known = listed(sorted(present)) or "no attribute with several values"
            raise ConfigError(
                f"no {self.kind} has the attribute {printable(name)}", hint=f"they have {known}"
            )
        return self.groups[name]

    def has(self, wanted: Mapping[str, str | None]) -> Mask:
        """
        Return which rows have all of some attributes.

        Args:
            wanted: Value of each attribute; ``None`` for any value.
        """
        mask = np.ones(len(self), dtype=bool)
        for name, value in wanted.items():
            codes, values = self.groups.get(name, (np.full(len(self), -1), ()))
            if value is None:
                mask &= codes >= 0
            else:
                mask &= codes == (values.index(value) if value in values else len(values))
        return mask

    def rows(self, mask: Mask) -> Table:
        """Return the table of some rows."""
        if mask.all():
            return self
        return replace(
            self,
            **{name: getattr(self, name)[mask] for name in _ARRAYS},
            numbers={name: values[mask] for name, values in self.numbers.items()},
            groups={name: (codes[mask], values) for name, (codes, values) in self.groups.items()},
            segments={
                name: replace(each, times_ns=each.times_ns[mask])
                for name, each in self.segments.items()
            },
            earlier={name: values[mask] for name, values in self.earlier.items()},
            steps=None if self.steps is None else self.steps.rows(np.flatnonzero(mask), len(self)),
        )

    def sources(self, metric: str) -> dict[str, Source]:
        """Return the source of most of the time of each segment up to a metric."""
        by_source = self.segments[metric].by_source
        best = by_source.argmax(axis=1).tolist()
        return {name: tuple(Source)[best[at]] for at, name in enumerate(self.names)}


_ARRAYS: Final = (
    "start_ns",
    "duration_ns",
    "lag_ns",
    "outcome",
    "streamed",
    "is_server",
    "weight",
    "phase",
    "step",
    "reported",
    "chains",
)
_EXACT, _AT_LEAST, _NEVER, _UNKNOWN = (
    _STATES.index(each)
    for each in (ValueState.EXACT, ValueState.AT_LEAST, ValueState.NEVER, ValueState.UNKNOWN)
)


def _codes_of_states(metric: str, kind: Kind) -> Codes:
    """Return the code of the state for each outcome, whether there is a value, and streaming."""
    codes = [
        _STATES.index(state_of(metric, outcome, has_value=has_value, streamed=streamed, kind=kind))
        for outcome in OUTCOMES
        for has_value in (False, True)
        for streamed in _STREAMED
    ]
    return np.array(codes, np.int8)
