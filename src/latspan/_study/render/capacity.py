"""The capacity of a system on a terminal: a percentile against the load, and what follows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from latspan._base.nanoseconds import NS_PER_S
from latspan._model.segments import KIND_NOUNS
from latspan._model.text import FAINT, count, percent
from latspan._model.units import milliseconds
from latspan._study.capacity import CapacityStudy, HoldOut, Label, Point, Projection, Refusal
from latspan._study.render.layout import MARGIN, aligned, heads, prose, shown, title

_PLOT: Final = 32
"""Width of the plot in characters."""

_SATURATED: Final = "saturated"
_STYLES: Final = {
    "measured": "",
    _SATURATED: "red",
    "interpolated": "cyan",
    "extrapolated": "yellow",
    "refused": FAINT,
}


class _Line(NamedTuple):
    """One load of the table; times are seconds, NaN if unknown."""

    rate_per_s: float
    requests: int | None
    value_s: float
    low_s: float
    high_s: float
    how: str


@dataclass(frozen=True, slots=True)
class CapacityReport:
    """
    The capacity of a system.

    Args:
        study: What to show.
    """

    study: CapacityStudy

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the table with its plot, what follows from it, and what is missing."""
        del console
        study = self.study
        noun = KIND_NOUNS[study.kind][1]
        total = sum(point.requests for point in study.points)
        yield title(
            f"{study.name}: p{study.percentile:g} {study.metric} against offered load",
            f"{count(len(study.points), 'rung')} with {total:,} {noun}",
            options=options,
        )
        yield from _table(study, options)
        yield Text()
        yield from _listed_facts(study, options)
        yield from _refusals(study, options)
        for note in study.notes:
            yield prose(note, options, style=FAINT)


def _table(study: CapacityStudy, options: ConsoleOptions) -> Iterator[Text]:
    projected = (each for each in study.projections if each.label is not Label.MEASURED)
    lines = [*map(_of_rung, study.points), *map(_of_projection, projected)]
    lines.sort(key=lambda line: (line.rate_per_s, line.requests is None))
    # A percentile at saturation is as long as the test, so it would only stretch the scale.
    ends = [
        each
        for line in lines
        for each in (line.low_s, line.high_s, line.value_s)
        if 0 < each < math.inf and line.how != _SATURATED
    ]
    scale = (min(ends), max(ends)) if ends else (1.0, 1.0)
    left, right = _time(scale[0]), _time(scale[1])
    axis = f"{left}{'log scale':^{max(10, _PLOT - len(left) - len(right))}}{right}"
    name = f"p{study.percentile:g}"
    rows: list[Sequence[Text]] = [heads("offered", "of capacity", "n", name, "range", "", axis)]
    for line in lines:
        style = _STYLES[line.how]
        known = not math.isnan(line.low_s)
        rows.append(
            [
                Text(_rate(line.rate_per_s)),
                Text(_share(line.rate_per_s, study)),
                Text("" if line.requests is None else f"{line.requests:,}"),
                Text("" if math.isnan(line.value_s) else _time(line.value_s)),
                Text(f"{_time(line.low_s)} to {_time(line.high_s)}" if known else "—"),
                Text(line.how, style=style),
                Text(_bar(line, scale, ascii_only=options.ascii_only), style=style),
            ]
        )
    lines_of_text = list(aligned(rows, left=(5, 6), options=options))
    if not options.is_terminal or max(line.cell_len for line in lines_of_text) <= options.max_width:
        yield from lines_of_text
        return
    # A narrow terminal has the plot below the numbers, and so nothing is left out.
    yield from aligned([(row[0], *row[2:-1]) for row in rows], left=(4,), options=options)
    yield Text()
    yield from aligned([(*row[:2], row[-1]) for row in rows], left=(2,), options=options)


def _listed_facts(study: CapacityStudy, options: ConsoleOptions) -> Iterator[Text]:
    facts = list(_facts(study))
    width = max((len(name) for name, _ in facts), default=0)
    for name, text in facts:
        line = f"{MARGIN}{name:<{width}}{MARGIN}{text}"
        if options.is_terminal:
            wrapped = prose(line, options, hanging=width + 2 * len(MARGIN))
        else:
            wrapped = shown(Text(line), options)
        wrapped.stylize("bold", 0, len(MARGIN) + len(name))
        yield wrapped


