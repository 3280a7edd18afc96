"""``latspan sweep``: measures the inference paths of a folder again, and shows what drifted."""

from __future__ import annotations

import argparse
import json
import math
import shlex
from contextlib import ExitStack, chdir
from datetime import datetime
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Final

from latspan._model.text import listed
from latspan._study.answer import ExitCode, most_urgent
from latspan.cli._command import Command
from latspan.cli._console import output, print_message
from latspan.cli._judging import add_forms, print_result, require_study
from latspan.errors import ConfigError, LatspanError

if TYPE_CHECKING:
    from latspan._study.loop import Rounds
    from latspan._study.sweep import PathSweep
    from latspan.cli._sweep_plan import Planned, SweepPlan

_USUAL_RUNS: Final = 3
_MAX_RUNS: Final = 30

_DESCRIPTION: Final = """\
Measures every inference path of a folder, and compares it with its pinned
baseline (baselines/NAME.json) and with the previous sweep. Changes of the
inputs are shown next to the latency: template, prompts, model, lengths, cached
share.

Each path is measured --runs times, in rounds: the first run of each path, then
the second of each. --top N with --traffic measures the N paths with the most
requests in recordings, histogram logs, traces or Prometheus. --only-changed
measures the paths whose template, prompts, model, endpoint, target or load
changed since their last result. --load-factor 2 measures at twice the load,
before a launch: targets are judged, and nothing is compared or kept.

--pin makes the newest sweep of each path its baseline. It measures nothing.

Results are kept in results/NAME. The next sweep compares with them, and does
not need the recordings. Ctrl-C ends the sweep, and keeps what was measured.

Exit codes: 0 no drift; 1 a target is missed, or a path is slower than in its
baseline or in the previous sweep; 2 usage; 3 inconclusive: more runs or
requests are needed, or no path could be measured; 4 a path could not be
measured or compared."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folder",
        metavar="FOLDER",
        nargs="?",
        default=".",
        help="folder of the files that latspan init wrote (default: the current one)",
    )
    chosen = parser.add_argument_group("inference paths")
    chosen.add_argument(
        "--path",
        action="append",
        default=[],
        metavar="NAME",
        help="only this inference path; can be repeated",
    )
    chosen.add_argument(
        "--traffic",
        action="append",
        default=[],
        metavar="SOURCE",
        help="rank the paths by their requests in a recording, .hlog file, file of traces, folder"
        " of them or Prometheus server; can be repeated",
    )
    chosen.add_argument(
        "--top", type=int, metavar="N", help="only the N paths with the most requests"
    )
    chosen.add_argument(
        "--only-changed",
        action="store_true",
        help="only paths that changed since their last result",
    )
    runs = parser.add_argument_group("runs")
    runs.add_argument(
        "--runs",
        type=int,
        default=_USUAL_RUNS,
        metavar="K",
        help="runs of each path (default: %(default)s)",
    )
    runs.add_argument(
        "--load-factor",
        type=float,
        metavar="X",
        help="multiply the rate or the concurrency of each path",
    )
    runs.add_argument(
        "--options",
        default="",
        metavar="OPTIONS",
        help="options of latspan measure for each run: '--requests 200'",
    )
    runs.add_argument(
        "--changed",
        action="append",
        default=[],
        metavar="NAME",
        help="difference that does not prevent a comparison, for example machine; can be repeated",
    )
    runs.add_argument(
        "-o",
        "--output",
        metavar="FOLDER",
        help="folder of the recordings (default: sweeps/TIME)",
    )
    runs.add_argument("--no-result", action="store_true", help="do not keep the results")
    add_forms(
        parser,
        "latspan.sweep/1",
        others=(
            ("--dry-run", "list what would be measured, and how long it takes"),
            ("--pin", "make the newest sweep of each path its baseline"),
        ),
    )


def _run(arguments: argparse.Namespace) -> int:
    require_study()

    from latspan._study.loop import loops_in
    from latspan._study.sweep import traffic_of
    from latspan.cli._sweep_plan import plan_sweep

    _check(arguments)
    # Sources and the output are relative to the folder in which the user typed them.
    traffic = traffic_of(arguments.traffic) if arguments.traffic else None
    if arguments.output is not None:
        arguments.output = Path(arguments.output).absolute()
    folder = Path(arguments.folder)
    with ExitStack() as stack:
        try:
            # Prompts and functions of an inference path are found from its folder.
            stack.enter_context(chdir(folder))
        except OSError as error:
            raise ConfigError(
                f"cannot use the folder {folder}: {error.strerror}",
                hint="use the folder of the files that latspan init wrote",
            ) from error
        plan = plan_sweep(loops_in(Path()), arguments, traffic)
        if arguments.pin:
            return _pin(plan)
        if arguments.dry_run:
            return _dry_run(plan, arguments)
        return _sweep(plan, arguments)


def _check(arguments: argparse.Namespace) -> None:
    if arguments.top is not None and not arguments.traffic:
        raise ConfigError(
            "--top needs the traffic of the paths",
            hint="--traffic SOURCE: recordings, histogram logs, traces or a Prometheus server",
        )
    if arguments.top is not None and arguments.top < 1:
        raise ConfigError(f"--top {arguments.top} is not a number of paths", hint="use 1 or more")
    if not 1 <= arguments.runs <= _MAX_RUNS:
        raise ConfigError(f"--runs {arguments.runs} is not in [1, {_MAX_RUNS}]", hint="use 3 to 5")
    factor = arguments.load_factor
    if arguments.pin and factor is not None:
        raise ConfigError(
            "--pin measures nothing, so --load-factor has no effect", hint="omit one of them"
        )
    if factor is not None and not (math.isfinite(factor) and factor > 0):
        raise ConfigError(
            f"--load-factor {factor:g} is not a load", hint="use 2 for twice the load"
        )


def _pin(plan: SweepPlan) -> int:
    from latspan._study.sweep import baseline_file, last_sweep
    from latspan.cli._replacing import replacing

    missing = 0
    for each in plan.paths:
        sweep = last_sweep(each.results)
        if sweep is None:
            missing += 1
            print_message(
                f"{each.name}: there is no sweep to pin; latspan sweep --path {each.name}"
            )
            continue
        file = baseline_file(each.named.file)
        try:
            file.parent.mkdir(exist_ok=True)
        except OSError as error:
            raise ConfigError(
                f"cannot create the folder {file.parent}: {error.strerror}",
                hint="make the folder of the inference paths writable",
            ) from error
        with replacing(str(file)) as written:
            text = json.dumps(sweep.document["paths"][0]["runs"], indent=1, allow_nan=False)
            Path(written).write_text(text + "\n", "utf-8")
        print_message(f"{file}: baseline from the sweep of {sweep.day}")
    _print_errors(plan)
    return ExitCode.NOT_INTERPRETABLE if missing or plan.errors else 0


def _print_errors(plan: SweepPlan) -> None:
    for name, error in plan.errors.items():
        print_message(f"{name}: {error.message}")
        if error.hint is not None:
            print_message(f"hint: {error.hint}")


def _dry_run(plan: SweepPlan, arguments: argparse.Namespace) -> int:
    from rich.console import Console

    from latspan._study.render.sweep import SweepPlanTable

    runs: int = arguments.runs
    errors = {name: error.message for name, error in plan.errors.items()}
    table = SweepPlanTable(list(plan.rows(runs)), runs, errors, plan.notes)
    with output() as out:
        Console(highlight=False, file=out).print(table, crop=False)
    return ExitCode.NOT_INTERPRETABLE if plan.errors else 0


def _sweep(plan: SweepPlan, arguments: argparse.Namespace) -> int:
    from latspan._study.loop import measure_rounds

    now = datetime.now().astimezone()
    folder = arguments.output or Path("sweeps") / f"{now:%Y%m%d-%H%M%S}"
    is_other = any(each.is_other for each in plan.paths)
    done = measure_rounds(
        {each.name: each.options for each in plan.paths},
        folder,
        runs=arguments.runs,
        expected_s={each.name: each.expected_s for each in plan.paths},
        report=print_message,
    )
    swept: list[PathSweep] = []
    errors = {name: error.message for name, error in plan.errors.items()}
    for each in plan.paths:
        if done.interrupt is not None and not done.folders[each.name]:
            continue
        try:
            swept.append(_judged(each, done, arguments))
        except LatspanError as error:
            errors[each.name] = error.message
    notes = list(plan.notes)
    # A path whose inputs did not change needs no measurement: its last result still applies.
    is_empty = not (plan.paths or errors or plan.unchanged)
    if is_empty:
        notes.append("Nothing was measured.")
    notes += [
        f"--changed {name} is no difference of any path."
        for name in arguments.changed
        if not any(each.is_named([name]) for path in swept for each in path.differences)
    ]
    if is_other:
        notes.append("Measured at another load than that of the files: only targets are judged.")
    _print(swept, plan, errors, notes, arguments, interrupted=done.interrupt is not None)
    if plan.paths:
        print_message(f"recordings: {folder}")
    if not (arguments.no_result or is_other):
        _keep(swept, plan, done)
        _print_hints(swept, plan, arguments)
    if done.interrupt is not None:
        raise done.interrupt
    codes = [each.finding.exit_code for each in swept]
    codes += [ExitCode.NOT_INTERPRETABLE] * bool(errors) + [ExitCode.INCONCLUSIVE] * is_empty
    return most_urgent(codes)


def _judged(planned: Planned, done: Rounds, arguments: argparse.Namespace) -> PathSweep:
    from latspan._study.sweep import judge, last_sweep, read_pinned, runs_in_sweep

    name, named = planned.name, planned.named
    is_other = planned.is_other
    last = None if is_other else last_sweep(planned.results)
    seconds = done.seconds[name]
    error = done.errors.get(name)
    return judge(
        name,
        done.folders[name],
        invalid=() if error is None else (error,),
        pinned=() if is_other else read_pinned(named.file),
        previous=() if last is None else runs_in_sweep(last),
        since=None if last is None else last.created,
        template=named.fingerprints["template"] if named.path.prompt.template else "",
        changed=arguments.changed,
        seconds_per_run=fmean(seconds) if seconds else None,
    )


def _print(
    swept: list[PathSweep],
    plan: SweepPlan,
    errors: dict[str, str],
    notes: list[str],
    arguments: argparse.Namespace,
    *,
    interrupted: bool,
) -> None:
    from latspan._study.render.sweep import SweepReport
    from latspan._study.render.sweep_json import sweep_document

    traffic = None
    if plan.traffic is not None:
        requests = plan.traffic.requests
        traffic = {each.name: requests.get(each.named.path.name, 0) for each in plan.paths}
    print_result(
        arguments,
        document=lambda: sweep_document(
            swept, errors=errors, notes=notes, traffic=traffic, interrupted=interrupted
        ),
        report=lambda: [SweepReport(swept, errors, notes, traffic)],
    )


def _keep(swept: list[PathSweep], plan: SweepPlan, done: Rounds) -> None:
    from latspan._study.loop import Task
    from latspan._study.render.sweep_json import kept_document

    planned = {each.name: each for each in plan.paths}
    for each in swept:
        planned[each.name].named.keep(
            Task.WATCH,
            kept_document(each, interrupted=done.interrupt is not None),
            exit_code=each.finding.exit_code,
            recordings=done.folders[each.name],
        )


def _print_hints(swept: list[PathSweep], plan: SweepPlan, arguments: argparse.Namespace) -> None:
    from latspan._study.sweep import SweepAnswer

    # Later sweeps would take drift or a missed target for the normal state.
    good = [each for each in swept if each.finding is not SweepAnswer.DRIFT]
    first = [each.name for each in good if each.runs and each.baseline is None]
    if first:
        is_whole = not (arguments.path or arguments.only_changed or arguments.top)
        chosen = "" if is_whole and len(first) == len(plan.paths) else _chosen(first)
        print_message(
            f"hint: latspan sweep --pin{chosen} makes this sweep the baseline of the next ones"
        )
    for each in swept:
        comparison = None if each.baseline is None else each.baseline.comparison
        names = (
            [] if comparison is None else [one.name for one in comparison.differences if one.blocks]
        )
        if names:
            pin = f"pin a new baseline with latspan sweep --pin{_chosen([each.name])}, or "
            print_message(
                f"hint: {each.name}: {listed(names)}: if this is intended,"
                f" {pin if each in good else ''}use --changed NAME"
            )


def _chosen(names: list[str]) -> str:
    """Return the options of a command that select inference paths."""
    return "".join(f" --path {shlex.quote(name)}" for name in names)


COMMAND: Final = Command(
    name="sweep",
    summary="measure the inference paths again, and show what drifted",
    description=_DESCRIPTION,
    examples=(
        ("latspan sweep", "measure the inference paths of this folder, three runs of each"),
        ("latspan sweep --dry-run", "list what would be measured, and how long it takes"),
        (
            "latspan sweep --traffic http://localhost:9090 --top 5",
            "measure the five paths with the most requests",
        ),
        ("latspan sweep --only-changed", "after a change of a prompt template"),
        ("latspan sweep --load-factor 2", "before a launch: the targets at twice the load"),
        ("latspan sweep --pin", "make the newest sweep the baseline"),
    ),
    add_arguments=_add_arguments,
    run=_run,
)
