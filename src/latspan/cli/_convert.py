"""``latspan convert``: traces and other tools' results as a recording, or as a table."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from latspan._base.shown import location
from latspan._model.text import count
from latspan.cli._command import Command
from latspan.cli._console import print_message
from latspan.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from latspan._model.recording import RequestRecord

_DESCRIPTION: Final = """\
Converts a file of another program into a recording, which latspan report,
latspan scorecard and Python can read:

  OTLP/JSON    traces that the Collector's file exporter wrote, one message per
               line: latspan's spans, and inference spans of the GenAI
               conventions
  guidellm     its report in JSON

Data that the file does not have is listed in recording.json, and every command
that reads the recording shows the list. Prompts and responses are not
converted.

With --to parquet, OUT is a Parquet file with one row per request, call and
stage. IN can then be a recording too."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("input", metavar="IN", help="file of traces or results, or a recording")
    parser.add_argument("output", metavar="OUT", help="folder of the new recording, or the file")
    parser.add_argument(
        "--to",
        choices=("recording", "parquet"),
        default="recording",
        help="format of OUT (default: %(default)s)",
    )


def _run(arguments: argparse.Namespace) -> int:
    try:
        if arguments.to == "parquet":
            return _write_table(arguments.input, arguments.output)
        return _write_recording(arguments.input, arguments.output)
    except OSError as error:
        raise ConfigError(
            f"cannot convert {_shown(error, arguments.input)}: {error.strerror or error}",
            hint="use the path of an existing file, and an output that can be written",
        ) from error


def _shown(error: OSError, path: str) -> str:
    return location(path if "://" in path else str(error.filename or path))


def _write_recording(path: str, folder: str) -> int:
    from latspan._model.recording.folder import is_recording
    from latspan._study.traces import convert

    if is_recording(path):
        raise ConfigError(
            f"{path} is a recording already", hint="use --to parquet to write a table"
        )
    imported = convert(path, folder)
    print_message(f"{folder}: {count(len(imported.records), 'record')} from {imported.format}")
    for lack in imported.lacks:
        print_message(f"lacks: {lack}")
    for note in imported.skipped:
        print_message(f"skipped: {note}")
    for sentence in imported.left_out:
        print_message(f"missing: {sentence}")
    return 0


def _write_table(path: str, file: str) -> int:
    from latspan._model.recording.folder import is_recording, open_recording
    from latspan._study.traces import read_any, require_parquet, write_parquet
    from latspan.cli._replacing import replacing

    # A missing package is reported before a long file is read.
    require_parquet()
    records: Iterable[RequestRecord]
    left_out: tuple[str, ...] = ()
    if is_recording(path):
        records = open_recording(path).records()
    else:
        imported = read_any(path)
        records, left_out = imported.records, imported.left_out
    with replacing(file) as written:
        rows = write_parquet(records, written)
    print_message(f"{file}: {count(rows, 'record')}")
    for sentence in left_out:
        print_message(f"missing: {sentence}")
    return 0


COMMAND: Final = Command(
    name="convert",
    summary="convert traces and other tools' results into a recording",
    description=_DESCRIPTION,
    examples=(
        ("latspan convert traces.jsonl monday", "make a recording of a Collector's file"),
        ("latspan convert guidellm.json rival", "make a recording of guidellm's report"),
        ("latspan convert monday monday.parquet --to parquet", "write a table for a notebook"),
    ),
    add_arguments=_add_arguments,
    run=_run,
)