def _of_rung(point: Point) -> _Line:
    how = _SATURATED if point.saturated else Label.MEASURED.value
    return _Line(point.rate_per_s, point.requests, point.value_s, point.low_s, point.high_s, how)


def _of_projection(each: Projection) -> _Line:
    return _Line(each.rate_per_s, None, math.nan, each.low_s, each.high_s, each.label.value)


def _bar(line: _Line, scale: tuple[float, float], *, ascii_only: bool) -> str:
    """Return a range as a bar on a logarithmic scale, with a mark for a measured value."""
    if math.isnan(line.low_s):
        return ""
    if line.how == _SATURATED:
        return " " * (_PLOT - 1) + ">"
    span, mark = ("-", "o") if ascii_only else ("─", "●")
    low, high = (_place(each, scale) for each in (line.low_s, line.high_s))
    cells = [" "] * low + [span] * (high - low + 1)
    if not math.isnan(line.value_s):
        cells[min(max(_place(line.value_s, scale), low), high)] = mark
    return "".join(cells)


def _place(value_s: float, scale: tuple[float, float]) -> int:
    low, high = scale
    if math.isinf(value_s) or low >= high:
        return _PLOT - 1 if value_s > low else 0
    return round((_PLOT - 1) * math.log(value_s / low) / math.log(high / low))


def _facts(study: CapacityStudy) -> Iterator[tuple[str, str]]:
    capacity, knee, limit_s = study.capacity, study.knee, study.limit_s
    if capacity is not None:
        interval = _loads(capacity.low_per_s, capacity.high_per_s)
        yield "capacity", f"{_rate(capacity.per_s)}, 99 % interval {interval}, at saturation"
    if knee is not None:
        interval = _loads(knee.low_per_s, knee.high_per_s)
        how = "95 % interval" if knee.simulated else "between rungs,"
        at = "" if knee.per_s is None else f"{_rate(knee.per_s)}, "
        yield "knee", f"{at}{how} {interval}; above it, the p{study.percentile:g} grows faster"
    if study.comfortable_per_s is not None:
        yield "headroom", f"80 % of the capacity is {_rate(study.comfortable_per_s)}"
    if limit_s is not None and study.within_limit_per_s is not None:
        within = study.within_limit_per_s
        load = f"up to {_rate(within)}" if within else "at no load that was measured or projected"
        yield "target", f"the upper end is within {_time(limit_s)} {load}"
    if study.headroom is not None and study.current_per_s is not None:
        yield (
            "today",
            f"{_rate(study.current_per_s)}; the system takes {study.headroom:.2g} times as much",
        )
    if study.held_out is not None:
        yield "hold-out", _checked(study.held_out)


def _checked(held_out: HoldOut) -> str:
    word = "inside" if held_out.holds else "outside"
    return (
        f"{_rate(held_out.rate_per_s)} without its rung: {_time(held_out.low_s)} to"
        f" {_time(held_out.high_s)}; measured {_time(held_out.measured_s)}, {word},"
        f" {held_out.ratio:.2f} times the median"
    )


def _refusals(study: CapacityStudy, options: ConsoleOptions) -> Iterator[Text]:
    """Yield each reason once, with the loads that it concerns."""
    found: dict[Refusal, None] = {}
    if study.refusal is not None:
        found[study.refusal] = None
    for each in study.projections:
        if each.refusal is not None:
            found[each.refusal] = None
    for refusal in found:
        yield prose(f"no projection: {refusal.reason}", options, style="yellow")
        yield shown(Text(f"hint: {refusal.hint}", style=FAINT), options)


def _rate(per_s: float) -> str:
    return f"{per_s:,.3g}/s"


def _loads(low_per_s: float, high_per_s: float) -> str:
    if math.isinf(high_per_s):
        return f"above {_rate(low_per_s)}"
    return f"{low_per_s:,.3g} to {_rate(high_per_s)}"


def _share(per_s: float, study: CapacityStudy) -> str:
    return "—" if study.capacity is None else percent(per_s / study.capacity.per_s)


def _time(seconds: float) -> str:
    return "unbounded" if math.isinf(seconds) else milliseconds(seconds * NS_PER_S)
