"""``latspan status``: where each inference path stands, and the next command."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Final

from latspan._study.answer import ExitCode
from latspan.cli._command import Command
from latspan.cli._console import output
from latspan.reports._extra import needs_study

_DESCRIPTION: Final = """\
Shows where each inference path of a folder stands in the loop:

  target      latspan init NAME, then edit NAME.toml
  instrument  latspan measure shows whether segments cover the time
  measure     latspan measure NAME
  diagnose    latspan diagnose NAME
  change      describe one change in the table [change] of NAME.toml
  verify      latspan verify NAME
  document    latspan document NAME
  watch       latspan sweep, on a schedule

A task is stale if the endpoint, the model, the target, the load, the prompts or
the prompt template changed after it, or if it belongs to an earlier pass (a
pass is one diagnosis, one change, one verification and one write-up). Each path
is shown with its definition of done and one next command. In an empty folder,
the next command is latspan init.

The results are in results/NAME, next to NAME.toml. Commit them to your
repository, so that all its users see the same status.

Exit codes: 0 everything was read; 2 the folder cannot be read; 4 a file in it
cannot be read."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folder",
        metavar="FOLDER",
        nargs="?",
        default=".",
        help="folder of the files that latspan init wrote (default: the current one)",
    )
    parser.add_argument(
        "--json", action="store_true", help="print one JSON document (latspan.status/1)"
    )


def _run(arguments: argparse.Namespace) -> int:
    with needs_study():
        from rich.console import Console

        from latspan._study.loop import loops_in
        from latspan._study.render.status import StatusReport
        from latspan._study.render.status_json import status_document

    folder = Path(arguments.folder)
    paths = loops_in(folder)
    with output() as out:
        if arguments.json:
            document = status_document(folder, paths)
            print(json.dumps(document, indent=2, allow_nan=False), file=out)
        else:
            Console(highlight=False, file=out).print(StatusReport(folder, paths), crop=False)
    return ExitCode.NOT_INTERPRETABLE if any(each.error is not None for each in paths) else 0


COMMAND: Final = Command(
    name="status",
    summary="show where each inference path stands, and the next command",
    description=_DESCRIPTION,
    examples=(
        ("latspan status", "the inference paths of this folder"),
        ("latspan status --json | jq -r .next.command", "only the next command"),
    ),
    add_arguments=_add_arguments,
    run=_run,
)
