"""``latspan verify``: runs the same test before and after one change, and judges it."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from latspan._base.shown import foreign
from latspan.cli._command import Command
from latspan.cli._console import on_terminal, output, print_message
from latspan.cli._judging import (
    FIRST_TARGET,
    add_forms,
    add_goal,
    add_margin,
    print_result,
    require_study,
)
from latspan.cli._results import NamedPath, known_paths, named_path
from latspan.errors import ConfigError

if TYPE_CHECKING:
    from latspan._study.compare import Run
    from latspan._study.loop import QualityCommand
    from latspan._study.verify import Quality, Verification

_MIN_RUNS: Final = 2
_USUAL_RUNS: Final = 5
_SIDES: Final = ("before", "after")

_DESCRIPTION: Final = """\
Measures a system before and after one change, with the same test, and reports
whether the change improved the goal and hurt nothing else.

The runs alternate (before, after, after, before, ...), so that slow changes of
the system affect both sides. --before-command and --after-command switch the
system. If options of latspan measure make the change, pass them with
--after-options. With --order aba, the change is made and undone only once, for
a slow deployment: half of the runs without it are measured before, and the
other half after it is undone. The two halves show whether the system drifted.

If the lever and the commands or options are not given, they are read from the
table [change] of NAME.toml.

--recorded judges recordings that exist. --lever names the change: only the
conditions that belong to it may differ. If the lever is a setting of the client
(such as the model or the prompts) and no commands switch the system, at least
one of the conditions that belong to it must differ. If two levers change at
once, the effect is measured, but cannot be attributed.

The command of --quality-command, or [quality] command in NAME.toml, checks the
quality once per side. With an evaluation set (--items, or [quality] items), the
command must write the answers to a file; latspan replaces {answers} in the
command with the path of that file, and compares the answers of both sides.
Without an evaluation set, exit code 0 of the command means good enough, and 1
means not. --answers compares files that exist. If the quality drops, the change
fails, however fast it is. With too few items, the result is inconclusive.

Exit codes: 0 improved or no worse; 1 worse; 2 usage; 3 inconclusive; 4 not
interpretable, or a file cannot be read. The exit code does not depend on the
target; the report states whether the target is met."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what",
        metavar="NAME",
        nargs="?",
        help="inference path, address of an API or module:function, as for latspan measure",
    )
    parser.add_argument(
        "--lever",
        action="append",
        default=[],
        metavar="LEVER",
        help="the one thing that was changed; --levers lists them",
    )
    parser.add_argument("--levers", action="store_true", help="list the levers and exit")
    runs = parser.add_argument_group("runs")
    runs.add_argument(
        "--recorded",
        nargs=2,
        metavar=("BEFORE", "AFTER"),
        help="recordings that exist, as for latspan compare",
    )
    runs.add_argument(
        "--runs", type=int, metavar="K", help=f"runs per side (default: {_USUAL_RUNS})"
    )
    runs.add_argument(
        "--order",
        choices=("abba", "aba"),
        default="abba",
        help="order of the runs; aba for a slow deployment (default: %(default)s)",
    )
    runs.add_argument(
        "--before-command", default="", metavar="CMD", help="command that undoes the change"
    )
    runs.add_argument(
        "--after-command",
        default="",
        metavar="CMD",
        help="command of the shell that makes the change",
    )
    runs.add_argument(
        "--options", default="", metavar="OPTIONS", help="options of latspan measure on both sides"
    )
    runs.add_argument(
        "--after-options",
        default="",
        metavar="OPTIONS",
        help="options of latspan measure that make the change: '--model small'",
    )
    runs.add_argument(
        "-o",
        "--output",
        metavar="FOLDER",
        help="folder of the recordings (default: verifications/NAME-TIME)",
    )
    judged = parser.add_argument_group("judgement")
    add_goal(judged, f"the target of the inference path, or {FIRST_TARGET}")
    add_margin(judged)
    judged.add_argument("--items", metavar="FILE", help="JSONL file of the evaluation set")
    judged.add_argument(
        "--answers",
        nargs=2,
        metavar=("BEFORE", "AFTER"),
        help="JSONL files of the answers of both sides, with id and answer",
    )
    judged.add_argument(
        "--quality-command",
        metavar="CMD",
        help="command that checks the quality, run once per side; {side} in it becomes before or"
        " after; '' for no check",
    )
    judged.add_argument(
        "--quality-margin",
        type=float,
        default=0.05,
        metavar="DROP",
        help="largest drop of the mean score that is accepted (default: %(default)s)",
    )
    add_forms(parser, "latspan.verification/1", markdown=" for a pull request or a CI summary")


