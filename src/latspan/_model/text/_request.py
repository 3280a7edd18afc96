"""
Drawings of one request as plain text: a line for a log that people read, and a waterfall.

A waterfall has its segments as bars on one time axis, as text with styles. The pattern of a bar
shows the source of its length, and so does a letter next to it, so that the chart does not depend
on colour. Segments of the same name share one row, each at its position.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from latspan._base.nanoseconds import NS_PER_MS
from latspan._base.shown import printable
from latspan._model.censoring import ValueState
from latspan._model.metrics import DURATION, FIRST_TOKENS, METRICS, SUMMARISED
from latspan._model.recording import RequestRecord
from latspan._model.segments import Kind, Segment, SegmentName, Source
from latspan._model.text._words import SOURCE_LETTERS, SOURCE_WORDS, percent
from latspan._model.units import milliseconds

_KIND_WIDTH: Final = 7

StyledLine = tuple[tuple[str, str], ...]
"""Parts of a line, each with the name of its style, which is empty for none."""

FAINT: Final = "bright_black"
"""Style of what is only a scale or an explanation."""

_MARGIN: Final = "  "
_NARROWEST_BAR: Final = 20
_MIN_COLUMNS_PER_TICK: Final = 10

_STYLES: Final[dict[str, str]] = {
    SegmentName.RETRY: "red",
    SegmentName.QUEUE: "yellow",
    SegmentName.POOL_WAIT: "yellow",
    SegmentName.DISPATCH_LAG: "yellow",
    SegmentName.GATEWAY: "yellow",
    SegmentName.SERVER_WAIT: "yellow",
    SegmentName.MODEL_LOAD: "magenta",
    SegmentName.PREFILL: "magenta",
    SegmentName.REASONING: "blue",
    SegmentName.DECODE: "cyan",
    SegmentName.CONSUMER: "green",
    SegmentName.APPLICATION: "green",
    SegmentName.PREPARE: "green",
    SegmentName.POSTPROCESS: "green",
    SegmentName.EVENT_LOOP: "red",
    SegmentName.UNATTRIBUTED: "bright_black",
}


def line_of(record: RequestRecord) -> str:
    """
    Return name, duration, time to the first token, largest segment and outcome on one line.

    For example ``call    chat gpt-4o · 905.1 ms · TTFT 310.0 ms · decode 595.1 ms (66 %) ·
    completed``. A request has the time to the first visible token (TTFV) instead of the TTFT. If
    the caller gave up before that token, ``TTFT ≥ 5,000.0 ms`` is the time that it waited.
    """
    parts = [record.name, milliseconds(record.duration_ns)]
    for metric in FIRST_TOKENS:
        label = _label(metric)
        if metric in record.metrics:
            parts.append(f"{label} {milliseconds(record.metrics[metric].value)}")
            break
        if record.state(metric) is ValueState.AT_LEAST:
            if waited_ns := record.lower_bound(metric):
                parts.append(f"{label} ≥ {milliseconds(waited_ns)}")
            break
    totals = record.segment_totals
    if totals and record.duration_ns:
        largest = max(totals, key=lambda total: total.duration_ns)
        share = percent(largest.duration_ns / record.duration_ns)
        parts.append(f"{largest.name} {milliseconds(largest.duration_ns)} ({share})")
    parts.append(record.outcome.value)
    return printable(f"{record.kind.value:{_KIND_WIDTH}} {' · '.join(parts)}")


@dataclass(frozen=True, slots=True)
class _Glyphs:
    fills: dict[Source, str]
    sliver: str
    """Mark for less than half a column."""
    axis: str
    tick: str
    dot: str
    arrow: str


_UNICODE: Final = _Glyphs(
    fills={
        Source.MEASURED: "█",
        Source.SERVER_REPORTED: "▓",
        Source.ESTIMATED: "▒",
        Source.UNKNOWN: "░",
    },
    sliver="▏",
    axis="─",
    tick="┬",
    dot="·",
    arrow="→",
)

_ASCII: Final = _Glyphs(
    fills={
        Source.MEASURED: "#",
        Source.SERVER_REPORTED: "=",
        Source.ESTIMATED: "~",
        Source.UNKNOWN: ".",
    },
    sliver="|",
    axis="-",
    tick="+",
    dot="-",
    arrow="->",
)


def waterfall(
    record: RequestRecord, title: str, width: int, *, ascii_only: bool = False, legend: bool = True
) -> Iterator[StyledLine]:
    """
    Yield the lines of a request's waterfall.

    Args:
        record: The request.
        title: Its role among others, for example ``slowest of 40 calls``.
        width: Columns to draw in; a narrow drawing is wider than that, and never cut.
        ascii_only: Whether to use ASCII characters alone.
        legend: Whether to end with the meaning of the patterns and letters.
    """
    glyphs = _ASCII if ascii_only else _UNICODE
    yield from _head(record, title, glyphs)
    yield from _body(record, width, glyphs)
    if legend:
        yield ()
        yield from _legend(width, glyphs)


def _head(record: RequestRecord, title: str, glyphs: _Glyphs) -> Iterator[StyledLine]:
    dot = f" {glyphs.dot} "
    yield (title, "bold"), (dot + dot.join((record.name, record.outcome.value)), "")
    facts = dot.join(_facts(record, glyphs))
    if facts:
        yield ((_MARGIN + facts, ""),)


def _body(record: RequestRecord, width: int, glyphs: _Glyphs) -> Iterator[StyledLine]:
    rows = record.segment_totals
    names = [printable(row.name) for row in rows]
    name_width = max(map(len, (*names, "total")))
    times = [milliseconds(row.duration_ns) for row in rows]
    total = milliseconds(record.duration_ns)
    time_width = max(len(each) for each in (*times, total))

    def left(name: str, time: str, share: str, letter: str) -> str:
        return f"{_MARGIN}{name:<{name_width}}  {time:>{time_width}} {share:>6} {letter:1}  "

    bar_width = max(width - len(left("", "", "", "")), _NARROWEST_BAR)
    labels, rule = _axis(record.duration_ns, bar_width, glyphs)
    yield ((left("", "", "", "") + labels, FAINT),)
    yield ((left("", "", "", "") + rule, FAINT),)
    for row, name, time in zip(rows, names, times, strict=True):
        share = percent(row.duration_ns / record.duration_ns) if record.duration_ns else ""
        pieces = [piece for piece in record.segments if piece.name == row.name]
        yield (
            (left(name, time, share, SOURCE_LETTERS[row.source]), ""),
            (_bar(pieces, record.duration_ns, bar_width, glyphs), style_of(row.name)),
        )
    summed_ns = sum(row.duration_ns for row in rows)
    equation = "= sum of segments"
    if summed_ns != record.duration_ns:
        equation = f"but segments sum to {milliseconds(summed_ns)}"
    yield (f"{_MARGIN}{'total':<{name_width}}  {total:>{time_width}} ", "bold"), (equation, "")


def style_of(name: str) -> str:
    """Return the colour of a segment, the same in every report."""
    return _STYLES.get(name, "blue")


def _label(metric: str) -> str:
    return METRICS[metric].abbreviation.upper()


def _facts(record: RequestRecord, glyphs: _Glyphs) -> Iterator[str]:
    for metric in SUMMARISED[record.kind]:
        value = record.metrics.get(metric)
        if value is not None and metric != DURATION:
            certain = value.source in (Source.MEASURED, Source.SERVER_REPORTED)
            known = "" if certain else f" ({SOURCE_WORDS[value.source]})"
            yield f"{_label(metric)} {milliseconds(value.value)}{known}"
    tokens = record.tokens
    if tokens.input is None and tokens.output is None:
        # The tokens of a request are those of its calls.
        yield from ("tokens unknown",) if record.kind is Kind.CALL else ()
        return
    cached = f" ({tokens.cached:,} cached)" if tokens.cached else ""
    yield (f"{_known(tokens.input)} tokens in{cached} {glyphs.arrow} {_known(tokens.output)} out")


def _known(number: int | None) -> str:
    return "?" if number is None else f"{number:,}"


def _axis(duration_ns: int, width: int, glyphs: _Glyphs) -> tuple[str, str]:
    """Return labels and rule of an axis from 0 to ``duration_ns`` with ticks at round numbers."""
    if duration_ns <= 0:
        return "0 ms", glyphs.tick + glyphs.axis * (width - 1)
    step_ns = _round_step(duration_ns * _MIN_COLUMNS_PER_TICK / width)
    labels, rule = [" "] * width, [glyphs.axis] * width
    for at_ns in itertools.takewhile(lambda at: at < duration_ns, itertools.count(0, step_ns)):
        column = at_ns * width // duration_ns
        label = f"{at_ns / NS_PER_MS:,.10g}" + (" ms" if at_ns == 0 else "")
        rule[column] = glyphs.tick
        if column + len(label) <= width:
            labels[column : column + len(label)] = label
    return "".join(labels).rstrip(), "".join(rule)


def _round_step(least_ns: float) -> int:
    """Return the smallest of 1, 2, 5, 10, 20 … nanoseconds that is at least ``least_ns``."""
    return next(
        step
        for power in itertools.count()
        for step in (10**power, 2 * 10**power, 5 * 10**power)
        if step >= least_ns
    )


def _bar(pieces: Sequence[Segment], duration_ns: int, width: int, glyphs: _Glyphs) -> str:
    """
    Draw pieces at their exact positions.

    A column that is at least half filled has the pattern of its longest piece. A less filled
    column has a sliver, unless it is the end of a piece that an adjacent column shows. So every
    piece is visible, and none looks longer than it is.
    """
    if duration_ns <= 0:
        return ""
    covered = [0.0] * width
    owner = [-1] * width
    largest = [0.0] * width
    for index, piece in enumerate(pieces):
        start, end = (at * width / duration_ns for at in (piece.start_ns, piece.end_ns))
        first = min(int(start), width - 1)
        for column in range(first, min(max(math.ceil(end), first + 1), width)):
            part = min(end, column + 1) - max(start, column)
            covered[column] += part
            if part > largest[column] or owner[column] < 0:
                owner[column], largest[column] = index, part
    drawn = [" "] * width
    for column, index in enumerate(owner):
        if index < 0:
            continue
        if covered[column] >= 0.5:
            drawn[column] = glyphs.fills[pieces[index].source]
            continue
        before = column > 0 and owner[column - 1] == index
        after = column + 1 < width and owner[column + 1] == index and covered[column + 1] >= 0.5
        if not before and not after:
            drawn[column] = glyphs.sliver
    return "".join(drawn).rstrip()


def _legend(width: int, glyphs: _Glyphs) -> Iterator[StyledLine]:
    entries = [
        *(
            f"{glyphs.fills[source]} {SOURCE_LETTERS[source]} {SOURCE_WORDS[source]}"
            for source in Source
        ),
        f"{glyphs.sliver} under half a column",
    ]
    line = ""
    for entry in entries:
        if line and len(_MARGIN) + len(line) + 3 + len(entry) > width:
            yield ((_MARGIN + line, FAINT),)
            line = ""
        line += f"   {entry}" if line else entry
    yield ((_MARGIN + line, FAINT),)
