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
from typing import TYPE_CHECKING, Final, NamedTuple

from latspan._model.goals import InferencePath, Target
from latspan._model.metrics import DURATION, FIRST_TOKENS
from latspan._model.recording import (
    RequestRecord,
    Series,
    SeriesKey,
    Snapshot,
    has_attributes,
    nearest_values,
    population_of,
)
from latspan._model.recording._population import undocumented_cuts
from latspan._model.segments import Kind, Outcome, Side
from latspan._model.text import count
from latspan._study.scorecard._periods import Cycle, Period, period_of
from latspan._study.scorecard._prometheus import totals_of
from latspan._study.scorecard._tally import CountedGroup, Figures, Tally
from latspan.errors import ConfigError, UnknownNameError

if TYPE_CHECKING:
    from latspan._study.table import OutermostReader, Table

_PATHS_THERE: Final = "the inference paths, or routes where none is set, are"
_SET_PATH: Final = 'set it with latspan.attributes(inference_path="{}")'


class PeriodRow(NamedTuple):
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
    rows: Mapping[Cycle, Sequence[PeriodRow]]


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


MAX_GROUPS: Final = 1_000
"""Number of values of an attribute above which requests are not grouped by it."""


def _none() -> None:
    """Return no histograms."""


class _Source:
    """Tallies of one source."""

    def __init__(self) -> None:
        self.tallies: defaultdict[CountedGroup, dict[tuple[Cycle, Period], Tally]] = defaultdict(
            dict
        )
        self.spans: defaultdict[tuple[Cycle, Period], list[tuple[int, int]]] = defaultdict(list)

    def tally(self, group: CountedGroup, place: tuple[Cycle, Period]) -> Tally:
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
        self._metrics = tuple(dict.fromkeys((DURATION, *FIRST_TOKENS, *targets)))

    def reader(self, *, is_load: bool = False) -> OutermostReader:
        """
        Return a reader of the requests of one source that count.

        Args:
            is_load: Whether the source is a load test.
        """
        from latspan._study.table import OutermostReader

        return OutermostReader(
            kind=self._kind,
            metrics=self._metrics,
            attributes={self._by},
            where=self._where,
            is_load=is_load,
        )

    def add_records(
        self,
        records: Iterable[RequestRecord],
        *,
        unsent: int = 0,
        histograms: Callable[[], Sequence[Snapshot] | None] = _none,
    ) -> None:
        """
        Add a source that has requests one by one; see :meth:`add_table`.

        Args:
            records: Its records. Those of a load test count if they are of its measured phase.
            unsent: Number of requests that were scheduled and never sent.
            histograms: Returns histograms of all requests, if there are any.
        """
        from latspan._study.table import rows_of_records

        reader = self.reader()
        rows_of_records(records, reader)
        self.add_table(reader.table(), unsent=unsent, histograms=histograms)

    def add_table(
        self,
        table: Table | None,
        *,
        unsent: int = 0,
        histograms: Callable[[], Sequence[Snapshot] | None] = _none,
        is_whole: bool = True,
    ) -> None:
        """
        Add a source that has requests one by one.

        Args:
            table: Table of :meth:`reader`; ``None`` if no request counts.
            unsent: Number of requests that were scheduled and never sent.
            histograms: Returns histograms of all requests, if there are any: they are counted
                instead if the requests are a sample or not whole, unless only the requests have
                the attributes that are asked for.
            is_whole: Whether the table has every request, or a sample of all.

        Raises:
            ConfigError: The attribute has too many values.
        """
        from latspan._study.scorecard._rows import groups_in, tallies_of

        if table is None:
            return
        counted = histograms() if table.is_sampled or not is_whole else None
        if counted is not None and self._is_answered_by(counted, table):
            self.add_snapshots(counted)
            return
        self._check_groups(len(table.groups.get(self._by, ((), ()))[1]))
        self._sampled += int((table.weight > 1).sum())
        source = _Source()
        for group, place, tally in tallies_of(
            table, self._by, self._cycles, self._metrics, self._targets_of
        ):
            source.spans[place] += tally.spans
            tally.spans = []
            source.tally(group, place).merge(tally)
        for place, spans in source.spans.items():
            # Between the requests of one group, others were recorded.
            whole = min(start for start, _ in spans), max(end for _, end in spans)
            source.spans[place] = [whole]
        if unsent:
            # They belong to the inference path that the load test measured last.
            starts = {
                group: int(table.start_ns[rows[-1]]) for group, rows in groups_in(table, self._by)
            }
            group = max(starts, key=starts.__getitem__)
            for cycle in self._cycles:
                source.tally(group, (cycle, period_of(starts[group], cycle))).unsent += unsent
        self._add(source)

    def _is_answered_by(self, snapshots: Sequence[Snapshot], table: Table) -> bool:
        """Return whether the series have the attributes that are asked for."""
        series = {name for each in snapshots for key in each.series for name in key.attributes}
        asked = {self._by, *self._where} if self._by in table.groups else {*self._where}
        return asked <= series

    def add_snapshots(self, snapshots: Iterable[Snapshot]) -> None:
        """
        Add a source that has histograms only.

        Args:
            snapshots: Its intervals; each counts in the period in which it begins.

        Raises:
            ConfigError: The attribute has too many values.
        """
        source = _Source()
        for snapshot in snapshots:
            places = [(cycle, period_of(snapshot.start_epoch_ns, cycle)) for cycle in self._cycles]
            for place in places:
                cycle, period = place
                length_ns = snapshot.end_epoch_ns - snapshot.start_epoch_ns
                self._too_long[cycle] += length_ns > period.end_ns - period.start_ns
                source.spans[place].append((snapshot.start_epoch_ns, snapshot.end_epoch_ns))
            by_group: defaultdict[CountedGroup, dict[SeriesKey, Series]] = defaultdict(dict)
            for key, series in snapshot.series.items():
                if has_attributes(key, self._where):
                    side = Side(key.subject.side or Side.CLIENT)
                    group = CountedGroup(key.kind, side, key.attribute(self._by))
                    by_group[group][key] = series
            for group, held in by_group.items():
                tally = self._tally_of_series(group, held)
                if tally is not None:
                    for place in places:
                        source.tally(group, place).merge(tally)
        self._add(source)

    def _tally_of_series(
        self, group: CountedGroup, held: Mapping[SeriesKey, Series]
    ) -> Tally | None:
        """Return what histograms show; ``None`` if they have nothing that is counted."""
        tally = Tally()
        targets = self._targets_of(group)
        for metric in self._metrics:
            found = {
                key: each.histogram for key, each in held.items() if key.measured_metric == metric
            }
            if not found:
                continue
            undocumented = undocumented_cuts(metric, group.kind, held, held)
            # A lower bound of a failed request is no evidence that it has the metric.
            applies = any(not key.is_at_least for key in found)
            population = population_of(found, undocumented)
            tally.add_population(metric, population, targets, applies=applies)
            if metric == DURATION:
                for key, histogram in found.items():
                    outcome = Outcome(key.subject.outcome or Outcome.COMPLETED)
                    tally.count(outcome, histogram.count, histogram.count)
        return tally if tally.metrics else None

    def add_prometheus(self, url: str) -> None:
        """
        Add a source that returns totals of each period.

        Args:
            url: Address of a Prometheus server.

        Raises:
            ConfigError: The server does not answer as Prometheus does, or the attribute has too
                many values.
        """
        source = _Source()
        for total in totals_of(url, by=self._by, where=self._where, cycles=self._cycles):
            group = CountedGroup(total.kind, total.side, total.group)
            tally = source.tally(group, (total.cycle, total.period))
            tally.is_estimated = True
            for outcome, number in total.counts.items():
                tally.count(outcome, number, number)
            targets = self._targets_of(group)
            for metric, population in total.values.items():
                tally.add_population(metric, population, targets)
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
                    hint=f"{_PATHS_THERE} {nearest_values(name, found)}; {_SET_PATH.format(name)}"
                    if found
                    else _SET_PATH.format(name),
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

    def _targets_left_out(self, group: CountedGroup) -> bool:
        """Return whether the user named inference paths, and not this one."""
        return bool(self._targets) and group.value not in self._targets

    def _card(self, group: CountedGroup) -> Card:
        places = self._total.tallies[group]
        targets = self._targets_of(group)
        held = {
            name
            for tally in places.values()
            for name, metric in tally.metrics.items()
            if metric.is_defined
        }
        first_token = next((each for each in FIRST_TOKENS if each in held), None)
        wanted = {first_token, *(each.metric for each in targets)}
        if DURATION in held or first_token is None:
            wanted.add(DURATION)
        metrics = tuple(metric for metric in self._metrics if metric in wanted)
        rows = {
            cycle: [
                PeriodRow(period, places[cycle, period].figures(metrics, targets))
                for period in sorted(each for other, each in places if other is cycle)
            ]
            for cycle in self._cycles
        }
        return Card(group.kind, group.side, group.value, targets, metrics, rows)

    def _targets_of(self, group: CountedGroup) -> tuple[Target, ...]:
        return self._targets.get(group.value or "", ()) if self._by == "inference_path" else ()

    def _outermost(self, groups: Iterable[CountedGroup]) -> Kind | None:
        kinds = {group.kind for group in groups}
        if self._kind is not None:
            return self._kind if self._kind in kinds else None
        return next((kind for kind in Kind if kind in kinds), None)

    def _check_groups(self, number: int) -> None:
        if number > MAX_GROUPS:
            raise ConfigError(
                f"the requests have {number:,} values of '{self._by}'; a scorecard shows at most"
                f" {MAX_GROUPS:,}",
                hint="group by an attribute with fewer values, or select requests with --where",
            )

    def _add(self, source: _Source) -> None:
        kind = self._outermost(source.tallies)
        for group, places in source.tallies.items():
            if group.kind is not kind:
                continue
            for place, tally in places.items():
                total = self._total.tally(group, place)
                total.merge(tally)
                total.spans += source.spans[place]
        self._check_groups(len({group.value for group in self._total.tallies}))


def _size(card: Card) -> int:
    return sum(row.figures.requests for rows in card.rows.values() for row in rows)