def _run(arguments: argparse.Namespace) -> int:
    require_study()

    from latspan._study.compare import question, runs_in
    from latspan._study.loop import INVALID_RUNS, Task
    from latspan._study.render.verification_json import verification_document
    from latspan._study.verify import LEVERS, lever_named, verify

    if arguments.levers:
        with output() as out:
            for lever in LEVERS.values():
                line = f"{lever.name:22}{lever.summary}; may worsen {lever.may_hurt}"
                print("\n".join(on_terminal(line, out, hanging=22)), file=out)
        return 0
    if arguments.what is None and arguments.recorded is None:
        raise ConfigError(
            "what to measure is missing",
            hint=f"latspan verify NAME, or --recorded BEFORE AFTER; {known_paths()}",
        )
    named = None if arguments.what is None else named_path(arguments.what, arguments)
    if named is not None:
        _complete(arguments, named)
    if arguments.runs is None:
        arguments.runs = _USUAL_RUNS
    levers = [lever_named(name) for name in arguments.lever]
    if not levers:
        raise ConfigError(
            "--lever is missing: what is changed?", hint="latspan verify --levers lists them"
        )
    folder, checked = _prepared(arguments, "" if named is None else f"{named.file.stem}-")
    # Files that exist are read first, because a mistake in them is reported before the load.
    quality = _quality(arguments)
    folders = _folders(arguments, folder, checked)
    if checked is not None:
        quality = checked.result()
    before, after = (runs_in(folder) for folder in folders)
    if named is not None:
        _refuse_others([*before, *after], named)
    asked = question(
        arguments.goal,
        before,
        after,
        limit_ms=arguments.limit_ms,
        margin=arguments.margin,
    )
    measured = arguments.recorded is None
    found = verify(
        before,
        after,
        asked,
        levers,
        quality=quality,
        is_switched=bool(arguments.after_command),
        repeated=len(list((folder / INVALID_RUNS).glob("*"))) if measured else 0,
        returned=arguments.runs // 2 if measured and arguments.order == "aba" else 0,
    )
    _print(found, arguments)
    exit_code = found.judgement.exit_code
    if named is not None:
        document = verification_document(found)
        named.keep(Task.VERIFY, document, exit_code=exit_code, recordings=folders)
    return exit_code


def _complete(arguments: argparse.Namespace, named: NamedPath) -> None:
    """Take the arguments that are not given from the file of an inference path."""
    from latspan._model.goals import requested_goal

    change, quality = named.path.change, named.path.quality
    if arguments.runs is None:
        arguments.runs = change.runs
    if not arguments.lever and change.lever:
        arguments.lever = [change.lever]
    if not (arguments.after_options or arguments.after_command or arguments.before_command):
        arguments.after_options = change.options
        arguments.before_command = change.undo
        arguments.after_command = change.apply
    if arguments.quality_command is None and arguments.answers is None:
        arguments.quality_command = quality.command
    if arguments.items is None and arguments.answers is None and quality.items:
        answers = [quality.before, quality.after]
        # Answers that do not exist yet are written by the command, or compared later, with
        # --recorded.
        exist = all(map(os.path.exists, [quality.items, *answers]))
        if arguments.quality_command and arguments.recorded is None:
            arguments.items = quality.items
            arguments.answers = answers if all(answers) else None
        elif all(answers) and (exist or arguments.recorded is not None):
            arguments.items, arguments.answers = quality.items, answers
    first = named.open_target
    arguments.goal = requested_goal(
        arguments.goal,
        limit_ms=arguments.limit_ms,
        targets=(first, *named.path.targets),
        default=str(first),
    )


def _refuse_others(runs: Sequence[Run], named: NamedPath) -> None:
    """Refuse recordings of another system, whose result would be kept as that of the file."""
    from latspan._load import Endpoint

    described = named.path.endpoint
    if "://" in described:
        described = Endpoint.from_url(described).shown
    for run in runs:
        measured = run.conditions.get("measured")
        if described and measured is not None and measured != described:
            raise ConfigError(
                f"{run.name} is of {foreign(str(measured))}, and {named.file.name} has the endpoint"
                f" {described}",
                hint="judge it without a name: latspan verify --recorded BEFORE AFTER",
            )


