"""``latspan diagnose``: names the one delay to fix."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Mapping
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Final

from latspan.cli._argument_types import name_and_value
from latspan.cli._command import Command
from latspan.cli._console import print_message
from latspan.cli._judging import FIRST_TARGET, add_forms, add_goal, print_result, require_study
from latspan.cli._progress import reading
from latspan.cli._results import NamedPath, named_path
from latspan.cli._where import add_by, add_where, selected
from latspan.errors import ConfigError

if TYPE_CHECKING:
    from latspan._model.goals import Target
    from latspan._model.recording.folder import Recording
    from latspan._study.diagnose import Diagnosis
    from latspan._study.traces import TraceQuery

_UNITS_S: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_MAX_S: Final = 10**9

_DESCRIPTION: Final = """\
Names the segment in which the requests near a percentile spend most of their
time, its cause, the evidence, and one change to try. Shares have a 90 %
interval. If two segments are too close, or too much time is in no segment, the
diagnosis states that instead. With --by NAME, a diagnosis of the requests of
each value of an attribute follows; the exit code is that of all requests.

SOURCE is one of these:

  NAME            an inference path (NAME.toml): its newest measurement, and the
                  first of its targets that is not met
  a recording     the folder that latspan measure, latspan run --record or
                  record_dir wrote. The last step of a load test is judged. If
                  the server does not report its times, latspan estimates
                  queue and prefill from a calibration: the step that has one
                  request in flight, or latspan measure NAME --calibrate
  traces          a file of OTLP/JSON, or the URL of Jaeger or Tempo: latspan's
                  spans, and those of the GenAI conventions, OpenInference,
                  OpenLLMetry, vLLM and SGLang; not all of them have all times
  histogram logs  a .hlog file or a folder of them: the target is judged, but
                  the time cannot be divided among segments

Exit codes: 0 nothing to fix, or a cause without a missed target; 1 a cause and
a missed target, or so many failed requests that the request at the percentile
is a failed one; 2 usage; 3 inconclusive: two segments are too close, no segment
has a large share, too much time is in no segment, there are too few requests,
or the source has only histograms; 4 the measurement is invalid or cannot be
read."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "source",
        metavar="SOURCE",
        help="inference path, recording, traces, URL of Jaeger or Tempo, or .hlog",
    )
    add_goal(parser, FIRST_TARGET, met="; if it is met, there is nothing to fix")
    parser.add_argument("--kind", choices=("request", "call"), help="judge requests or calls")
    parser.add_argument(
        "--path",
        metavar="FILE",
        help="inference path (NAME.toml) with targets and a budget",
    )
    parser.add_argument(
        "--calibration",
        metavar="RECORDING",
        help="recording of a load test at concurrency 1"
        " (default: the newest one of the same system, beside SOURCE)",
    )
    parser.add_argument(
        "--step", type=int, metavar="N", help="step of the load test, from 0 (default: the last)"
    )
    parser.add_argument(
        "--stable-tokens",
        type=_tokens,
        metavar="N",
        help="number of prompt tokens that are the same in all prompts",
    )
    parser.add_argument("--service", metavar="NAME", help="traces: service of the requests")
    parser.add_argument("--route", metavar="ROUTE", help="route of the requests to judge")
    add_where(parser, "judge only requests with this attribute, for example tenant=acme")
    add_by(parser, "diagnose")
    parser.add_argument(
        "--since",
        type=_window,
        metavar="TIME",
        help="Jaeger or Tempo: length of the window up to now, for example 30m, 2h, 1d"
        " (default: 1h)",
    )
    parser.add_argument(
        "--limit",
        type=int,
        metavar="N",
        help="Jaeger or Tempo: maximum number of traces (default: 1000)",
    )
    parser.add_argument(
        "--header",
        action="append",
        default=[],
        type=name_and_value,
        metavar="NAME=VALUE",
        help="Jaeger or Tempo: header of each request, for example a tenant; can be repeated",
    )
    add_forms(parser, "latspan.diagnosis/1", markdown=" for a ticket")


def _run(arguments: argparse.Namespace) -> int:
    require_study()

    from latspan._model.goals import read_inference_path
    from latspan._model.recording.folder import open_recording
    from latspan._model.segments import Kind
    from latspan._study.diagnose import Goal, diagnose_source, goal_of, parse_goal
    from latspan._study.loop import Task
    from latspan._study.render.diagnosis_json import diagnosis_document

    source: str = arguments.source
    named = _named(source, arguments)
    target: Target | None = None
    if named is not None:
        source, target = _newest(named, arguments), named.open_target
    elif arguments.path is not None:
        target = read_inference_path(Path(arguments.path)).targets[0]
    kind = None if arguments.kind is None else Kind(arguments.kind)
    goal = None
    if arguments.goal is not None or arguments.limit_ms is not None:
        text = arguments.goal or "p95 duration"
        goal = parse_goal(text, limit_ms=arguments.limit_ms, kind=kind)
    elif target is not None:
        try:
            goal = goal_of(target, kind)
        except ConfigError:
            if named is None:
                raise
            # Segments do not add up to this metric, for example the time per output token.
            goal = Goal(kind=kind)
    elif kind is not None:
        goal = Goal(kind=kind)
    chosen = selected(arguments.where, arguments.route)
    calibration: Recording | None = None
    if arguments.calibration is not None:
        calibration = open_recording(arguments.calibration)
    try:
        with reading():
            diagnosis = diagnose_source(
                source,
                goal,
                traces=_query(arguments),
                step=arguments.step,
                calibration=calibration,
                budget=None if target is None else target.budget,
                stable_tokens=arguments.stable_tokens,
                where=dict(arguments.where),
                by=arguments.by,
            )
    except OSError as error:
        raise ConfigError(
            f"cannot read {error.filename or arguments.source}: {error.strerror or error}",
            hint="use the path of a recording, a file of OTLP/JSON traces or a .hlog file",
        ) from error
    _print(diagnosis, source, chosen, arguments)
    exit_code = diagnosis.exit_code
    if named is not None:
        document = diagnosis_document(diagnosis)
        named.keep(Task.DIAGNOSE, document, exit_code=exit_code, recordings=[source])
    return exit_code


