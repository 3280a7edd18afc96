"""``latspan report``: shows where the requests of a recording spent their time."""

from __future__ import annotations

import argparse
import json
from typing import Final

from latspan._metrics import DEFAULT_EXPECTATIONS
from latspan.cli._command import Command
from latspan.cli._console import output, print_message

__all__ = ["COMMAND"]

_DESCRIPTION: Final = """\
Shows where the requests of a recording spent their time, as latspan run
--report does for a program: the median and the slowest request with all their
segments, tables of segments and metrics, and a sentence on the slowest tenth.

A recording is a folder that latspan run --record, latspan measure or the
setting record_dir wrote. Percentiles are computed from all requests. If the
recording is large, the waterfalls and the last sentence use a random sample of
5,000 requests, and the slowest one."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("recording", metavar="RECORDING", help="folder of the recording")
    parser.add_argument(
        "--json",
        action="store_true",
        help="print one JSON document (latspan.demo/1) instead of the tables",
    )


def _run(arguments: argparse.Namespace) -> int:
    from latspan._recording.folder import open_recording

    recording = open_recording(arguments.recording)
    if arguments.json:
        from latspan.reports._json import demo_document

        snapshot = recording.snapshot()
        with output() as out:
            print(json.dumps(demo_document(snapshot), indent=2, allow_nan=False), file=out)
        for note in recording.notes:
            print_message(note)
        return 0
    from rich.console import Console

    from latspan._report import report_of_recording

    report = report_of_recording(recording, DEFAULT_EXPECTATIONS)
    with output() as out:
        Console(highlight=False, file=out).print(report, crop=False)
    return 0


COMMAND: Final = Command(
    name="report",
    summary="show where the requests of a recording spent their time",
    description=_DESCRIPTION,
    examples=(
        ("latspan run --record monday -- python app.py", "make a recording"),
        ("latspan report monday", "show it"),
        ("latspan report monday --json | jq .summary", "the same for a script"),
    ),
    add_arguments=_add_arguments,
    run=_run,
)
