"""``latspan compare``: is it faster, or is it chance; and which segment explains it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from latspan.cli._command import Command
from latspan.cli._console import output, print_message
from latspan.cli._exit_codes import INCONCLUSIVE, MISSED, NOT_INTERPRETABLE
from latspan.errors import ConfigError
from latspan.reports._extra import needs_study

if TYPE_CHECKING:
    from latspan._study.compare import Comparison, Judgement, Run

__all__ = ["COMMAND", "exit_code_of"]


_DESCRIPTION: Final = """\
Compares two sides, each of which is a recording, a folder of recordings (one
per run), a folder of histogram logs (.hlog) of the processes of one run, or a
baseline file (.json).

Two runs of one system differ by themselves, so one recording per side is
described and never judged. From three runs in all, and better five per side, a
percentile has improved, is no worse, is worse, or could be chance (Welch's test
on the runs; other percentiles and segments are guards, with Holm's adjustment).
"No worse" means: at most 10 % higher below p90, and 20 % above, with
confidence.

What differs besides the change is listed first: prompts, load, model,
parameters, cache, length of the answers, machine. If it can explain a change,
the comparison is not interpretable, unless --changed names it.

Exit codes: 0 improved or no worse; 1 worse; 2 usage; 3 inconclusive, more runs
are needed; 4 not interpretable, or a file cannot be read."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("before", metavar="BEFORE", help="recordings before the change")
    parser.add_argument("after", metavar="AFTER", nargs="?", help="recordings after the change")
    parser.add_argument(
        "--goal",
        metavar="GOAL",
        help="percentile and metric: 'p95 duration', 'p99 ttft' (default: the first target of the"
        " load test, or p95 duration)",
    )
    parser.add_argument(
        "--limit-ms", type=float, metavar="N", help="target of the goal in milliseconds"
    )
    parser.add_argument(
        "--margin",
        type=float,
        metavar="RATIO",
        help="ratio up to which the goal is no worse (default: 1.1 below p90, 1.2 above)",
    )
    parser.add_argument(
        "--changed",
        action="append",
        default=[],
        metavar="NAME",
        help="condition that is the change, as it is listed, for example model; can be repeated,"
        " but then the effect cannot be attributed",
    )
    parser.add_argument(
        "--by",
        metavar="NAME",
        help="also compare the requests of each value of this attribute: route, model, tenant",
    )
    parser.add_argument(
        "--step", type=int, metavar="N", help="step of load tests, from 0 (default: the last)"
    )
    parser.add_argument(
        "--save-baseline",
        metavar="FILE",
        help="write the runs of the last side to a baseline file; without AFTER, only that",
    )
    parser.add_argument(
        "--junit", metavar="FILE", help="also write the result as JUnit XML for a CI system"
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--json", action="store_true", help="print one JSON document (latspan.comparison/1)"
    )
    form.add_argument(
        "--markdown", action="store_true", help="print Markdown for a pull request or a CI summary"
    )


def _run(arguments: argparse.Namespace) -> int:
    # First, because a missing package is reported before the work, not after it.
    with needs_study():
        import numpy  # noqa: F401, ICN001 # pyright: ignore[reportUnusedImport]
        import rich.console  # noqa: F401 # pyright: ignore[reportUnusedImport]

    from latspan._study.compare import compare, compare_by, question, runs_in

    before = runs_in(arguments.before, step=arguments.step)
    if arguments.after is None:
        if arguments.save_baseline is None:
            raise ConfigError(
                "AFTER is missing", hint="latspan compare BEFORE AFTER, or --save-baseline FILE"
            )
        _save(before, arguments.save_baseline)
        return 0
    if Path(arguments.before).resolve() == Path(arguments.after).resolve():
        raise ConfigError("BEFORE and AFTER are the same", hint="record again after the change")
    after = runs_in(arguments.after, step=arguments.step)
    asked = question(
        arguments.goal,
        before,
        after,
        limit_ms=arguments.limit_ms,
        margin=arguments.margin,
    )
    found = compare(before, after, asked, accept=arguments.changed)
    groups = (
        compare_by(before, after, asked, arguments.by, accept=arguments.changed)
        if arguments.by is not None
        else []
    )
    _print(found, groups, arguments)
    if arguments.save_baseline is not None:
        _save(after, arguments.save_baseline)
    return exit_code_of(found.judgement)


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
    from rich.console import Console

    from latspan.cli._replacing import replacing
    from latspan.reports._comparison import ComparisonReport
    from latspan.reports._comparison_json import (
        comparison_document,
        comparison_junit,
        comparison_markdown,
    )

    if arguments.junit is not None:
        with replacing(arguments.junit) as path:
            Path(path).write_text(comparison_junit(found, groups), "utf-8")
    with output() as out:
        if arguments.json:
            document = comparison_document(found, groups)
            print(json.dumps(document, indent=2, allow_nan=False), file=out)
        elif arguments.markdown:
            print(comparison_markdown(found, groups), end="", file=out)
        else:
            console = Console(highlight=False, file=out)
            for each in (found, *groups):
                if each is not found:
                    console.print()
                console.print(ComparisonReport(each), crop=False)
    if not found.makes_claim:
        print_message(
            "hint: put five recordings of each side into a folder, and compare the folders"
        )


def exit_code_of(judgement: Judgement) -> int:
    """Return the exit code that stands for a judgement."""
    from latspan._study.compare import Judgement

    return {
        Judgement.WORSE: MISSED,
        Judgement.INCONCLUSIVE: INCONCLUSIVE,
        Judgement.NOT_INTERPRETABLE: NOT_INTERPRETABLE,
    }.get(judgement, 0)


COMMAND: Final = Command(
    name="compare",
    summary="is it faster, or is it chance; and which segment explains it",
    description=_DESCRIPTION,
    examples=(
        ("latspan compare before after", "two recordings, or two folders with one per run"),
        (
            "latspan compare before after --goal 'p95 ttft' --limit-ms 500",
            "judge the time to the first token, and its target",
        ),
        ("latspan compare before after --changed model", "the change is another model"),
        ("latspan compare before after --by route", "also route by route"),
        ("latspan compare --save-baseline latency.json before", "keep the runs in a repository"),
        (
            "latspan compare latency.json after --markdown --junit latency.xml",
            "a gate: exit code 1 if it is worse",
        ),
    ),
    add_arguments=_add_arguments,
    run=_run,
)
