"""``latspan document``: writes up a pass of the loop from the results of its tasks."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from latspan._study.answer import ExitCode
from latspan.cli._command import Command
from latspan.cli._console import output, print_message
from latspan.cli._results import named_path
from latspan.errors import ConfigError, RecordingError
from latspan.reports._extra import needs_study

if TYPE_CHECKING:
    from latspan._study.loop import Loop

_DESCRIPTION: Final = """\
Writes up what was measured, found, changed and decided for an inference path,
from NAME.toml and the results that measure, diagnose and verify have kept:

  write-up.md      intake, before and after with intervals, trade-off, decision
  runbook.md       commands, where to look, decision rules, rollback
  guide.md         one page for readers who do not know the inference path
  pull-request.md  the description of the change

Nothing is invented: an unknown value is marked as missing, with the command
that provides it. Running the command again replaces the pages, except those
that you have edited. Delete an edited page to have it written again.

Exit codes: 0 complete; 2 usage; 3 written, but something is missing; 4 a result
cannot be read."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="inference path (NAME of NAME.toml)")
    parser.add_argument(
        "-o",
        "--output",
        metavar="FOLDER",
        help="folder of the pages (default: write-ups/NAME, next to NAME.toml)",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="also print one JSON document (latspan.write_up/1) with all results",
    )


def _run(arguments: argparse.Namespace) -> int:
    with needs_study():
        from latspan._study.loop import Task, loop_of
        from latspan._study.render.pages import write_pages
        from latspan._study.render.write_up import missing_of
        from latspan._study.render.write_up_json import write_up_document

    named = named_path(arguments.name, arguments)
    if named is None:
        raise ConfigError(
            f"'{arguments.name}' is not an inference path", hint="latspan status lists them"
        )
    loop = loop_of(named.file)
    folder = named.file.parent / "write-ups" / named.file.stem
    with _readable(loop):
        files, kept = write_pages(
            loop,
            folder if arguments.output is None else Path(arguments.output),
            datetime.now(UTC).date(),
        )
        missing = missing_of(loop)
        relative = [
            [os.path.relpath(each, named.file.parent) for each in group] for group in (files, kept)
        ]
        document = write_up_document(loop, *relative)
    exit_code = ExitCode.INCONCLUSIVE if missing else 0
    if arguments.json:
        with output() as out:
            print(json.dumps(document, indent=2, allow_nan=False), file=out)
    for file in files:
        print_message(f"wrote {file}")
    for file in kept:
        print_message(f"kept {file}: it was edited; delete it to have it written again")
    for what, command in missing:
        print_message(f"missing: {what}; {command}")
    result = {**document, "baseline": None, "diagnosis": None, "verification": None}
    named.keep(Task.DOCUMENT, result, exit_code=exit_code)
    return exit_code


@contextmanager
def _readable(loop: Loop) -> Generator[None]:
    """Raise a :class:`RecordingError` if a kept result lacks a field or has one of another type."""
    try:
        yield
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        used = (loop.baseline, loop.diagnosis, loop.verification, loop.latest)
        names = ", ".join(dict.fromkeys(each.file.name for each in used if each is not None))
        raise RecordingError(
            f"a result of {loop.name} is damaged: a field is missing or has another type"
            f" ({type(error).__name__}: {error})",
            hint=f"delete the damaged one of {names}, and run its command again",
        ) from error


COMMAND: Final = Command(
    name="document",
    summary="write up one verified change: before and after, decision record, runbook",
    description=_DESCRIPTION,
    examples=(
        ("latspan document chat", "write write-ups/chat from chat.toml and results/chat"),
        ("latspan document chat --output docs/latency/chat", "another folder"),
        ("latspan document chat --json | jq .conclusion", "for a script"),
    ),
    add_arguments=_add_arguments,
    run=_run,
)
