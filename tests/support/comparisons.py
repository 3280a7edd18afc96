"""Runs of both sides of a comparison, with requests of known segments."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from latspan import Kind, semconv
from latspan._model.recording.folder import RecordFile, begin_recording
from latspan._study.compare import Run, run_of_records
from latspan.integrations import Outcome
from latspan.testing import MetricValue, RequestRecord, Segment, TokenCounts

ENDPOINT: Final = "http://localhost:8000/v1"
"""What the runs measured."""

_T0_NS: Final = 1_700_000_000_000_000_000
_GAP_NS: Final = 100_000_000
_MEANS_MS: Final = {"queue": 40.0, "prefill": 100.0, "decode": 300.0}
"""Mean time of each segment; a stage is one more segment if it is named."""


def records(
    seed: int,
    count: int = 400,
    *,
    noise: float = 0.05,
    factors: Mapping[str, float] | None = None,
    tail: float = 1.0,
    output: float = 100.0,
    failed: int = 0,
    cached: int | None = 0,
    models: tuple[str, ...] = ("m-1",),
    routes: tuple[str, ...] = ("/chat",),
    change: Callable[[RequestRecord], RequestRecord] = lambda record: record,
) -> list[RequestRecord]:
    """
    Return calls of one run: lognormal segments, one call in ten twice as slow.

    Args:
        seed: Seed of the run.
        count: Number of calls.
        noise: Standard deviation of the logarithm by which runs differ for outside reasons.
        factors: Factor of each segment.
        tail: Further factor of the slow tenth.
        output: Mean number of output tokens.
        failed: Number of calls that fail, the last ones.
        cached: Cached input tokens of 1,000.
        models: Models that answer, in turn.
        routes: Routes of the calls, in turn.
        change: Changes each record.
    """
    random = np.random.default_rng(seed)
    level = float(np.exp(random.normal(0, noise)))
    times: dict[str, NDArray[np.float64]] = {}
    slow = np.where(random.random(count) < 0.1, 2.0 * tail, 1.0)
    changed: dict[str, float] = dict.fromkeys(_MEANS_MS, 1.0) | dict(factors or {})
    for name, factor in changed.items():
        mean = _MEANS_MS.get(name, 100.0) * factor
        values = mean * level * np.exp(random.normal(0, 0.3, count)) * slow
        times[name] = values * 1e6
    outputs = random.poisson(output, count) + 1
    made: list[RequestRecord] = []
    for index in range(count):
        segments: list[Segment] = []
        at = 0
        for name in (*(each for each in times if each != "decode"), "decode"):
            length = max(1, round(float(times[name][index])))
            segments.append(Segment(name, at, at + length))
            at += length
        first = segments[-1].start_ns
        is_failed = index >= count - failed
        metrics = {"duration": MetricValue(at)}
        if not is_failed:
            metrics["time_to_first_token"] = MetricValue(first)
            metrics["time_per_output_token"] = MetricValue((at - first) // int(outputs[index]))
        made.append(
            change(
                RequestRecord(
                    name="chat m",
                    kind=Kind.CALL,
                    outcome=Outcome.ERROR if is_failed else Outcome.COMPLETED,
                    start_epoch_ns=_T0_NS + index * _GAP_NS,
                    duration_ns=at,
                    segments=tuple(segments),
                    metrics=metrics,
                    tokens=TokenCounts(input=1000, cached=cached, output=int(outputs[index])),
                    attributes={"model": "m", "route": routes[index % len(routes)]},
                    details={semconv.GEN_AI_RESPONSE_MODEL: models[index % len(models)]},
                )
            )
        )
    return made


def run(
    seed: int,
    *,
    conditions: Mapping[str, Any] | None = None,
    factors: Mapping[str, float] | None = None,
    **changes: Any,
) -> Run:
    """Return one run in memory; for the arguments see :func:`records`."""
    made = _made(seed, tuple((factors or {}).items()), tuple(changes.items()))
    return replace(made, conditions=dict(conditions or _CONDITIONS))


@functools.lru_cache(maxsize=200)
def _made(
    seed: int, factors: tuple[tuple[str, float], ...], changes: tuple[tuple[str, Any], ...]
) -> Run:
    """Return one run; many tests use the same ones, and their tables take most of the time."""
    return run_of_records(records(seed, factors=dict(factors), **dict(changes)), f"run {seed}")


def runs(first: int, number: int = 5, **changes: Any) -> list[Run]:
    """Return several runs with consecutive seeds."""
    return [run(seed, **changes) for seed in range(first, first + number)]


def recording(folder: Path, seed: int, **changes: Any) -> Path:
    """Write the recording of a program with one run, and return its folder."""
    begin_recording(folder, source="run", conditions=_CONDITIONS)
    file = RecordFile(folder)
    file.begin()
    for record in _in_order(records(seed, **changes)):
        file.append(record)
    file.end()
    return folder


def _in_order(made: list[RequestRecord]) -> Iterator[RequestRecord]:
    yield from sorted(made, key=lambda record: record.start_epoch_ns)


_CONDITIONS: Final[dict[str, Any]] = {
    "host": "a",
    "processors": 4,
    "platform": "Linux",
    "measured": ENDPOINT,
    "model": "m",
    "prompts": {"fingerprint": "sha256:0123456789abcdef", "order": "sha256:1"},
    "cache": "cold",
    "parameters": {"max_tokens": 200},
}
