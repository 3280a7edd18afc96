"""Options of ``latspan measure``, and the settings of a measurement that they make."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from latspan._base.shown import address, foreign
from latspan.cli._argument_types import (
    counting_number,
    counting_numbers,
    duration_s,
    json_object,
    percentile_number,
    positive_number,
    positive_numbers,
    target_limit,
    whole_number,
)
from latspan.cli._measure_limits import check_limits, check_size
from latspan.errors import ConfigError

if TYPE_CHECKING:
    from latspan._load import LoadStep, MeasureSettings, PromptSet
    from latspan._model.goals import InferencePath, Target

_OVERRIDING: Final = (
    "rate",
    "concurrency",
    "ladder",
    "arrivals",
    "burstiness",
    "replay",
    "calibrate",
    "model",
    "prompts",
    "max_tokens",
    "body",
)
"""Options with which something else is measured than the file of an inference path describes."""

_KEY: Final = "OPENAI_API_KEY"
_REQUESTS: Final = {True: 100, False: 300}
"""Default number of measured requests: for a p95 or less, and for more."""

_CALIBRATING: Final = 50
"""Default number of measured requests of a calibration."""

_MAX_TOKENS: Final = 128
"""Default limit on output tokens."""

_MAX_STEPS: Final = 12
"""Most steps of a ladder: 2,048 times its first level."""

_MAX_GENERATED: Final = 20_000
_OF_A_DURATION: Final = 2_000
"""Number of generated prompts if the number of requests is not known."""

_VARIABLE: Final = re.compile("[A-Z][A-Z0-9_]*")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``latspan measure``."""
    from latspan.cli._load_settings import add_load_settings

    parser.add_argument(
        "target",
        metavar="TARGET",
        help="an inference path (NAME of NAME.toml), the URL of an OpenAI-compatible API, or"
        " module:function",
    )
    load = parser.add_argument_group("load")
    load.add_argument(
        "--rate",
        type=positive_numbers,
        metavar="N[,N...]",
        help="requests per second, sent without waiting for earlier ones (open loop); several"
        " rates are measured in turn",
    )
    load.add_argument(
        "--concurrency",
        type=counting_numbers,
        metavar="N[,N...]",
        help="requests in flight; the next one is sent when one ends (closed loop)",
    )
    load.add_argument(
        "--ladder",
        action="store_true",
        help="double the rate or concurrency until the server is saturated",
    )
    load.add_argument(
        "--calibrate",
        action="store_true",
        help="one request in flight, and no target: latspan diagnose then divides the waits for a"
        f" server that reports no times into queue and prefill ({_CALIBRATING} requests by"
        " default)",
    )
    load.add_argument(
        "--arrivals",
        choices=("poisson", "constant", "gamma"),
        help="pattern of an open loop: poisson for independent users (the default), constant gaps,"
        " or gamma for bursts",
    )
    load.add_argument(
        "--burstiness",
        type=positive_number,
        metavar="K",
        help="shape of gamma arrivals: below 1 for bursts, 1 is poisson (default: 0.5)",
    )
    load.add_argument(
        "--replay",
        metavar="RECORDING",
        help="send requests at the times of a recording's requests",
    )
    load.add_argument(
        "--speed",
        type=positive_number,
        default=1.0,
        metavar="X",
        help="speed of the replay: 2 doubles the rate (default: 1)",
    )
    load.add_argument(
        "--requests",
        type=counting_number,
        metavar="N",
        help="measured requests (default: 100; p99: 300)",
    )
    load.add_argument(
        "--duration",
        type=duration_s,
        metavar="TIME",
        help="length of the measurement, such as 30s or 5m",
    )
    load.add_argument(
        "--warmup",
        type=whole_number,
        metavar="N",
        help="requests before the measured ones (default: 10)",
    )
    add_load_settings(load)
    requests = parser.add_argument_group("requests")
    requests.add_argument("--model", help="model (default: the only one of the endpoint)")
    requests.add_argument(
        "--prompts",
        metavar="FILE",
        help="JSONL file with a prompt or messages per line, or a recording whose prompt lengths"
        " are imitated; if not given, prompts of mixed lengths are generated",
    )
    requests.add_argument(
        "--prompt-words",
        type=counting_number,
        default=100,
        metavar="N",
        help="median length of generated prompts; one in ten is ten times longer (default: 100)",
    )
    requests.add_argument(
        "--max-tokens",
        type=counting_number,
        metavar="N",
        help=f"limit on output tokens (default: {_MAX_TOKENS})",
    )
    requests.add_argument(
        "--body",
        type=json_object,
        default={},
        metavar="JSON",
        help="""further fields of each request, such as '{"temperature": 0}'""",
    )
    requests.add_argument(
        "--api-key-env",
        metavar="NAME",
        help=f"variable with the API key (default: {_KEY}); the key is never recorded",
    )
    results = parser.add_argument_group("results")
    results.add_argument(
        "--check",
        type=target_limit,
        action="append",
        default=[],
        metavar="TARGET",
        help="target to check, such as 'p95 ttft <= 500ms'; can be repeated",
    )
    results.add_argument(
        "--percentile",
        type=percentile_number,
        metavar="P",
        help="another percentile to show, besides p50, p95 and p99; the default number of requests"
        " depends on it (default: the highest percentile of the targets, or 95)",
    )
    results.add_argument(
        "-o",
        "--output",
        metavar="FOLDER",
        help="folder of the recording (default: recordings/NAME-TIME)",
    )
    results.add_argument(
        "--no-result",
        action="store_true",
        help="do not keep the result of an inference path for latspan status",
    )
    results.add_argument(
        "--otlp-endpoint",
        metavar="URL",
        help="also send spans and metrics there, for example http://localhost:4318",
    )
    results.add_argument(
        "--json",
        action="store_true",
        help="print one JSON document (latspan.measurement/1) instead of the tables",
    )