def _named(source: str, arguments: argparse.Namespace) -> NamedPath | None:
    """Return the inference path that the source names; ``None`` for every other source."""
    from latspan._model.goals import SUFFIX, file_of

    if not source.endswith(SUFFIX) and Path(source).exists():
        return None
    if file_of(source).is_file():
        return named_path(source, arguments)
    if "://" not in source and not Path(source).exists():
        raise ConfigError(
            f"{source} is neither an inference path nor a recording: there is no such file",
            hint="latspan status lists the inference paths of this folder",
        )
    return None


def _newest(named: NamedPath, arguments: argparse.Namespace) -> str:
    """Return the recording of the newest measurement of an inference path."""
    from latspan._study.loop import loop_of

    if arguments.path is not None:
        raise ConfigError(
            f"{arguments.source} is an inference path, so --path has no effect", hint="omit --path"
        )
    loop = loop_of(named.file)
    if loop.latest is None:
        raise ConfigError(
            f"{named.file} has no measurement, or was changed after the newest one",
            hint=f"latspan measure {loop.name}",
        )
    recording = os.path.normpath(named.file.parent / loop.latest.recordings[0])
    if not Path(recording).exists():
        # Results are kept in repositories, recordings are not.
        raise ConfigError(
            f"{recording}, the recording of the newest measurement, does not exist here",
            hint=f"measure again: latspan measure {loop.name}",
        )
    return recording


def _query(arguments: argparse.Namespace) -> TraceQuery:
    from latspan._study.traces import TraceQuery, is_url

    if not is_url(arguments.source):
        for name in ("since", "limit", "header"):
            if getattr(arguments, name) not in (None, []):
                raise ConfigError(
                    f"--{name} only applies to Jaeger and Tempo",
                    hint="use the URL of one of them as SOURCE",
                )
    given = {"since_s": arguments.since, "limit": arguments.limit}
    return TraceQuery(
        service=arguments.service,
        route=arguments.route,
        headers=dict(arguments.header),
        **{name: value for name, value in given.items() if value is not None},
    )


def _tokens(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < inf:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of tokens, such as 800")
    return number


def _window(text: str) -> float:
    """Return a time with a unit, in seconds."""
    number, unit = text[:-1], text[-1:]
    try:
        seconds = float(number) * _UNITS_S[unit]
    except (KeyError, ValueError):
        seconds = -1.0
    if not 0 < seconds < _MAX_S:
        raise argparse.ArgumentTypeError(f"'{text}' is not a time such as 30m, 2h or 1d")
    return seconds


def _print(
    diagnosis: Diagnosis, source: str, chosen: Mapping[str, str], arguments: argparse.Namespace
) -> None:
    from latspan._study.render.diagnosis_json import diagnosis_document, diagnosis_markdown
    from latspan.reports import DiagnosisReport

    print_result(
        arguments,
        document=lambda: diagnosis_document(diagnosis),
        report=lambda: [DiagnosisReport(each) for each in (diagnosis, *diagnosis.groups)],
        markdown=lambda: diagnosis_markdown(diagnosis),
    )
    is_text = not arguments.json and not arguments.markdown
    if diagnosis.finding is not None and is_text and Path(source).is_dir():
        command = ["latspan", "report", source]
        for name, value in chosen.items():
            command += ["--where", f"{name}={value}"]
        print_message(f"hint: {shlex.join(command)} shows single requests")


COMMAND: Final = Command(
    name="diagnose",
    summary="name the one delay to fix, with evidence",
    description=_DESCRIPTION,
    examples=(
        ("latspan diagnose chat", "explain the target of chat.toml that is not met"),
        ("latspan diagnose monday", "explain the p95 of the duration of a recording"),
        (
            "latspan diagnose monday --goal 'p95 ttft <= 500ms'",
            "explain the time to the first token, unless it is within 500 ms",
        ),
        (
            "latspan diagnose monday --route /chat --where tenant=acme",
            "explain the requests of one route and tenant",
        ),
        ("latspan diagnose monday --by route", "also explain the requests of each route"),
        ("latspan diagnose monday --path chat.toml", "with the targets and the budget of a path"),
        (
            "latspan diagnose monday --markdown",
            "the p95 of the duration, as Markdown for a ticket",
        ),
        (
            "latspan diagnose http://localhost:16686 --service shop --since 2h",
            "explain the traces of a service in Jaeger",
        ),
    ),
    add_arguments=_add_arguments,
    run=_run,
)
