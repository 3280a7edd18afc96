"""``latspan capacity``: the queueing cliff, headroom, and the latency at a higher load."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import TYPE_CHECKING, Final

from latspan._base.nanoseconds import NS_PER_S
from latspan._model.metrics import FROM_START, LATENCY_METRICS
from latspan._study.answer import ExitCode
from latspan.cli._argument_types import positive_number, positive_numbers
from latspan.cli._command import Command
from latspan.cli._judging import add_forms, print_result, require_study
from latspan.errors import ConfigError

if TYPE_CHECKING:
    from latspan._model.goals import InferencePath
    from latspan._model.recording.folder import Recording
    from latspan._study.capacity import CapacityStudy

_METRICS: Final = tuple(name for name in LATENCY_METRICS if name in FROM_START)
"""Metrics that begin with the request, so that its wait for the service is part of them."""

_FOLDER: Final = "recordings"

_DESCRIPTION: Final = """\
Shows how the p99 grows with the offered load. It reads a ladder: a load test
whose steps (rungs) are open loops, each at a higher rate than the one before.
This command measures a ladder: latspan measure NAME --rate 1 --ladder. The
highest rung must overload the system: the throughput at saturation is its
capacity.

- Knee: the load above which the p99 grows faster than the load.
- Headroom: the load can grow to 80 % of the capacity, or to the highest load
  within the target if that is lower.
- Projection: the range in which a test at another load would measure the p99.

Each number is labelled. "measured": a rung has this load. "interpolated":
between two rungs below saturation. "extrapolated": outside the rungs below
saturation, up to twice the load of the highest of them, or down to half the
load of the lowest. "refused": above 95 % of the capacity, or too far from the
rungs, or the capacity is unknown, or the model does not fit this system.

A projection simulates a queue that is fitted to the rungs; it uses their
requests and the times between their arrivals. The model is checked first: it is
fitted without one rung, and its error for that rung is printed and widens the
ranges.

Exit codes: 0 fine; 1 a load of --rate misses the target even at the lower end
of its range; 2 usage; 3 a load of --rate is refused, or only the upper end
misses; 4 the recordings are not a ladder."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "sources",
        nargs="+",
        metavar="NAME|RECORDING",
        help="an inference path, whose newest ladder in recordings/ is read, or recordings of"
        " latspan measure that are the rungs of one ladder",
    )
    parser.add_argument(
        "--rate",
        type=positive_numbers,
        default=[],
        metavar="N[,N...]",
        help="loads to project to, in requests per second (default: 60, 70, 80 and"
        " 90 %% of the capacity)",
    )
    parser.add_argument(
        "--goal",
        metavar="GOAL",
        help="percentile and metric, perhaps with a limit: 'p95 ttft <= 500ms', 'p99 duration'"
        " (default: the first target, or p99 duration)",
    )
    parser.add_argument(
        "--limit-ms",
        type=positive_number,
        metavar="N",
        help="limit of a goal that has none, in milliseconds",
    )
    parser.add_argument(
        "--current",
        type=positive_number,
        metavar="N",
        help="current load, in requests per second, for the headroom (default: the rate in"
        " NAME.toml)",
    )
    add_forms(parser, "latspan.capacity/1")


def _run(arguments: argparse.Namespace) -> int:
    require_study()

    from latspan._study.capacity import read_ladder, study_capacity
    from latspan._study.render.capacity import CapacityReport
    from latspan._study.render.capacity_json import capacity_document

    path, recordings = _read(arguments.sources)
    metric, percentile, limit_s = _goal(arguments, path, recordings[0])
    current = arguments.current
    if current is None and path is not None:
        current = path.traffic.rate_per_s
    study = study_capacity(
        read_ladder(recordings, metric, percentile),
        arguments.rate,
        limit_s=limit_s,
        current_per_s=current,
    )
    print_result(
        arguments,
        document=lambda: capacity_document(study),
        report=lambda: [CapacityReport(study)],
    )
    return _exit_code(study)