def overriding_option(arguments: argparse.Namespace) -> str | None:
    """
    Return an option with which something else is measured than the file describes, if one is given.

    These are the options of the load, of the model and the prompts, and of each setting that is a
    condition of the measurement.
    """
    from latspan._model.goals import SETTINGS

    names = {name: f"--{name.replace('_', '-')}" for name in _OVERRIDING}
    names |= {each.name: each.option_name for each in SETTINGS if each.is_condition}
    return next((option for name, option in names.items() if getattr(arguments, name)), None)


def folder_of(arguments: argparse.Namespace, name: str) -> Path:
    """Return the folder of the recording."""
    if arguments.output is not None:
        return Path(arguments.output)
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", name.partition("://")[2] or name).strip("-.")
    now = datetime.now().astimezone()
    # Microseconds, as in the names of results: two measurements may begin within one second.
    return Path("recordings") / f"{plain}-{now:%Y%m%d-%H%M%S-%f}"


def settings_of(arguments: argparse.Namespace) -> MeasureSettings:
    """
    Return the settings that a command line and the file of an inference path define.

    Raises:
        ConfigError: They contradict each other, or a file cannot be read.
    """
    from latspan._load import Endpoint, MeasureSettings
    from latspan.cli._load_settings import effective_settings, load_settings

    name, path = _described(arguments.target)
    what = arguments.target if path is None else path.endpoint
    if path is not None and not what:
        raise ConfigError(
            f"the inference path '{name}' has no endpoint",
            hint=f"set endpoint in {name}.toml to the URL of an API, or to module:function",
        )
    function = None if "://" in what else what
    traffic = None if path is None else path.traffic
    targets: tuple[Target, ...] = (*(() if path is None else path.targets), *arguments.check)
    if arguments.calibrate:
        # An idle server says nothing about a target that holds under load.
        targets = tuple(arguments.check)
    if function is not None:
        _refuse_metrics_of_calls(targets)
    percentile = arguments.percentile or max((each.percentile for each in targets), default=95.0)
    load = load_settings(arguments, traffic)
    if function is not None and arguments.body:
        raise ConfigError(
            "--body changes requests to an API, not the calls of a function",
            hint="let the function do it",
        )
    check_limits(prompt_words=arguments.prompt_words)
    steps, stops = _steps(arguments, path, percentile=percentile, seed=load.seed)
    load = effective_settings(
        load, arguments, has_api=function is None, has_rate=steps[0].schedule.is_open
    )
    return MeasureSettings(
        name=name,
        endpoint=None if function else Endpoint.from_url(what, api_key=_api_key(arguments)),
        function=function,
        model=arguments.model or (path.model if path else None) or None,
        prompts=_prompts(arguments, path, steps, seed=load.seed),
        steps=steps,
        stops_at_saturation=stops,
        load=load,
        targets=targets,
        percentile=percentile,
        parameters=_parameters(arguments),
        otlp_endpoint=arguments.otlp_endpoint,
    )


