"""``latspan report``: shows where the requests of a recording spent their time."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from latspan._model.metrics import DEFAULT_EXPECTATIONS
from latspan.cli._command import Command
from latspan.cli._console import output, print_message
from latspan.cli._judging import require_study
from latspan.cli._progress import reading
from latspan.cli._where import add_by, add_where, selected

if TYPE_CHECKING:
    from latspan._model.recording.folder import Recording

_DESCRIPTION: Final = """\
Shows where the requests of a recording spent their time, as latspan run
--report does for a program: the median and the slowest request with all their
segments, tables of segments and metrics, and the one delay to fix.

A recording is a folder that latspan run --record, latspan measure or the
setting record_dir wrote. Percentiles are computed from all requests. If the
recording is large, the waterfalls use a random sample of 5,000 requests, and
the slowest one.

With --where NAME=VALUE, the report is on the requests that have an attribute,
with the calls and stages inside them. With --by NAME, one report for each value
of an attribute follows, the value with the most requests first. An attribute is
a route, model, tenant or inference path, a response header, or one that
latspan.attributes() or latspan.annotate() set."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("recording", metavar="RECORDING", help="folder of the recording")
    add_where(parser, "show only requests with this attribute, for example tenant=acme")
    add_by(parser, "show")
    parser.add_argument(
        "--json",
        action="store_true",
        help="print one JSON document (latspan.demo/1) instead of the tables",
    )


def _run(arguments: argparse.Namespace) -> int:
    from latspan._model.recording.folder import open_recording

    recording = open_recording(arguments.recording)
    where, by = selected(arguments.where), arguments.by
    if arguments.json:
        _print_document(recording, where, by)
        return 0
    from rich.console import Console

    from latspan.reports._process import report_of_recording, reports_of_parts

    if where or by is not None:
        with reading():
            reports = reports_of_parts(recording, DEFAULT_EXPECTATIONS, where, by)
    else:
        reports = [report_of_recording(recording, DEFAULT_EXPECTATIONS)]
    with output() as out:
        console = Console(highlight=False, file=out)
        for number, report in enumerate(reports):
            if number:
                console.print()
            console.print(report, crop=False)
    return 0


def _print_document(recording: Recording, where: Mapping[str, str], by: str | None) -> None:
    from latspan._study.render.report_json import demo_document

    notes: Sequence[str] = ()
    if where or by is not None:
        require_study()
        from latspan._study.table import PartsReader

        with reading():
            reader = PartsReader(recording, where, by)
            reader.read()
        document = demo_document(reader.snapshot(), by, reader.parts())
        notes = reader.division.notes
    else:
        document = demo_document(recording.snapshot())
    with output() as out:
        print(json.dumps(document, indent=2, allow_nan=False), file=out)
    for note in (*recording.notes, *notes):
        print_message(note)


COMMAND: Final = Command(
    name="report",
    summary="show where the requests of a recording spent their time",
    description=_DESCRIPTION,
    examples=(
        ("latspan run --record monday -- python app.py", "make a recording"),
        ("latspan report monday", "show it"),
        ("latspan report monday --where tenant=acme", "show only the requests of a tenant"),
        ("latspan report monday --by route", "also show the requests of each route"),
        ("latspan report monday --json | jq .summary", "the same for a script"),
    ),
    add_arguments=_add_arguments,
    run=_run,
)