def _read(sources: list[str]) -> tuple[InferencePath | None, list[Recording]]:
    """Return the inference path, if one is named, and the recordings."""
    from latspan._model.goals import SUFFIX, read_inference_path
    from latspan._model.recording.folder import is_recording, open_recording

    if len(sources) == 1 and not is_recording(sources[0]) and not Path(sources[0]).is_dir():
        name = sources[0].removesuffix(SUFFIX)
        path = read_inference_path(sources[0]) if Path(f"{name}{SUFFIX}").is_file() else None
        return path, [_newest_ladder(name if path is None else path.name)]
    return None, [open_recording(each) for each in sources]


def _newest_ladder(name: str) -> Recording:
    """
    Return the newest measurement of an inference path that has several steps.

    Raises:
        ConfigError: There is none.
    """
    from latspan._model.recording.folder import is_recording, load_test_of, open_recording

    ladders: list[tuple[str, Recording]] = []
    folders = Path(_FOLDER).iterdir() if Path(_FOLDER).is_dir() else ()
    for folder in folders:
        if not is_recording(folder):
            continue
        recording = open_recording(folder)
        load_test = load_test_of(recording.manifest)
        if load_test is not None and load_test.name == name and len(load_test.steps) > 1:
            ladders.append((str(recording.manifest.get("created", "")), recording))
    if not ladders:
        raise ConfigError(
            f"there is no ladder of '{name}' in {_FOLDER}/",
            hint=f"latspan measure {name} --rate 1 --ladder --percentile 99, or use the folder of"
            " a recording",
        )
    return max(ladders, key=lambda each: each[0])[1]


def _goal(
    arguments: argparse.Namespace, path: InferencePath | None, recording: Recording
) -> tuple[str, float, float | None]:
    """
    Return the metric, the percentile and the limit in seconds.

    Raises:
        ConfigError: The text is not a goal, or the metric does not depend on a queue.
        UnknownNameError: There is no such metric.
    """
    from latspan._model.goals import requested_goal
    from latspan._model.recording.folder import load_test_of

    load_test = load_test_of(recording.manifest)
    measured = () if load_test is None else load_test.targets
    targets = measured if path is None else path.targets
    usable = [target for target in targets if target.metric in _METRICS]
    goal = requested_goal(
        arguments.goal, limit_ms=arguments.limit_ms, targets=usable, default="p99 duration"
    )
    if goal.metric not in _METRICS:
        raise ConfigError(
            f"'{goal.metric}' cannot be projected to another load",
            hint=f"use one of {', '.join(_METRICS)}",
        )
    limit_s = None if goal.limit_ns is None else goal.limit_ns / NS_PER_S
    return goal.metric, goal.percentile, limit_s


def _exit_code(study: CapacityStudy) -> int:
    if not study.asked:
        return 0
    limit_s = math.inf if study.limit_s is None else study.limit_s
    if any(each.low_s > limit_s for each in study.projections):
        return ExitCode.MISSED
    # A comparison with NaN, which a refused load has, is false.
    return 0 if all(each.high_s <= limit_s for each in study.projections) else ExitCode.INCONCLUSIVE


COMMAND: Final = Command(
    name="capacity",
    summary="show the p99 against the load: knee, headroom, projections to a higher load",
    description=_DESCRIPTION,
    examples=(
        ("latspan capacity chat", "the newest ladder of the inference path chat"),
        ("latspan capacity chat --rate 12", "the p99 at 12 requests per second, as a range"),
        (
            "latspan capacity monday --goal 'p95 ttft <= 500ms' --rate 12",
            "a recording; exit code 0 if the target would be met at that load",
        ),
        ("latspan capacity low middle high overload", "rungs that were measured one by one"),
    ),
    add_arguments=_add_arguments,
    run=_run,
)