def _refuse_metrics_of_calls(targets: Sequence[Target]) -> None:
    """Refuse a target that no request of a function has, before the load is sent."""
    from latspan._model.metrics import OF_REQUESTS

    for target in targets:
        if target.metric not in OF_REQUESTS:
            raise ConfigError(
                f"the requests of a function have no {target.metric}",
                hint=f"a target of a function is of {' or '.join(OF_REQUESTS)}",
            )


def _described(target: str) -> tuple[str, InferencePath | None]:
    """Return the name of what is measured, and its inference path if it is one."""
    if "://" in target:
        return address(target), None
    from latspan._model.goals import SUFFIX, read_inference_path

    if ":" in target and not target.endswith(SUFFIX):
        module, _, attribute = target.partition(":")
        if re.fullmatch(r"[\w.]+", module) and re.fullmatch(r"[\w.]+", attribute):
            if attribute.isdecimal():
                raise ConfigError(f"'{target}' is not a URL", hint=f"use http://{target}/v1")
            return target, None
        shown = foreign(target.partition("?")[0])
        raise ConfigError(
            f"'{shown}' is neither a name, nor a URL, nor module:function",
            hint="for example chat, http://localhost:8000/v1 or app:answer",
        )
    path = read_inference_path(target)
    return path.name, path


def _api_key(arguments: argparse.Namespace) -> str | None:
    named: str | None = arguments.api_key_env
    key = os.environ.get(named or _KEY, "").strip()
    if named is not None and not key:
        if not _VARIABLE.fullmatch(named):
            # It may be the key itself, so it is not shown.
            raise ConfigError(
                "the variable that --api-key-env names has no API key",
                hint="pass the name of a variable, not the key: --api-key-env MY_API_KEY",
            )
        raise ConfigError(f"the variable {named} has no API key", hint=f"export {named}=...")
    if not key.isascii() or not key.isprintable():
        raise ConfigError(
            f"the API key in {named or _KEY} has characters that no key has",
            hint="set the variable to the key alone, without quotes or a line end",
        )
    return key or None


