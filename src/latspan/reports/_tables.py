"""
Tables of a measurement: percentiles of segments and metrics, and tokens.

Every row shows its number of values, and a percentile with too few of them is replaced by the
number it needs. Columns are as wide as their content: a number is never cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from latspan._recording import Distribution, Snapshot
from latspan._segments import Kind
from latspan._tokens import TokenCounts, TokenSource
from latspan.histogram import values_needed
from latspan.reports._format import count, letters, listed, milliseconds, needs, percent
from latspan.reports._layout import FAINT, aligned, heads, title
from latspan.reports._slow import calls_of, slowest_tenth
from latspan.reports._waterfall import style_of

__all__ = ["MetricsTable", "SegmentsTable", "TokensTable"]

_PERCENTILES: Final = (50, 95, 99)
_PERCENTILE_HEADS: Final = tuple(f"p{percentile}" for percentile in _PERCENTILES)
_SHARE_BAR_WIDTH: Final = 8

_METRIC_LABELS: Final[dict[str, str]] = {
    "duration": "duration",
    "time_to_first_token": "TTFT, first token",
    "time_per_output_token": "TPOT, per output token",
    "chunk_gap": "gap between chunks",
}

_TOKEN_SOURCES: Final[dict[TokenSource, str]] = {
    TokenSource.PROVIDER: "the provider",
    TokenSource.ESTIMATED: "latspan, estimated",
    TokenSource.UNKNOWN: "unknown",
}


@dataclass(frozen=True, slots=True)
class SegmentsTable:
    """
    Table of each segment's percentiles over the calls, and its share of the slowest tenth's time.

    Args:
        snapshot: Recorded data, with its records kept.
    """

    snapshot: Snapshot

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the title and the table."""
        calls = calls_of(self.snapshot.records)
        slowest = slowest_tenth(calls)
        one = len(slowest.slow) == 1
        slow = "slowest" if one else f"slowest {len(slowest.slow):,}"
        whose = "slowest one's" if one else f"{slow}'s"
        yield title(
            f"segments of {count(len(calls), 'request')}",
            f"and their share of the {whose} time",
            options=options,
        )
        rows = [heads("segment", "n", *_PERCENTILE_HEADS, "source", slow)]
        for name in self.snapshot.segments():
            values = self.snapshot.segment(name, kind=Kind.CALL)
            if not values.count():
                continue
            share = slowest.share(name)
            bar = "" if share is None else "█" * round(share * _SHARE_BAR_WIDTH)
            rows.append(
                (
                    Text(name, style=style_of(name)),
                    Text(f"{values.count():,}"),
                    *_percentiles(values),
                    Text(letters(values.sources)),
                    Text.assemble(
                        "—" if share is None else f"{percent(share):>5}",
                        (f" {bar}" if bar else "", style_of(name)),
                    ),
                )
            )
        yield from aligned(rows, left=(0, 5, 6), options=options)


@dataclass(frozen=True, slots=True)
class MetricsTable:
    """
    Table of each metric's percentiles over the calls.

    Args:
        snapshot: Recorded data.
    """

    snapshot: Snapshot

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the title and the table."""
        del console
        yield title("time to answer", options=options)
        rows = [heads("metric", "n", *_PERCENTILE_HEADS, "source")]
        for name, label in _METRIC_LABELS.items():
            values = self.snapshot.metric(name, kind=Kind.CALL)
            rows.append(
                (
                    Text(label),
                    Text(f"{values.count():,}"),
                    *_percentiles(values),
                    Text(letters(values.sources)),
                )
            )
        yield from aligned(rows, left=(0, 5), options=options)


@dataclass(frozen=True, slots=True)
class TokensTable:
    """
    Table of the token counts of the calls, and their source.

    Args:
        snapshot: Recorded data, with its records kept.
    """

    snapshot: Snapshot

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the title and the table."""
        del console
        yield title("tokens", options=options)
        rows = [heads("kind", "n", "fewest", "most", "in all", "counted by")]
        rows += _token_rows([call.tokens for call in calls_of(self.snapshot.records)])
        yield from aligned(rows, left=(0, 5), options=options)


def _percentiles(values: Distribution) -> Iterator[Text]:
    for percentile in _PERCENTILES:
        needed = values_needed(percentile)
        if values.count() < needed:
            yield Text(needs(needed), style=FAINT)
        else:
            yield Text(milliseconds(values.percentile(percentile, unit="ns")))


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
