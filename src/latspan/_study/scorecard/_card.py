"""
Scorecard: the figures of each week and month, for each kind of request and each inference path.

A source is one recording, one folder of histogram logs or one file of traces. For each source, only
the outermost kind counts, because a call inside a request is a part of it; and different kinds are
never added up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from latspan import semconv
from latspan._censoring import State
from latspan._drawing import count
from latspan._metrics import FIRST_TOKENS, FROM_START
from latspan._recording import (
    RequestRecord,
    Snapshot,
    has_attributes,
    nearest_values,
)
from latspan._segments import Kind, Outcome, Side
from latspan._study.scorecard._periods import Cycle, Period, period_of
from latspan._study.scorecard._prometheus import totals_of
from latspan._study.scorecard._tally import Figures, Tally
from latspan._targets import InferencePath, Target
from latspan._units import NS_PER_S
from latspan.errors import UnknownNameError

__all__ = ["Card", "Row", "Scorecard", "ScorecardBuilder"]

_MEASURED: Final = "measured"


class Row(NamedTuple):
    """
    Figures of one period.

    Args:
        period: The week or month.
        figures: Its figures.
    """

    period: Period
    figures: Figures


@dataclass(frozen=True, slots=True)
class Card:
    """
    Figures of one kind of request, on one side, with one value of the grouping attribute.

    Args:
        kind: Kind of the requests.
        side: Side of the network on which they were recorded.
        group: Value of the attribute by which requests are grouped; ``None`` if they have none.
        targets: Targets of that inference path.
        metrics: Metrics that the figures have percentiles of.
        rows: Rows of each cycle, the oldest first.
    """

    kind: Kind
    side: Side
    group: str | None
    targets: tuple[Target, ...]
    metrics: tuple[str, ...]
    rows: Mapping[Cycle, Sequence[Row]]


@dataclass(frozen=True, slots=True)
class Scorecard:
    """
    Everything that a scorecard shows.

    Args:
        by: Attribute by which requests are grouped.
        cards: One per group, the one with the most requests first.
        notes: What a reader must know about the sources, one sentence each.
    """

    by: str
    cards: Sequence[Card]
    notes: tuple[str, ...] = ()


def _none() -> None:
    """Return no histograms."""


class _Group(NamedTuple):
    kind: Kind
    side: Side
    value: str | None


class _Source:
    """Tallies of one source."""

    def __init__(self) -> None:
        self.tallies: defaultdict[_Group, dict[tuple[Cycle, Period], Tally]] = defaultdict(dict)
        self.spans: defaultdict[tuple[Cycle, Period], list[tuple[int, int]]] = defaultdict(list)

    def tally(self, group: _Group, place: tuple[Cycle, Period]) -> Tally:
        return self.tallies[group].setdefault(place, Tally())


class ScorecardBuilder:
    """
    Builder of a scorecard, to which sources are added one after the other.

    Args:
        paths: Inference paths whose targets are judged.
        by: Attribute by which requests are grouped.
        where: Attributes that a request must have.
        kind: Kind to count; the outermost of each source if not given.
        cycles: Lengths of the periods.
    """

    def __init__(
        self,
        paths: Sequence[InferencePath] = (),
        *,
        by: str = "inference_path",
        where: Mapping[str, str] | None = None,
        kind: Kind | None = None,
        cycles: Sequence[Cycle] = tuple(Cycle),
    ) -> None:
        self._targets = {path.name: path.targets for path in paths}
        self._by = by
        self._where = dict(where or {})
        self._kind = kind
        self._cycles = tuple(cycles)
        self._total = _Source()
        self._sampled = 0
        self._estimated = False
        self._too_long: dict[Cycle, int] = dict.fromkeys(self._cycles, 0)
        targets = [each.metric for path in paths for each in path.targets]
        self._metrics = tuple(dict.fromkeys(("duration", *FIRST_TOKENS, *targets)))

    def add_records(
        self,
        records: Iterable[RequestRecord],
        *,
        unsent: int = 0,
        histograms: Callable[[], Iterable[Snapshot] | None] = _none,
    ) -> None:
        """
        Add a source that has requests one by one.

        Args:
            records: Its records. Those of a load test count if they are of its measured phase.
            unsent: Number of requests that were scheduled and never sent.
            histograms: Returns histograms of all requests, if there are any: they are counted
                instead if the records turn out to be a sample.
        """
        source = _Source()
        sampled = 0
        last: dict[_Group, int] = {}
        bounds: dict[tuple[Cycle, Period], tuple[int, int]] = {}
        for record in records:
            if not self._counts(record):
                continue
            group = _Group(record.kind, record.side, _attribute(record, self._by))
            weight = max(1, round(1 / record.ratio))
            without_token = _is_without_token(record)
            sampled += weight > 1
            start_ns, end_ns = record.start_epoch_ns, record.start_epoch_ns + record.duration_ns
            last[group] = max(last.get(group, 0), start_ns)
            for cycle in self._cycles:
                place = cycle, period_of(start_ns, cycle)
                first, until = bounds.get(place, (start_ns, end_ns))
                bounds[place] = min(first, start_ns), max(until, end_ns)
                source.tally(group, place).add(
                    record.outcome,
                    self._values(record),
                    self._targets_of(group),
                    weight=weight,
                    without_token=without_token,
                )
        if sampled and (counted := histograms()) is not None:
            self.add_snapshots(counted)
            return
        self._sampled += sampled
        for place, span in bounds.items():
            source.spans[place].append(span)
        if unsent and last:
            # They belong to the kind and inference path that the load test measured.
            group = max(last, key=lambda each: (each.kind is self._outermost(last), last[each]))
            for cycle in self._cycles:
                source.tally(group, (cycle, period_of(last[group], cycle))).unsent += unsent
        self._add(source)

    def add_snapshots(self, snapshots: Iterable[Snapshot]) -> None:
        """
        Add a source that has histograms only.

        Args:
            snapshots: Its intervals; each counts in the period in which it begins.
        """
        source = _Source()
        for snapshot in snapshots:
            places = [(cycle, period_of(snapshot.start_epoch_ns, cycle)) for cycle in self._cycles]
            for place in places:
                cycle, period = place
                length_ns = snapshot.end_epoch_ns - snapshot.start_epoch_ns
                self._too_long[cycle] += length_ns > period.end_ns - period.start_ns
                source.spans[place].append((snapshot.start_epoch_ns, snapshot.end_epoch_ns))
            for key, series in snapshot.series.items():
                if key.metric not in self._metrics or not has_attributes(key, self._where):
                    continue
                outcome = Outcome(key.subject.outcome or Outcome.COMPLETED)
                group = _Group(
                    key.kind, Side(key.subject.side or Side.CLIENT), key.attribute(self._by)
                )
                for place in places:
                    tally = source.tally(group, place)
                    tally.add_histogram(key.metric, outcome, series.histogram)
        self._add(source)

    def add_prometheus(self, url: str) -> None:
        """
        Add a source that returns totals of each period.

        Args:
            url: Address of a Prometheus server.

        Raises:
            ConfigError: The server does not answer as Prometheus does.
        """
        source = _Source()
        for total in totals_of(url, by=self._by, where=self._where, cycles=self._cycles):
            group = _Group(total.kind, total.side, total.group)
            tally = source.tally(group, (total.cycle, total.period))
            tally.has_joint, tally.is_estimated = False, True
            tally.outcomes.update(total.counts)
            for (metric, outcome), values in total.values.items():
                tally.add_histogram(metric, outcome, values)
        self._estimated |= bool(source.tallies)
        self._add(source)

    def build(self) -> Scorecard:
        """
        Return the scorecard.

        Raises:
            UnknownNameError: No request of the sources has a given inference path, or none has the
                given attributes.
        """
        groups = self._total.tallies
        found = {group.value for group in groups if group.value is not None}
        for name in self._targets:
            if name not in found:
                raise UnknownNameError(
                    f"no request has the inference path '{name}'",
                    hint=f"the inference paths are {nearest_values(name, found)}"
                    if found
                    else f'set it with latspan.attributes(inference_path="{name}")',
                )
        if not groups:
            raise UnknownNameError(
                "no request was counted",
                hint="check --where and --kind: the sources have other requests"
                if self._where or self._kind
                else "the sources have no finished request of latspan",
            )
        cards = [self._card(group) for group in groups if not self._targets_left_out(group)]
        by_size = sorted(cards, key=_size, reverse=True)
        return Scorecard(self._by, by_size, tuple(self._notes()))

    def _notes(self) -> Iterator[str]:
        if self._estimated:
            yield (
                "Counts from Prometheus are estimates, so no target is judged by them; it has the"
                " duration in wide buckets only, so it is not shown."
            )
        if self._sampled:
            records = count(self._sampled, "record")
            yield f"A recording is a sample: {records} of it count for others too."
        for cycle, number in self._too_long.items():
            if number:
                counted = f"{count(number, 'interval')} of more than a {cycle}"
                yield f"Histogram logs have {counted}, counted at the start."

    def _targets_left_out(self, group: _Group) -> bool:
        """Return whether the user named inference paths, and not this one."""
        return bool(self._targets) and group.value not in self._targets

    def _card(self, group: _Group) -> Card:
        places = self._total.tallies[group]
        targets = self._targets_of(group)
        held = {metric for tally in places.values() for metric in tally.values}
        first_token = next((each for each in FIRST_TOKENS if each in held), None)
        wanted = {first_token, *(each.metric for each in targets)}
        if "duration" in held or first_token is None:
            wanted.add("duration")
        metrics = tuple(metric for metric in self._metrics if metric in wanted)
        rows = {
            cycle: [
                Row(period, places[cycle, period].figures(metrics, targets))
                for period in sorted(each for other, each in places if other is cycle)
            ]
            for cycle in self._cycles
        }
        return Card(group.kind, group.side, group.value, targets, metrics, rows)

    def _targets_of(self, group: _Group) -> tuple[Target, ...]:
        return self._targets.get(group.value or "", ()) if self._by == "inference_path" else ()

    def _counts(self, record: RequestRecord) -> bool:
        phase = record.details.get(semconv.LATSPAN_LOAD_PHASE, _MEASURED)
        return phase == _MEASURED and all(
            _attribute(record, name) == value for name, value in self._where.items()
        )

    def _values(self, record: RequestRecord) -> dict[str, int]:
        values = {
            metric: value.value
            for metric in self._metrics
            if (value := record.metrics.get(metric)) is not None
        }
        values["duration"] = record.duration_ns
        lag = record.details.get(semconv.LATSPAN_LOAD_DISPATCH_LAG)
        if isinstance(lag, float | int):
            # A user of production waits from the moment at which the request should be sent.
            lag_ns = round(lag * NS_PER_S)
            values = {
                metric: value + lag_ns * (metric in FROM_START) for metric, value in values.items()
            }
        return values

    def _outermost(self, groups: Iterable[_Group]) -> Kind | None:
        kinds = {group.kind for group in groups}
        if self._kind is not None:
            return self._kind if self._kind in kinds else None
        return next((kind for kind in Kind if kind in kinds), None)

    def _add(self, source: _Source) -> None:
        kind = self._outermost(source.tallies)
        for group, places in source.tallies.items():
            if group.kind is not kind:
                continue
            for place, tally in places.items():
                total = self._total.tally(group, place)
                total.merge(tally)
                total.spans += source.spans[place]


def _is_without_token(record: RequestRecord) -> bool:
    return (
        record.outcome is Outcome.COMPLETED and record.state("time_to_first_token") is State.NEVER
    )


def _attribute(record: RequestRecord, name: str) -> str | None:
    if name in record.attributes:
        return record.attributes[name]
    if name in ("outcome", "side", "kind"):
        return str(getattr(record, name))
    value = record.details.get(name)
    return None if value is None else str(value)


def _size(card: Card) -> int:
    return sum(row.figures.requests for rows in card.rows.values() for row in rows)
