"""``latspan histogram``: shows, merges and compares log files of histograms."""

from __future__ import annotations

import argparse
import heapq
import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from latspan.cli._command import Command
from latspan.cli._console import output, print_message
from latspan.cli._where import add_where, selected
from latspan.errors import ConfigError

if TYPE_CHECKING:
    from latspan._study.render.histogram_rows import HistogramRow
    from latspan.histogram import HistogramLogWriter, LoggedInterval, LogTotals

_DESCRIPTION: Final = """\
Reads log files of histograms (.hlog), written by latspan or by any other
HdrHistogram, without loss:

  show    show the percentiles over all values of the files
  diff    show the percentiles of two files side by side
  merge   merge the files of several processes or hosts into one

Values written by other programs are read as nanoseconds. If a percentile has
too few values, the number of values that it needs is shown instead."""

_EXAMPLES: Final = (
    ("latspan histogram show latspan.hlog", "show every metric and segment"),
    ("latspan histogram show /var/log/shop", "the same, over all processes that wrote to a folder"),
    ("latspan histogram merge host1.hlog host2.hlog -o all.hlog", "merge the files of two hosts"),
    ("latspan histogram show *.hlog --metric ttft --by model", "show one metric for each model"),
    (
        "latspan histogram show a.hlog --where model=gpt-4o --spectrum",
        "show the whole distribution, finer towards its tail",
    ),
    ("latspan histogram diff before.hlog after.hlog", "show the effect of a change"),
    (
        "latspan histogram diff before.hlog after.hlog --json | jq '.rows[].change.p95'",
        "the same, for a script",
    ),
)


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(histogram=None)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    show = commands.add_parser("show", help="show the percentiles over all values of the files")
    show.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="a log file, or a folder of log files; several are merged",
    )
    _add_selection(show)
    show.add_argument(
        "--all", action="store_true", help="also show rows with too few values for a p95"
    )
    show.add_argument(
        "--spectrum", action="store_true", help="also show the whole distribution of each row"
    )
    _add_json(show, "latspan.histogram-show/1")
    show.set_defaults(histogram=_show)

    diff = commands.add_parser("diff", help="show the percentiles of two files side by side")
    diff.add_argument(
        "before", metavar="BEFORE", help="log file or folder of the first measurement"
    )
    diff.add_argument("after", metavar="AFTER", help="log file or folder of the second measurement")
    _add_selection(diff)
    _add_json(diff, "latspan.histogram-diff/1")
    diff.set_defaults(histogram=_diff)

    merge = commands.add_parser(
        "merge", help="merge the files of several processes or hosts into one"
    )
    merge.add_argument(
        "files", nargs="+", metavar="FILE", help="a log file, or a folder of log files"
    )
    merge.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="OUT",
        help="log file to write; an existing file is replaced",
    )
    merge.add_argument(
        "--intervals",
        action="store_true",
        help="keep every interval, ordered by time, instead of merging them into one",
    )
    merge.set_defaults(histogram=_merge)


def _add_selection(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--metric",
        metavar="NAME",
        help="show only this metric, segment or tag, for example ttft or queue",
    )
    add_where(parser, "select only series with this attribute")
    parser.add_argument(
        "--by",
        action="append",
        default=[],
        metavar="NAME",
        help="show one row per value of this attribute; can be repeated",
    )
    parser.add_argument(
        "--unit",
        choices=("ns", "us", "ms", "s"),
        default="ms",
        help="unit of times in the table (default: %(default)s)",
    )


def _add_json(parser: argparse.ArgumentParser, schema: str) -> None:
    parser.add_argument(
        "--json",
        action="store_true",
        help=f"print one JSON document ({schema}) instead of the table",
    )


def _run(arguments: argparse.Namespace) -> int:
    chosen: Callable[[argparse.Namespace], int] | None = arguments.histogram
    if chosen is None:
        raise ConfigError(
            "no command given: use show, diff or merge", hint="latspan histogram --help"
        )
    return chosen(arguments)


