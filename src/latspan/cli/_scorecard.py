"""``latspan scorecard``: latency, timeouts and targets by week and month."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Final

from latspan.cli._command import Command
from latspan.cli._console import output
from latspan.cli._where import add_where, selected
from latspan.errors import ConfigError

if TYPE_CHECKING:
    from latspan._study.scorecard import Scorecard

_DESCRIPTION: Final = """\
Shows p50, p95, timeouts and completed requests of a system per week, which
shows operational drift, and per month, which shows the long-term trend. With
--target, it also shows the share of requests within the target, and their
number per second.

PATH is a recording, a .hlog file, a file of OTLP/JSON traces that the
Collector's file exporter wrote, a folder of any of them, or the URL of a
Prometheus server that has latspan's metrics.

Timeouts and completed requests are fractions of all intended requests, with
95 % confidence intervals. Intended requests are those that ended, and those
that a load test scheduled but never sent. A failed request counts as slower
than every other one, and one that its caller gave up as at least as slow as
its caller waited. Weeks begin on Monday, in UTC."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", nargs="+", metavar="PATH", help="what to read")
    parser.add_argument(
        "--target",
        action="append",
        default=[],
        metavar="NAME",
        help="judge the targets of the inference path in NAME.toml; can be repeated",
    )
    parser.add_argument(
        "--by",
        default="inference_path",
        metavar="ATTRIBUTE",
        help="show one table per value of this attribute (default: %(default)s)",
    )
    add_where(parser, "count only requests with this attribute")
    parser.add_argument(
        "--kind",
        choices=("request", "call", "http", "stage"),
        help="kind of requests to count (default: the outermost of each PATH)",
    )
    parser.add_argument(
        "--period",
        choices=("week", "month"),
        action="append",
        help="show only weeks, or only months",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print one JSON document (latspan.scorecard/1) instead of the tables",
    )


def _run(arguments: argparse.Namespace) -> int:
    from latspan.reports._extra import needs_study

    with needs_study():
        if not arguments.json:
            # A missing package is reported before long files are read, not after it.
            import rich.console  # noqa: F401 # pyright: ignore[reportUnusedImport]
        scorecard, notes = _read(arguments)
    if arguments.json:
        from latspan._study.render.scorecard_json import scorecard_document

        document = scorecard_document(scorecard, notes)
        with output() as out:
            print(json.dumps(document, indent=2, allow_nan=False), file=out)
        return 0
    from rich.console import Console

    from latspan._study.render.scorecard import ScorecardTable

    with output() as out:
        Console(highlight=False, file=out).print(ScorecardTable(scorecard, notes), crop=False)
    return 0


def _read(arguments: argparse.Namespace) -> tuple[Scorecard, list[str]]:
    from latspan._model.goals import read_inference_path
    from latspan._model.segments import Kind
    from latspan._study.scorecard import Cycle, ScorecardBuilder, add_source

    if arguments.target and arguments.by != "inference_path":
        raise ConfigError(
            "--target and --by cannot be used together",
            hint="a target belongs to an inference path, so leave --by out",
        )
    builder = ScorecardBuilder(
        [read_inference_path(name) for name in arguments.target],
        by=arguments.by,
        where=selected(arguments.where),
        kind=None if arguments.kind is None else Kind(arguments.kind),
        cycles=[Cycle(each) for each in arguments.period or Cycle],
    )
    notes = [note for path in arguments.paths for note in add_source(builder, path)]
    scorecard = builder.build()
    return scorecard, [*notes, *scorecard.notes]


COMMAND: Final = Command(
    name="scorecard",
    summary="show latency, timeouts and targets by week and month",
    description=_DESCRIPTION,
    examples=(
        ("latspan scorecard recordings/", "show all recordings in a folder"),
        ("latspan scorecard /var/log/shop --target chat", "judge the targets of chat.toml"),
        ("latspan scorecard http://localhost:9090", "show what a Prometheus server has recorded"),
        ("latspan scorecard traces.jsonl --period week", "show the weeks in a Collector's file"),
        ("latspan scorecard recordings/ --json | jq '.cards[].periods[]'", "for a script"),
    ),
    add_arguments=_add_arguments,
    run=_run,
)
