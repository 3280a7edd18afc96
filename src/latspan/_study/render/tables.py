"""
Tables of a measurement: percentiles of segments, steps and metrics, and tokens.

Every row shows its number of values, and a percentile with too few of them is replaced by the
number it needs. Columns are as wide as their content: a number is never cut.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from latspan._model.censoring import Bounds
from latspan._model.metrics import (
    CHUNK_GAP,
    METRICS,
    SUMMARISED,
    TIME_TO_FIRST_TOKEN,
)
from latspan._model.recording import Distribution, text_of_unknown
from latspan._model.segments import Kind, Outcome, SegmentName
from latspan._model.text import FAINT, count, in_words, letters, listed, needs, percent, style_of
from latspan._model.tokens import TokenCounts, TokenSource
from latspan._model.units import milliseconds
from latspan._study.render.group import Group
from latspan._study.render.layout import MARGIN, aligned, heads, prose, shown, title
from latspan._study.render.slow import Slowest, slowest_tenth
from latspan._study.render.steps import NamedSteps, steps_by_name
from latspan.errors import EmptyHistogramError, NotEnoughValuesError
from latspan.histogram import values_needed

_PERCENTILES: Final = (50, 95, 99)
_PERCENTILE_HEADS: Final = tuple(f"p{percentile}" for percentile in _PERCENTILES)
_SHARE_BAR_WIDTH: Final = 8

_METRICS_OF: Final = {**SUMMARISED, Kind.CALL: (*SUMMARISED[Kind.CALL], CHUNK_GAP)}
"""Metrics whose percentiles are shown; the gaps of all calls have a percentile too."""

_UNKNOWN: Final = (
    "cut: the caller gave the request up before its end; failed: the request failed, and ranks last"
)
_EXPLANATIONS: Final[dict[str, str]] = {
    SegmentName.APPLICATION: (
        "application: your code and its waits outside the steps; name them with latspan.stage"
    ),
    SegmentName.UNATTRIBUTED: (
        "unattributed: no clock reading and no report of a server explains this time"
    ),
}

_OF_STEPS: Final = (
    "percentiles are of whole steps; the share is the time that requests waited in the step itself,"
    " without steps inside it"
)

_TOKEN_SOURCES: Final[dict[TokenSource, str]] = {
    TokenSource.PROVIDER: "the provider",
    TokenSource.ESTIMATED: "latspan, estimated",
    TokenSource.UNKNOWN: "unknown",
}


@dataclass(frozen=True, slots=True)
class SegmentsTable:
    """
    Table of each segment's percentiles over a group, and its share of the slowest tenth's time.

    Args:
        group: Records and histograms to show.
    """

    group: Group

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the title, the table, and an explanation of what it cannot explain."""
        del console
        group = self.group
        slowest = slowest_tenth(group.records)
        slow, whose = _in_words(slowest)
        values_of = group.snapshot.count(kind=group.kind)
        # The table of requests is made of the records, of which only the latest are kept.
        whose_values = (
            group.number if values_of == len(group.records) else count(values_of, group.noun)
        )
        yield title(
            f"segments of {whose_values}",
            f"and their share of the {whose} time",
            options=options,
        )
        outcomes = group.outcomes()
        if outcomes.keys() - {Outcome.COMPLETED}:
            # An error that is returned at once would otherwise look like a fast response.
            ended = [f"{n:,} {in_words(outcome)}" for outcome, n in outcomes.most_common()]
            yield shown(Text(f"{MARGIN}outcomes: {', '.join(ended)}"), options)
        rows = [heads("segment", "n", *_PERCENTILE_HEADS, "source", slow)]
        names = group.segment_names()
        for name in names:
            values = group.snapshot.segment(name, kind=group.kind)
            if not values.count():
                continue
            rows.append(
                (
                    Text(name, style=style_of(name)),
                    Text(f"{values.count():,}"),
                    *_percentiles(values),
                    Text(letters(values.sources)),
                    _share_cell(slowest.share(name), name),
                )
            )
        yield from aligned(rows, left=(0, 5, 6), options=options)
        for name, explanation in _EXPLANATIONS.items():
            if name in names:
                yield prose(MARGIN + explanation, options, style=FAINT, hanging=len(MARGIN))


