"""``latspan measure``: sends a load, records it, and prints the result."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Final

from latspan._study.answer import ExitCode
from latspan.cli._command import Command
from latspan.cli._console import output, print_message
from latspan.cli._measure_options import add_options, folder_of, overriding_option, settings_of
from latspan.cli._results import named_path
from latspan.reports._extra import needs_study

if TYPE_CHECKING:
    from latspan._load import MeasureSettings
    from latspan._study.measurement import Measurement
    from latspan._study.render.measurement_json import MeasurementDocument

_DESCRIPTION: Final = """\
Sends requests to an OpenAI-compatible API, or calls a function of yours, and
records them as latspan records an application in production.

With --rate, requests arrive as users do: they do not wait for earlier ones
(open loop). If the server cannot keep up with the rate, requests queue, and
their duration, measured from the scheduled time, grows. With --concurrency, a
fixed number is in flight (closed loop): a slow server receives fewer requests,
so the measured latency is lower than the latency that users experience. Without
either, one request is in flight.

Warm-up requests are not counted. Further requests keep the load up until the
last measured one has ended; they are not counted either. A measurement that
cannot be trusted is INVALID, with the reason: the generator was too slow, the
run was interrupted, or the prompt cache changed.

A target is met or missed only if that is proven (exact binomial, 95 %). For
p95, that takes 59 requests without a miss; for p99, 299.

Exit codes: 0 the targets are met, or there is none; 1 missed; 2 usage; 3 more
requests are needed; 4 invalid. Ctrl-C keeps what was measured."""


def _run(arguments: argparse.Namespace) -> int:
    # First, because a missing package is reported before the load, not after it.
    with needs_study():
        import rich.console  # noqa: F401 # pyright: ignore[reportUnusedImport]

    from latspan._load import measure
    from latspan._model.recording.folder import join_recording, open_recording
    from latspan._study.diagnose import lacks_calibration
    from latspan._study.loop import Task
    from latspan._study.measurement import measured_kind, summarize
    from latspan._study.render.measurement_json import measurement_document
    from latspan._study.table import read_table
    from latspan.cli._measure_display import LiveDisplay

    named = named_path(arguments.target, arguments)
    settings = settings_of(arguments)
    folder = folder_of(arguments, settings.name)
    for line in _plan(settings):
        print_message(line)
    with LiveDisplay(has_lines=not arguments.json) as display:
        measure(settings, folder, display)
    recording = open_recording(folder)
    table = read_table(recording, (), kind=measured_kind(recording))
    measurement = summarize(recording, table)
    join_recording(folder).update(conditions=measurement.observed)
    document = measurement_document(measurement, recording=str(folder))
    _print(measurement, document, as_json=arguments.json)
    print_message(f"recording: {folder}; latspan report {folder} shows its segments")
    if lacks_calibration(recording, table):
        print_message(
            "the server reports no times, so its queue and its prefill are one wait: measure once"
            " with --calibrate in place of the load, and latspan diagnose divides it"
        )
    exit_code = _exit_code(measurement)
    if named is not None and not arguments.no_result:
        option = overriding_option(arguments)
        if option is not None:
            print_message(
                f"latspan status does not count this measurement: {option} replaces what"
                f" {named.file} describes"
            )
        else:
            named.keep(Task.MEASURE, document, exit_code=exit_code, recordings=[folder])
    return exit_code


def _plan(settings: MeasureSettings) -> list[str]:
    """Return what will be measured, and what can be learned from it."""
    from latspan._study.stats import requests_needed
    from latspan.histogram import values_needed

    percentiles = sorted({settings.percentile, *(each.percentile for each in settings.targets)})
    lines: list[str] = []
    counts = {step.measured for step in settings.steps}
    for percentile in percentiles:
        clean, one, two = (requests_needed(misses, percentile) for misses in range(3))
        lines.append(
            f"p{percentile:g} is shown from {values_needed(percentile):,} requests on; a target is"
            f" met by {clean:,} without a miss, {one:,} with one, {two:,} with two"
        )
        fewest = min((count for count in counts if count is not None), default=None)
        if fewest is not None and settings.targets and fewest < clean:
            lines.append(f"{fewest:,} requests cannot prove it: use --requests {one:,} or more")
    return lines


def _print(measurement: Measurement, document: MeasurementDocument, *, as_json: bool) -> None:
    from rich.console import Console

    from latspan._study.render.measurement import MeasurementReport

    with output() as out:
        if as_json:
            print(json.dumps(document, indent=2, allow_nan=False), file=out)
        else:
            Console(highlight=False, file=out).print(MeasurementReport(measurement), crop=False)


def _exit_code(measurement: Measurement) -> int:
    from latspan._study.stats import Verdict

    if not measurement.is_valid:
        return ExitCode.NOT_INTERPRETABLE
    if len(measurement.steps) > 1:
        # The last steps of a ladder are meant to be too much for the server.
        return 0
    verdicts = {
        None if result.verdict is None else result.verdict.verdict
        for step in measurement.steps
        for result in step.targets
    }
    if Verdict.MISSED in verdicts:
        return ExitCode.MISSED
    return ExitCode.INCONCLUSIVE if verdicts - {Verdict.MET} else 0


COMMAND: Final = Command(
    name="measure",
    summary="send a load, record it, and check the targets",
    description=_DESCRIPTION,
    examples=(
        (
            "latspan measure http://localhost:8000/v1 --rate 2",
            "two requests per second at a model server",
        ),
        (
            "latspan measure http://localhost:8000/v1 --rate 5 --check 'p95 ttft <= 500ms'",
            "the same with a target, and an exit code for a script",
        ),
        ("latspan measure chat", "the load and the targets of chat.toml, from latspan init chat"),
        ("latspan measure app:answer --concurrency 10", "a function of your own"),
        (
            "latspan measure http://localhost:8000/v1 --concurrency 1 --ladder",
            "double the load until the server is saturated",
        ),
        (
            "latspan measure chat --calibrate",
            "what one request alone takes, for a server that reports no times",
        ),
        (
            "latspan measure http://localhost:8000/v1 --replay monday --speed 2",
            "twice the traffic of a recorded day",
        ),
    ),
    add_arguments=add_options,
    run=_run,
)
