"""
Prometheus as a source of a scorecard: latspan's metrics, queried period by period.

Prometheus counts with ``increase``, which extrapolates to the ends of the period and leaves out
what a process exported first. Its counts are therefore estimates, and no target is judged by them.
The histograms of latspan's own metrics keep the precision of their export, about 0.3 %. The
duration is exported in the wide buckets of the conventions only, so it is not shown.

A request is counted by its segments: every request has at least one, and most have the same first
one, so the largest count of any segment is the number of requests.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final, NamedTuple, cast

from latspan import semconv
from latspan._base.nanoseconds import NS_PER_S
from latspan._model.censoring import AT_LEAST
from latspan._model.metrics import FIRST_TOKENS
from latspan._model.recording import Population, SeriesKey, Subject, population_of
from latspan._model.segments import FAILURES, Kind, Outcome, Side
from latspan._study.scorecard._periods import Cycle, Period, period_of
from latspan._study.traces import JsonServer
from latspan.errors import ConfigError
from latspan.histogram import Histogram
from latspan.histogram._buckets import index_of

_HINT: Final = "use the address of a Prometheus server, for example http://localhost:9090"
_PERIODS: Final = {Cycle.WEEK: 12, Cycle.MONTH: 6}
"""Number of past periods that are queried."""

_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_]")
_SEGMENTS: Final = "latspan_segment_duration_seconds"


class PrometheusTotals(NamedTuple):
    """
    Totals of one group of requests in one period.

    Args:
        cycle: Whether the period is a week or a month.
        period: The period.
        kind: Kind of the requests.
        side: Side of the network on which they were recorded.
        group: Value of the grouping attribute; ``None`` if they have none.
        counts: Number of requests by outcome.
        values: What is known of each metric, in nanoseconds.
    """

    cycle: Cycle
    period: Period
    kind: Kind
    side: Side
    group: str | None
    counts: Mapping[Outcome, int]
    values: Mapping[str, Population]


def totals_of(
    url: str,
    *,
    by: str,
    where: Mapping[str, str],
    cycles: Sequence[Cycle],
    now_ns: int | None = None,
) -> Iterator[PrometheusTotals]:
    """
    Yield the totals of each group in the last 12 weeks and 6 months.

    Args:
        url: Address of the server, for example ``http://localhost:9090``.
        by: Attribute by which requests are grouped.
        where: Attributes that a request must have.
        cycles: Lengths of the periods.
        now_ns: Unix time of the present in nanoseconds; that of the system if not given.

    Raises:
        ConfigError: The server does not answer, or does not answer as Prometheus does.
    """
    server = _Server(url)
    until_ns = time.time_ns() if now_ns is None else now_ns
    label = _label_of(by)
    selector = ",".join(f"{_label_of(name)}={json.dumps(value)}" for name, value in where.items())
    for cycle in cycles:
        for period in _last_periods(until_ns, cycle):
            end_ns = min(period.end_ns, until_ns)
            query = _Query(server, label, selector, period.start_ns, end_ns)
            counts = query.counts()
            if not counts:
                continue
            # Exported with latspan's precision; the duration is not.
            values = {
                metric: (query.values(metric), query.values(metric + AT_LEAST))
                for metric in FIRST_TOKENS
            }
            for kind, side, group in dict.fromkeys(key[:3] for key in counts):
                own = (kind, side, group)
                outcomes = {key[3]: number for key, number in counts.items() if key[:3] == own}
                known: dict[str, Population] = {}
                for metric, found in values.items():
                    exact, at_least = (
                        {key[3]: held for key, held in each.items() if key[:3] == own}
                        for each in found
                    )
                    if exact or at_least:
                        known[metric] = _population(metric, exact, at_least, outcomes)
                yield PrometheusTotals(cycle, period, kind, side, group, outcomes, known)


def _population(
    metric: str,
    exact: Mapping[Outcome, Histogram],
    at_least: Mapping[Outcome, Histogram],
    outcomes: Mapping[Outcome, int],
) -> Population:
    """Return what is known of a metric; a failed request counts as never, even without a value."""
    population = population_of(
        {
            SeriesKey(name, Subject(outcome=outcome.value)): histogram
            for name, found in ((metric, exact), (metric + AT_LEAST, at_least))
            for outcome, histogram in found.items()
        }
    )
    if at_least:
        return population
    # Releases before the lower bounds exported nothing for a request without a value.
    failed = sum(number for outcome, number in outcomes.items() if outcome in FAILURES)
    return replace(population, never=failed)


def _last_periods(until_ns: int, cycle: Cycle) -> Iterator[Period]:
    """Yield the last periods, the latest first."""
    period = period_of(until_ns, cycle)
    for _ in range(_PERIODS[cycle]):
        yield period
        period = period_of(period.start_ns - 1, cycle)


_Key = tuple[Kind, Side, str | None, Outcome]


class _Query:
    """
    Questions about one period.

    Args:
        server: The server.
        label: Label by which requests are grouped.
        selector: Matchers of labels, without braces.
        start_ns: Unix time of the start of the period, in nanoseconds.
        end_ns: Unix time of its end.
    """

    def __init__(
        self, server: _Server, label: str, selector: str, start_ns: int, end_ns: int
    ) -> None:
        self._server = server
        self._label = label
        self._selector = selector
        self._end_s = end_ns / NS_PER_S
        self._range = f"{max(1, (end_ns - start_ns) // NS_PER_S)}s"

    def counts(self) -> dict[_Key, int]:
        """Return the number of requests."""
        by = self._labels("latspan_segment")
        counted = f"sum by ({by}) (histogram_count({self._increase(_SEGMENTS)}))"
        found = self._server.query(f"max by ({self._labels()}) ({counted})", at_s=self._end_s)
        counts: dict[_Key, int] = {}
        for labels, sample in found:
            key = self._key(labels)
            with self._server.answering():
                number = float(sample["value"][1])
            if not math.isfinite(number):
                raise self._server.error("returned a count that is not a number")
            if key is not None and round(number):
                counts[key] = round(number)
        return counts

    def values(self, metric: str) -> dict[_Key, Histogram]:
        """Return the values of a metric."""
        name = f"latspan_{_NOT_IN_NAMES.sub('_', metric)}_seconds"
        query = f"sum by ({self._labels()}) ({self._increase(name)})"
        values: dict[_Key, Histogram] = {}
        for labels, sample in self._server.query(query, at_s=self._end_s):
            key = self._key(labels)
            if key is not None and "histogram" in sample:
                with self._server.answering():
                    histogram = _histogram_of(sample["histogram"][1])
                if histogram is None:
                    raise self._server.error(
                        f"has a histogram {name} whose values are not known",
                        "store latspan's histograms as native ones, which are exponential",
                    )
                values[key] = histogram
        return values

    def _increase(self, name: str) -> str:
        return f"increase({name}{{{self._selector}}}[{self._range}])"

    def _labels(self, *more: str) -> str:
        return ", ".join(("latspan_kind", "latspan_side", "latspan_outcome", self._label, *more))

    def _key(self, labels: Mapping[str, str]) -> _Key | None:
        """Return the group and the outcome of a result; ``None`` for metrics of other programs."""
        try:
            return (
                Kind(labels["latspan_kind"]),
                Side(labels.get("latspan_side", Side.CLIENT)),
                labels.get(self._label),
                Outcome(labels["latspan_outcome"]),
            )
        except (KeyError, ValueError):
            return None


def _label_of(attribute: str) -> str:
    """Return the label under which Prometheus stores an attribute."""
    name = semconv.SERIES_ATTRIBUTES.get(attribute, attribute)
    return _NOT_IN_NAMES.sub("_", name)


def _histogram_of(sample: Mapping[str, Any]) -> Histogram | None:
    """
    Return a native histogram of seconds: each value counts as the middle of its bucket.

    The result is ``None`` if a bucket has no end, as in a histogram with buckets of its own.
    """
    buckets: dict[int, int] = {}
    for _, low, high, count in sample.get("buckets", ()):
        if not all(math.isfinite(float(each)) for each in (low, high, count)):
            return None
        number = round(float(count))
        if number > 0:
            # Buckets grow exponentially, so their middle is the geometric one.
            middle_s = max(0.0, float(low) * float(high)) ** 0.5
            index = index_of(round(middle_s * NS_PER_S))
            buckets[index] = buckets.get(index, 0) + number
    return Histogram.from_buckets(buckets.items())


class _Server:
    """
    A Prometheus server.

    Args:
        url: Its address, with the path under which its API is, if any.
    """

    def __init__(self, url: str) -> None:
        self._server = JsonServer(url.rstrip("/").removesuffix("/api/v1"), "Prometheus", _HINT)

    def error(self, what: str, hint: str | None = None) -> ConfigError:
        """Return an error that names the server."""
        return self._server.error(what, hint)

    @contextmanager
    def answering(self) -> Generator[None]:
        """Raise an error that names the server if a part of its answer has another shape."""
        try:
            yield
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise self._server.error("does not answer as Prometheus does") from error

    def query(self, promql: str, *, at_s: float) -> list[tuple[dict[str, str], Mapping[str, Any]]]:
        """
        Return the labels and the sample of each series in the result of an instant query.

        Args:
            promql: The query.
            at_s: Unix time for which it is evaluated, in seconds.
        """
        answer = self._server.post("/api/v1/query", query=promql, time=f"{at_s:.3f}")
        with self.answering():
            found: object = answer["data"]["result"]
            return [
                (dict(each["metric"]), dict(each)) for each in cast("list[dict[str, Any]]", found)
            ]