@dataclass(frozen=True, slots=True)
class StepsTable:
    """
    Table of the steps of requests by name: how many, how long, and their share of the time.

    Args:
        group: Requests, with their records.
        kinds: Kind of each stage by its name.
    """

    group: Group
    kinds: Mapping[str, str]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the title, the table, and what its columns mean."""
        del console
        slow, whose = _in_words(slowest_tenth(self.group.records))
        yield title(
            f"steps of {self.group.number}",
            f"and their share of the {whose} time",
            options=options,
        )
        rows = [heads("step", "kind", "n", "per request", *_PERCENTILE_HEADS, slow)]
        rows += [
            (
                Text(steps.name, style=style_of(steps.name)),
                Text(steps.kind),
                Text(f"{steps.total:,}"),
                Text(steps.per_request),
                *(_step_cell(steps, percentile) for percentile in _PERCENTILES),
                _share_cell(steps.share, steps.name),
            )
            for steps in steps_by_name(self.group, self.kinds)
        ]
        yield from aligned(rows, left=(0, 1, 7), options=options)
        yield prose(MARGIN + _OF_STEPS, options, style=FAINT, hanging=len(MARGIN))


@dataclass(frozen=True, slots=True)
class MetricsTable:
    """
    Table of each metric's percentiles over a group.

    Args:
        group: Histograms to show.
    """

    group: Group

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the title, the table, and why a stream has no TPOT."""
        del console
        yield title("time to answer", options=options)
        rows = [heads("metric", "n", *_PERCENTILE_HEADS, "source")]
        for name in _METRICS_OF[self.group.kind]:
            values = self.group.snapshot.metric(name, kind=self.group.kind)
            rows.append(
                (
                    Text(METRICS[name].heading),
                    Text(f"{values.count():,}"),
                    *_percentiles(values),
                    Text(letters(values.sources)),
                )
            )
        yield from aligned(rows, left=(0, 5), options=options)
        if any("(" in cell.plain for row in rows for cell in row[2:-1]):
            yield prose(MARGIN + _UNKNOWN, options, style=FAINT, hanging=len(MARGIN))
        for line in self._without_counts():
            yield shown(Text(MARGIN + line, style=FAINT), options)

    def _without_counts(self) -> Iterator[str]:
        """Yield lines on the streams whose TPOT is not known because they report no counts."""
        if self.group.kind is not Kind.CALL:
            return
        streams = [each for each in self.group.records if TIME_TO_FIRST_TOKEN in each.metrics]
        silent = sum(each.tokens.output is None for each in streams)
        if silent:
            reports = "reports" if silent == 1 else "report"
            yield f"TPOT: {silent:,} of {count(len(streams), 'stream')} {reports} no token counts;"
            yield "LATSPAN_REQUEST_STREAM_USAGE=true requests them from the OpenAI API"


@dataclass(frozen=True, slots=True)
class TokensTable:
    """
    Table of the token counts of calls, and their source.

    Args:
        group: Calls to show.
    """

    group: Group

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the title and the table."""
        del console
        yield title("tokens", options=options)
        rows = [heads("kind", "n", "fewest", "most", "in all", "counted by")]
        rows += _token_rows([call.tokens for call in self.group.records])
        yield from aligned(rows, left=(0, 5), options=options)


def percentile_text(
    values: Distribution, percentile: float, text_of: Callable[[float], str] = milliseconds
) -> Text:
    """
    Return a percentile as a cell, or what is known of it.

    Args:
        values: The values.
        percentile: In [1, 100].
        text_of: Returns the text of a value, nanoseconds if it is a time.
    """
    try:
        low, high = values.percentile_bounds(percentile, unit="ns")
    except (EmptyHistogramError, NotEnoughValuesError):
        return Text(needs(values_needed(percentile)), style=FAINT)
    if low == high < math.inf or values.population is None:
        return Text(text_of(low))
    return Text(text_of_unknown(Bounds(low, high), text_of, values.population))


def _share_cell(share: float | None, name: str) -> Text:
    """Return a share of the slow requests' time with its bar, in the style of a name."""
    if share is None:
        return Text("—")
    bar = "█" * round(share * _SHARE_BAR_WIDTH)
    return Text.assemble(f"{percent(share):>5}", (f" {bar}" if bar else "", style_of(name)))


def _in_words(slowest: Slowest) -> tuple[str, str]:
    """Return the name of the slowest tenth, and its genitive."""
    number = len(slowest.slow)
    slow = "slowest" if number == 1 else f"slowest {number:,}"
    return slow, "slowest one's" if number == 1 else f"{slow}'s"


def _step_cell(steps: NamedSteps, percentile: float) -> Text:
    value_ns = steps.percentile_ns(percentile)
    if value_ns is None:
        return Text(needs(values_needed(percentile)), style=FAINT)
    return Text(milliseconds(value_ns))


def _percentiles(values: Distribution) -> Iterator[Text]:
    return (percentile_text(values, each) for each in _PERCENTILES)


def _token_rows(counts: Iterable[TokenCounts]) -> Iterator[tuple[Text, ...]]:
    rows: dict[str, list[tuple[TokenSource, int]]] = {
        "in": [],
        "  cached": [],
        "out": [],
        "  reasoning": [],
    }
    for tokens in counts:
        numbers = (tokens.input, tokens.cached, tokens.output, tokens.reasoning)
        for row, number in zip(rows.values(), numbers, strict=True):
            if number is not None:
                row.append((tokens.source, number))
    for label, counted in rows.items():
        known = [number for _, number in counted]
        shown = (
            [f"{each:,}" for each in (min(known), max(known), sum(known))] if known else ["—"] * 3
        )
        by = (
            listed(sorted({_TOKEN_SOURCES[source] for source, _ in counted}))
            if known
            else "not reported"
        )
        yield tuple(Text(cell) for cell in (label, f"{len(known):,}", *shown, by))