def _show(arguments: argparse.Namespace) -> int:
    from latspan._study.render.histogram_json import histogram_show_document
    from latspan._study.render.histogram_rows import refuse_absent_values

    # A missing package is reported before long files are read, not after it.
    show = _print_json if arguments.json else _printer()
    totals, rows = _read(arguments, arguments.files)
    if not rows:
        refuse_absent_values([totals], selected(arguments.where))
    if arguments.json:
        show(histogram_show_document(totals, rows, by=arguments.by))
        return 0
    from latspan._study.render.histogram_tables import HistogramsTable

    by = tuple(arguments.by)
    show(
        HistogramsTable(
            totals,
            rows,
            by,
            unit=arguments.unit,
            spectrum=arguments.spectrum,
            fold=not arguments.all and arguments.metric is None,
        )
    )
    return 0


def _diff(arguments: argparse.Namespace) -> int:
    from latspan._study.render.histogram_json import histogram_diff_document
    from latspan._study.render.histogram_rows import refuse_absent_values

    show = _print_json if arguments.json else _printer()
    before, after = (_read(arguments, [path]) for path in (arguments.before, arguments.after))
    if not (before[1] or after[1]):
        refuse_absent_values([before[0], after[0]], selected(arguments.where))
    if arguments.json:
        show(histogram_diff_document(before, after, by=arguments.by))
        return 0
    from latspan._study.render.histogram_tables import HistogramDiffTable

    show(HistogramDiffTable(before, after, tuple(arguments.by), unit=arguments.unit))
    return 0


def _read(
    arguments: argparse.Namespace, files: Sequence[str]
) -> tuple[LogTotals, list[HistogramRow]]:
    """Return the merged contents of the files, and the requested rows."""
    from latspan._study.render.histogram_rows import rows_of
    from latspan.cli._histogram_files import totals_of

    totals = totals_of(files)
    where = selected(arguments.where)
    return totals, rows_of(totals, metric=arguments.metric, where=where, by=arguments.by)


def _merge(arguments: argparse.Namespace) -> int:
    from latspan.cli._replacing import replacing
    from latspan.histogram import HistogramLogWriter

    # The output may be one of the input files.
    with replacing(arguments.output) as path, HistogramLogWriter(path) as writer:
        number = (_write_each if arguments.intervals else _write_one)(writer, arguments.files)
    print_message(f"{arguments.output}: {number}")
    return 0


def _write_one(writer: HistogramLogWriter, files: Sequence[str]) -> str:
    from latspan.cli._histogram_files import totals_of

    totals = totals_of(files)
    _write(writer, totals)
    return f"{len(totals.series):,} series of {totals.intervals:,} intervals as one"


def _write_each(writer: HistogramLogWriter, files: Sequence[str]) -> str:
    from latspan.cli._histogram_files import Logs
    from latspan.histogram import LogTotals

    logs = Logs(files)
    number = 0

    def start(interval: LoggedInterval) -> int:
        return interval.start_epoch_ns

    for interval in logs.read(iter(heapq.merge(*logs.each(), key=start))):
        # A log of another program may repeat a tag within one interval.
        by_tag = LogTotals()
        by_tag.add(interval)
        _write(writer, by_tag)
        number += 1
    return f"{number:,} intervals"


def _write(writer: HistogramLogWriter, totals: LogTotals) -> None:
    writer.write(
        totals.start_epoch_ns,
        totals.end_epoch_ns,
        {tag: each.histogram for tag, each in totals.series.items()},
        precisions={tag: each.precision for tag, each in totals.series.items()},
    )


def _printer() -> Callable[[object], None]:
    """Return the function that prints a table; raise now if its package is missing."""
    from latspan.reports._extra import needs_study

    with needs_study():
        from rich.console import Console

    def show(table: object) -> None:
        with output() as out:
            Console(highlight=False, file=out).print(table, crop=False)

    return show


def _print_json(document: object) -> None:
    with output() as out:
        print(json.dumps(document, indent=2, allow_nan=False), file=out)


COMMAND: Final = Command(
    name="histogram",
    summary="read, compare and merge log files of histograms",
    description=_DESCRIPTION,
    examples=_EXAMPLES,
    add_arguments=_add_arguments,
    run=_run,
)
