"""
Arguments and output shared by the commands that judge measurements.

``diagnose``, ``compare``, ``verify``, ``sweep`` and ``capacity`` print one result, as a table, as
JSON or as Markdown, and have the exit codes of :class:`latspan._study.answer.ExitCode`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, Protocol

from latspan.cli._console import output
from latspan.reports._extra import needs_study

if TYPE_CHECKING:
    from rich.console import RenderableType

FIRST_TARGET: Final = "the first target of the load test, or p95 duration"
"""Default goal, for help texts."""


class Arguments(Protocol):
    """Parser or group of options, as this module uses it."""

    def add_argument(self, *names: str, **settings: Any) -> argparse.Action:
        """Add an option."""
        ...


def require_study() -> None:
    """
    Check that the packages of the extra ``study`` are installed.

    A command calls this first, so that a missing package is reported before the work.

    Raises:
        MissingExtraError: One of them is not installed.
    """
    with needs_study():
        import numpy  # noqa: F401, ICN001 # pyright: ignore[reportUnusedImport]
        import rich.console  # noqa: F401 # pyright: ignore[reportUnusedImport]


def add_goal(parser: Arguments, default: str, *, met: str = "") -> None:
    """
    Add the options of the percentile that is judged: ``--goal`` and ``--limit-ms``.

    Args:
        parser: Parser or group.
        default: Goal without ``--goal``, for the help.
        met: Meaning of a target that is met, for the help.
    """
    parser.add_argument(
        "--goal",
        metavar="GOAL",
        help="percentile and metric, perhaps with a limit: 'p95 ttft <= 500ms', 'p99 duration'"
        f" (default: {default})",
    )
    parser.add_argument(
        "--limit-ms",
        type=float,
        metavar="N",
        help=f"limit of a goal that has none, in milliseconds{met}",
    )


def add_margin(parser: Arguments) -> None:
    """Add the option of the largest growth that still counts as no worse: ``--margin``."""
    parser.add_argument(
        "--margin",
        type=float,
        metavar="RATIO",
        help="largest ratio at which the goal is no worse (default: 1.1; from p90 on, 1.2)",
    )


def add_forms(
    parser: argparse.ArgumentParser,
    schema: str,
    *,
    markdown: str = "",
    others: Iterable[tuple[str, str]] = (),
) -> None:
    """
    Add the options that select the format of the output, at most one of which can be given.

    Args:
        parser: The parser.
        schema: Name of the schema of the JSON document.
        markdown: What the Markdown is for; empty if the command prints none.
        others: Further options of the group, each with its help.
    """
    form = parser.add_mutually_exclusive_group()
    for name, text in others:
        form.add_argument(name, action="store_true", help=text)
    form.add_argument("--json", action="store_true", help=f"print one JSON document ({schema})")
    if markdown:
        form.add_argument("--markdown", action="store_true", help=f"print Markdown{markdown}")


def print_result(
    arguments: argparse.Namespace,
    *,
    document: Callable[[], object],
    report: Callable[[], Iterable[RenderableType]],
    markdown: Callable[[], str] | None = None,
) -> None:
    """
    Print a result in the format that the command line selects.

    Args:
        arguments: The command line.
        document: Makes the JSON document.
        report: Makes the tables, between which there is an empty line.
        markdown: Makes the Markdown; ``None`` if the command prints none.

    Raises:
        OutputError: Stdout does not accept it.
    """
    from rich.console import Console

    with output() as out:
        if arguments.json:
            print(json.dumps(document(), indent=2, allow_nan=False), file=out)
        elif markdown is not None and arguments.markdown:
            print(markdown(), end="", file=out)
        else:
            console = Console(highlight=False, file=out)
            for number, each in enumerate(report()):
                if number:
                    console.print()
                console.print(each, crop=False)
