"""Report on recorded data and its waterfalls: for a terminal, as plain text and as HTML."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.text import Text

from latspan._model.metrics import DEFAULT_EXPECTATIONS, Expectations
from latspan._model.recording import RequestRecord, Snapshot
from latspan._model.segments import Kind
from latspan._model.text import count, waterfall
from latspan._study.render.group import Group, by_name, calls_in, requests_in, served_in
from latspan._study.render.layout import Printable, prose, shown, title
from latspan._study.render.slow import median_of, sentence, slowest_of
from latspan._study.render.smoothness import SmoothnessTable
from latspan._study.render.steps import have_steps, stage_kinds
from latspan._study.render.tables import MetricsTable, SegmentsTable, StepsTable, TokensTable

if TYPE_CHECKING:
    from latspan._study.render.diagnosis import DiagnosisReport

_PART: Final = (
    "This is a part of a snapshot, which has histograms but no complete records, so only these"
    " tables are shown. A report on the whole snapshot has waterfalls too."
)
_WITHOUT_RECORDS: Final = (
    "This snapshot has histograms but no complete records, so only these tables are shown. The"
    " setting keep_records is the number of records that latspan keeps."
)


@dataclass(frozen=True, slots=True)
class Waterfall:
    """
    Waterfall of one request, as wide as the console that prints it.

    Args:
        record: The request.
        title: Its role among others, for example ``slowest of 40 calls``.
        legend: Whether to end with the meaning of the patterns and letters.
    """

    record: RequestRecord
    title: str
    legend: bool = True

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the lines of the chart."""
        del console
        lines = waterfall(
            self.record,
            self.title,
            options.max_width,
            ascii_only=options.ascii_only,
            legend=self.legend,
        )
        for parts in lines:
            line = Text.assemble(*parts, no_wrap=True, overflow="ignore")
            line.rstrip()
            yield shown(line, options)


@dataclass(frozen=True, slots=True)
class Report(Printable):
    """
    Report on where requests and calls spent their time, from a single one to the slowest tenth.

    It has a part on the requests that the application served with their stages, one on its own
    requests, and one on its calls, as far as there are any. Requests with several names have a
    part for each name. The first part begins with the waterfalls of the median and the slowest, and
    the report ends with the one delay to fix, or else with a sentence on the slowest tenth.
    ``print`` shows it as text, rich's ``print`` in colour, and a notebook as HTML.

    Args:
        snapshot: Recorded data. Waterfalls and the closing sentences need its records.
        expected: Configured expectations that streams were measured against.
        note: What the reader must know about the data, if anything; one line per fact.
        closing: Diagnosis with which the report ends; ``None`` if there are too few requests, or
            numpy is missing.
        selected: Attributes of the requests as ``NAME=VALUE``, if the report is on a part of a
            recording; otherwise empty.
    """

    snapshot: Snapshot
    expected: Expectations = DEFAULT_EXPECTATIONS
    note: str = ""
    closing: DiagnosisReport | None = None
    selected: str = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the parts, separated by blank lines."""
        del console
        sides = self._sides()
        groups = [group for side in sides for group in _named(side)]
        has_headings = sum(group.kind is Kind.REQUEST for group in groups) > 1
        parts: list[RenderableType] = []
        if self.selected:
            held = ", ".join(side.number for side in sides) or "nothing recorded"
            parts.append(title(f"{self.selected}: {held}", options=options))
        for group in groups:
            if has_headings:
                more = "" if group.kind is Kind.REQUEST else "those inside these requests too"
                parts.append(title(group.heading, more, options=options))
            if group is groups[0]:
                parts += self._waterfalls(group)
            parts += self._tables(group)
        if not groups:
            parts.append(_nothing(self.snapshot.empty_reason, options))
        elif not groups[0].records:
            reason = _PART if self.snapshot.known else _WITHOUT_RECORDS
            parts.append(prose(reason, options))
        elif self.closing is None or self.closing.diagnosis.attribution is None:
            # Otherwise the diagnosis names the delay to fix, and one conclusion is enough.
            closing = sentence(groups[0].records, groups[0].noun)
            if has_headings:
                closing = f"{groups[0].name}: {closing}"
            parts.append(prose(closing, options, style="bold"))
        parts += [prose(_left_out(group), options) for group in sides if group.left_out]
        parts += [prose(line, options) for line in self.note.splitlines()]
        if self.closing is not None:
            if has_headings:
                found = self.closing.diagnosis
                about = f"diagnosis of {count(found.units, found.kind)}"
                parts.append(title(about, "whatever their name", options=options))
            parts.append(self.closing)
        for index, part in enumerate(parts):
            if index:
                yield ""
            yield part

    def __repr__(self) -> str:
        """Return the number of records in words."""
        held = ", ".join(side.number for side in self._sides())
        return f"<latspan.reports.Report: {held or 'nothing recorded'}>"

    def _sides(self) -> tuple[Group, ...]:
        # Users wait for what is served; the application's own requests may be background jobs.
        found = (served_in(self.snapshot), requests_in(self.snapshot), calls_in(self.snapshot))
        return tuple(group for group in found if group.total)

    def _waterfalls(self, group: Group) -> Iterator[RenderableType]:
        median, slowest = median_of(group.records), slowest_of(group.records)
        if median is None or slowest is None:
            return
        if median is slowest:
            yield Waterfall(slowest, f"the only {group.noun}")
        else:
            yield Waterfall(median, f"median of {group.number}", legend=False)
            yield Waterfall(slowest, f"slowest of {group.number}")

    def _tables(self, group: Group) -> Iterator[RenderableType]:
        if group.records:
            yield SegmentsTable(group)
            if have_steps(group):
                yield StepsTable(group, stage_kinds(self.snapshot))
        yield MetricsTable(group)
        if group.noun == "call" and group.records:
            yield SmoothnessTable(group, self.expected)
            yield TokensTable(group)


def _named(side: Group) -> tuple[Group, ...]:
    """Return the groups of requests by name; calls stay together, whatever their model."""
    return by_name(side) if side.kind is Kind.REQUEST else (side,)


def _nothing(reason: str | None, options: ConsoleOptions) -> Text:
    """Return the sentence of an empty report, and why nothing was recorded, if that is known."""
    if reason is None:
        return prose("No request and no call was recorded.", options)
    lines = f"No request and no call was recorded: {reason}".splitlines()
    return Text("\n", no_wrap=True, overflow="ignore").join(prose(line, options) for line in lines)


def _left_out(group: Group) -> str:
    one = group.left_out == 1
    return (
        f"Not shown: {count(group.left_out, group.noun)} that {'contains' if one else 'contain'}"
        " no call and no stage."
    )