def _quality(arguments: argparse.Namespace) -> Quality | None:
    """Return the comparison of the answers; ``None`` if they do not exist, or not yet."""
    from latspan._study.verify import check_items, compare_quality

    if arguments.quality_command and arguments.recorded is None:
        if arguments.items is not None:
            check_items(Path(arguments.items), margin=arguments.quality_margin)
        return None
    if arguments.quality_command:
        print_message(
            "the check of the quality is not run: it needs the system in the state of each side,"
            " but --recorded does not switch the system"
        )
    if (arguments.items is None) != (arguments.answers is None):
        raise ConfigError(
            "--items and --answers belong together",
            hint="--items FILE --answers BEFORE AFTER",
        )
    if arguments.items is None:
        return None
    before, after = map(Path, arguments.answers)
    return compare_quality(Path(arguments.items), before, after, margin=arguments.quality_margin)


def _prepared(arguments: argparse.Namespace, prefix: str) -> tuple[Path, QualityCommand | None]:
    """
    Return the folder of the recordings, and the command that checks the quality of both sides.

    Args:
        arguments: The command line.
        prefix: Beginning of the name of the folder.
    """
    from latspan._study.loop import QualityCommand

    now = datetime.now().astimezone()
    folder = Path(arguments.output or f"verifications/{prefix}{now:%Y%m%d-%H%M%S-%f}")
    if not arguments.quality_command or arguments.recorded is not None:
        return folder, None
    answers = arguments.answers or [folder / f"answers-{side}.jsonl" for side in _SIDES]
    return folder, QualityCommand(
        command=arguments.quality_command,
        items=None if arguments.items is None else Path(arguments.items),
        answers=dict(zip(_SIDES, map(Path, answers), strict=True)),
        margin=arguments.quality_margin,
        report=print_message,
    )


def _folders(
    arguments: argparse.Namespace, folder: Path, quality: QualityCommand | None
) -> tuple[Path, Path]:
    """
    Return the folders of both sides, after the measurements if there are to be some.

    Args:
        arguments: The command line.
        folder: Folder of the recordings.
        quality: Check of the quality of both sides.
    """
    from latspan._study.loop import Order, Plan, measure_both

    if arguments.recorded is not None:
        before, after = map(Path, arguments.recorded)
        if before.resolve() == after.resolve():
            raise ConfigError("BEFORE and AFTER are the same", hint="record after the change")
        return before, after
    if not (arguments.after_command or arguments.after_options):
        raise ConfigError(
            "nothing would be changed between the runs",
            hint="--after-command and --before-command switch the system, --after-options the"
            " measurement; the table [change] of an inference path has all three",
        )
    if arguments.after_command and not arguments.before_command:
        raise ConfigError(
            "--before-command is missing: the change must be undone between the runs",
            hint="for a change that cannot be undone, measure yourself and use --recorded",
        )
    if arguments.runs < _MIN_RUNS:
        raise ConfigError(
            f"--runs {arguments.runs} is too few",
            hint=f"use {_MIN_RUNS} or more; {_USUAL_RUNS} are usual",
        )
    plan = Plan(
        what=arguments.what,
        folder=folder,
        runs=arguments.runs,
        order=Order(arguments.order),
        options=_split(arguments.options),
        after_options=_split(arguments.after_options),
        before_command=arguments.before_command,
        after_command=arguments.after_command,
        quality=quality,
    )
    sides = measure_both(plan, print_message, shows_progress=not arguments.json)
    print_message(f"recordings: {folder}")
    return sides


def _split(text: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise ConfigError(f"options '{text}': {error}", hint="close every quote") from error


def _print(found: Verification, arguments: argparse.Namespace) -> None:
    from latspan._study.render.verification import VerificationReport
    from latspan._study.render.verification_json import (
        verification_document,
        verification_markdown,
    )

    print_result(
        arguments,
        document=lambda: verification_document(found),
        report=lambda: [VerificationReport(found)],
        markdown=lambda: verification_markdown(found),
    )


COMMAND: Final = Command(
    name="verify",
    summary="run the same test before and after one change, and judge the change",
    description=_DESCRIPTION,
    examples=(
        ("latspan verify chat", "the change that the table [change] of chat.toml describes"),
        (
            "latspan verify chat --lever model --after-options '--model small'",
            "another model: ten measurements in turn",
        ),
        (
            "latspan verify --lever prefix-cache --recorded before after --goal 'p95 ttft'",
            "judge recordings that exist",
        ),
        (
            "latspan verify chat --lever pool --before-command './a' --after-command './b'",
            "commands that switch the server",
        ),
        ("latspan verify --levers", "list what can be changed, and what each change may worsen"),
    ),
    add_arguments=_add_arguments,
    run=_run,
)
