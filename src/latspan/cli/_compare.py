"""``latspan compare``: judges whether a system became faster, and which segment explains it."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from latspan.cli._command import Command
from latspan.cli._console import print_message
from latspan.cli._judging import (
    FIRST_TARGET,
    add_forms,
    add_goal,
    add_margin,
    print_result,
    require_study,
)
from latspan.cli._progress import reading
from latspan.cli._where import add_by, add_where, selected
from latspan.errors import ConfigError

if TYPE_CHECKING:
    from latspan._study.compare import Comparison, Run

_DESCRIPTION: Final = """\
Compares two sides, each of which is a recording, a folder of recordings (one
per run), a folder of histogram logs (.hlog) of the processes of one run, or a
baseline file (.json).

Two runs of the same system differ by chance, so one recording per side is
described and never judged. With three or more runs in all (five per side are
better), the conclusion is one of four: a percentile improved, it is no worse,
it is worse, or the difference may be chance. The runs are compared by Welch's
test. Other percentiles and the segments are tested too, to show what the change
made worse (guards); their p-values are adjusted by Holm's method. "No worse"
means, with confidence: a percentile below p90 is at most 10 % higher, any other
at most 20 %.

Differences other than the change are listed first: prompts, load, model,
parameters, cache, length of the answers, machine. If one of them can explain
the result, the comparison is not interpretable, unless --changed names it.

Exit codes: 0 improved or no worse; 1 worse; 2 usage; 3 inconclusive, more runs
are needed; 4 not interpretable, or a file cannot be read."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("before", metavar="BEFORE", help="recordings before the change")
    parser.add_argument("after", metavar="AFTER", nargs="?", help="recordings after the change")
    add_goal(parser, FIRST_TARGET)
    add_margin(parser)
    add_where(parser, "compare only requests with this attribute, for example route=/chat")
    parser.add_argument(
        "--changed",
        action="append",
        default=[],
        metavar="NAME",
        help="condition that was changed, as the comparison lists it, for example model; can be"
        " repeated, but then the effect cannot be attributed",
    )
    add_by(parser, "compare")
    parser.add_argument(
        "--step", type=int, metavar="N", help="step of load tests, from 0 (default: the last)"
    )
    parser.add_argument(
        "--save-baseline",
        metavar="FILE",
        help="write the runs of the last side to a baseline file (.json); without AFTER, nothing is"
        " compared",
    )
    parser.add_argument(
        "--junit", metavar="FILE", help="also write the result as JUnit XML for a CI system"
    )
    add_forms(parser, "latspan.comparison/1", markdown=" for a pull request or a CI summary")


def _run(arguments: argparse.Namespace) -> int:
    require_study()

    from latspan._study.compare import (
        check_baseline_name,
        compare,
        compare_by,
        question,
        runs_in,
        where_of,
    )
    from latspan._study.table import wanted_attributes

    if arguments.save_baseline is not None:
        check_baseline_name(arguments.save_baseline)
    where = selected(arguments.where)
    wanted = wanted_attributes(where, arguments.by)
    with reading():
        before = runs_in(arguments.before, step=arguments.step, where=wanted)
    before = [where_of(run, where) for run in before]
    if arguments.after is None:
        if arguments.save_baseline is None:
            raise ConfigError(
                "AFTER is missing", hint="latspan compare BEFORE AFTER, or --save-baseline FILE"
            )
        _save(before, arguments.save_baseline)
        return 0
    if os.path.realpath(arguments.before) == os.path.realpath(arguments.after):
        raise ConfigError("BEFORE and AFTER are the same", hint="record again after the change")
    with reading():
        after = runs_in(arguments.after, step=arguments.step, where=wanted)
    after = [where_of(run, where) for run in after]
    asked = question(
        arguments.goal,
        before,
        after,
        limit_ms=arguments.limit_ms,
        margin=arguments.margin,
    )
    found = compare(before, after, asked, accept=arguments.changed)
    groups: list[Comparison] = []
    if arguments.by is not None:
        groups, notes = compare_by(before, after, asked, arguments.by, accept=arguments.changed)
        found = replace(found, notes=(*found.notes, *notes))
    _print(found, groups, arguments)
    if arguments.save_baseline is not None:
        _save(after, arguments.save_baseline)
    return found.judgement.exit_code


def _save(runs: Sequence[Run], file: str) -> None:
    from latspan._study.compare import baseline_document
    from latspan.cli._replacing import replacing

    with replacing(file) as path:
        text = json.dumps(baseline_document(runs), indent=1, allow_nan=False)
        Path(path).write_text(text + "\n", "utf-8")
    print_message(f"{file}: baseline of {len(runs):,} run{'' if len(runs) == 1 else 's'}")
    if len(runs) == 1:
        print_message("hint: a baseline of five runs shows how much runs differ by themselves")


def _print(found: Comparison, groups: Sequence[Comparison], arguments: argparse.Namespace) -> None:
    from rich.console import RenderableType

    from latspan._study.render.comparison import ComparisonReport
    from latspan._study.render.comparison_json import (
        comparison_document,
        comparison_junit,
        comparison_markdown,
    )
    from latspan.cli._replacing import replacing

    if arguments.junit is not None:
        with replacing(arguments.junit) as path:
            Path(path).write_text(comparison_junit(found, groups), "utf-8")

    def report() -> list[RenderableType]:
        return [ComparisonReport(each) for each in (found, *groups)]

    print_result(
        arguments,
        document=lambda: comparison_document(found, groups),
        report=report,
        markdown=lambda: comparison_markdown(found, groups),
    )
    if not found.makes_claim:
        print_message(
            "hint: put five recordings of each side into a folder, and compare the folders"
        )


COMMAND: Final = Command(
    name="compare",
    summary="judge whether a system became faster, and which segment explains it",
    description=_DESCRIPTION,
    examples=(
        ("latspan compare before after", "two recordings, or two folders with one per run"),
        (
            "latspan compare before after --goal 'p95 ttft <= 500ms'",
            "judge the time to the first token, and its target",
        ),
        ("latspan compare before after --changed model", "the change is another model"),
        ("latspan compare before after --by route", "also compare each route"),
        ("latspan compare --save-baseline latency.json before", "keep the runs in a repository"),
        (
            "latspan compare latency.json after --markdown --junit latency.xml",
            "a gate: exit code 1 if it is worse",
        ),
    ),
    add_arguments=_add_arguments,
    run=_run,
)