def _parameters(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the further fields of each request: those of ``--body``, and a limit on the output."""
    body: dict[str, Any] = arguments.body
    limit = arguments.max_tokens
    if limit is None and not {"max_tokens", "max_completion_tokens"} & body.keys():
        limit = _MAX_TOKENS
    return body if limit is None else {"max_tokens": limit, **body}


def _steps(
    arguments: argparse.Namespace, path: InferencePath | None, *, percentile: float, seed: int
) -> tuple[Sequence[LoadStep], bool]:
    """Return the steps, and whether they end at saturation."""
    from latspan._load import cut_to, ladder, replayed, step_of
    from latspan._model.goals import Arrivals

    chosen = [
        name for name in ("rate", "concurrency", "replay") if getattr(arguments, name) is not None
    ]
    if arguments.calibrate:
        chosen.append("calibrate")
    if len(chosen) > 1:
        raise ConfigError(f"--{chosen[0]} and --{chosen[1]} exclude each other", hint="use one")
    if arguments.calibrate and arguments.ladder:
        raise ConfigError("--calibrate has one request in flight", hint="omit --ladder")
    traffic = path.traffic if path is not None and not chosen else None
    duration_s = arguments.duration or (traffic.duration_s if traffic else None)
    requests = arguments.requests or (traffic.requests if traffic else None)
    if requests is None and duration_s is None:
        requests = _CALIBRATING if arguments.calibrate else _REQUESTS[percentile <= 95]
    warmup = 10 if arguments.warmup is None else arguments.warmup
    check_limits(duration=duration_s, requests=requests, warmup=warmup, speed=arguments.speed)
    duration_ns = None if duration_s is None else round(duration_s * 1e9)
    if arguments.replay is not None:
        if arguments.ladder or arguments.arrivals:
            raise ConfigError("--replay has arrivals of its own", hint="use --speed to scale them")
        schedule = replayed(_starts_in(arguments.replay), speed=arguments.speed)
        most = None if arguments.requests is None else requests
        warmup = 0 if arguments.warmup is None else warmup
        if len(schedule.offsets_ns) <= warmup:
            raise ConfigError(
                f"the recording has {len(schedule.offsets_ns):,} requests, all of them warm-up",
                hint="lower --warmup",
            )
        return [cut_to(schedule, warmup=warmup, requests=most, duration_ns=duration_ns)], False
    pattern, levels, burstiness = _pattern(arguments, traffic)
    check_limits(
        **{"concurrency" if pattern is Arrivals.CLOSED else "rate": levels}, burstiness=burstiness
    )
    if arguments.ladder:
        if len(levels) > 1:
            raise ConfigError("--ladder begins at one level", hint="give one rate or concurrency")
        levels = list(islice(ladder(levels[0]), _MAX_STEPS))
    if duration_s is not None and requests is None and pattern is not Arrivals.CLOSED:
        check_size(max(levels), duration_s)
    return [
        step_of(
            pattern,
            level,
            warmup=max(warmup, round(level)) if pattern is Arrivals.CLOSED and warmup else warmup,
            requests=requests,
            duration_ns=duration_ns,
            seed=seed,
            burstiness=burstiness,
        )
        for level in levels
    ], bool(arguments.ladder)


def _pattern(arguments: argparse.Namespace, traffic: Any) -> tuple[Any, list[float], float]:
    """Return the pattern of the arrivals, its levels, and the burstiness."""
    from latspan._model.goals import Arrivals

    burstiness = arguments.burstiness or (traffic.burstiness if traffic else None) or 0.5
    levels: list[float] | None = arguments.concurrency
    if levels is None and arguments.rate is None:
        if not traffic:
            levels = [1.0]
        elif traffic.arrivals is Arrivals.CLOSED:
            levels = [float(traffic.concurrency)]
    if levels is not None:
        for name in ("arrivals", "burstiness"):
            if getattr(arguments, name) is not None:
                raise ConfigError(
                    f"--{name} {getattr(arguments, name)} needs a rate",
                    hint="add --rate, for example 2",
                )
        return Arrivals.CLOSED, levels, burstiness
    pattern = "poisson" if arguments.rate is not None else traffic.arrivals
    pattern = arguments.arrivals or ("gamma" if arguments.burstiness else pattern)
    return Arrivals(pattern), arguments.rate or [traffic.rate_per_s], burstiness


def _starts_in(folder: str) -> list[int]:
    """Return the starts of the outermost requests of a recording, without warm-up and drain."""
    from latspan import semconv
    from latspan._model.recording.folder import open_recording
    from latspan._model.segments import Kind, Phase

    starts: dict[Kind, list[int]] = {}
    for record in open_recording(folder).records():
        if record.parent_id or record.kind is Kind.STAGE:
            continue
        if record.details.get(semconv.LATSPAN_LOAD_PHASE, Phase.MEASURED) == Phase.MEASURED:
            starts.setdefault(record.kind, []).append(record.start_epoch_ns)
    for kind in (Kind.REQUEST, Kind.CALL, Kind.HTTP):
        if starts.get(kind):
            return starts[kind]
    return []


def _prompts(
    arguments: argparse.Namespace,
    path: InferencePath | None,
    steps: Sequence[LoadStep],
    *,
    seed: int,
) -> PromptSet:
    from latspan._load import generated, prompts_like, read_prompts
    from latspan._model.recording.folder import is_recording

    file: str = arguments.prompts or (path.prompt.prompts if path is not None else "")
    known = [step.warmup + 2 * step.measured for step in steps if step.measured is not None]
    count = min(_MAX_GENERATED, 1 + sum(known)) if known else _OF_A_DURATION
    if not file:
        return generated(count, seed=seed, words=arguments.prompt_words)
    if is_recording(file):
        return prompts_like(list(_lengths_in(file)), count, seed=seed)
    return read_prompts(file, seed=seed)


def _lengths_in(folder: str) -> Iterator[int]:
    """
    Yield the numbers of input tokens of a recording's calls.

    Raises:
        ConfigError: The recording has none.
    """
    from latspan._model.recording.folder import open_recording

    found = False
    for record in open_recording(folder).records("call"):
        if record.tokens.input:
            found = True
            yield record.tokens.input
    if not found:
        raise ConfigError(
            f"the recording {folder} has no prompts and no prompt lengths",
            hint="recordings never hold prompts; use a JSONL file, or a recording whose server"
            " reports token counts",
        )
