"""
An application that works on request: ``works_until_told.py MODEL_URL``.

For each line of its input it sends its chats, flushes latspan, and prints a line: the number of
calls so far, and the recorded values that a rate covers, which are those that were added to a
series after its first export. It ends with its input.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import openai
import traffic

import latspan
from latspan import Distribution, Snapshot
from latspan.errors import NotEnoughValuesError

WORK_S = 0.02
"""Time that is longer than the gap between two chunks, in seconds."""


def main(model_url: str) -> None:
    # Some tests make it lose records, which latspan would report on standard error.
    logging.getLogger("latspan").addHandler(logging.NullHandler())
    latspan.auto_instrument()
    latspan.configure()
    base: Snapshot | None = None
    for _ in sys.stdin:
        for _ in traffic.steps(model_url):
            pass
        read_slowly(model_url)
        latspan.force_flush()
        now = latspan.snapshot()
        # A series may start in any export, for example if a server's report was rejected.
        begun = now.series if base is None else {**now.series, **base.series}
        base = replace(now, series=MappingProxyType(begun))
        made = now.count(kind="call")
        sys.stdout.write(f"{json.dumps({'made': made, **calls_of(now.diff(base))})}\n")
        sys.stdout.flush()


def read_slowly(model_url: str) -> None:
    """Work between chunks, so that the series of slow readers start with the first export."""
    with openai.OpenAI(base_url=model_url, api_key="none", max_retries=0) as client:
        for _ in client.chat.completions.create(
            model=traffic.MODEL, messages=[], stream=True, stream_options={"include_usage": True}
        ):
            time.sleep(WORK_S)


def calls_of(snapshot: Snapshot) -> dict[str, Any]:
    calls = snapshot.where(kind="call")
    metrics = {name: calls.metric(name, kind="call") for name in traffic.METRICS}
    segments = {name: calls.segment(name, kind="call") for name in calls.segments()}
    return {
        "metrics": {name: told(values) for name, values in metrics.items() if values.count()},
        "segments": {name: told(values) for name, values in segments.items() if values.count()},
        "outcomes": {
            outcome: held.count(kind="call")
            for outcome, held in calls.group_by("outcome").items()
            if outcome is not None
        },
    }


def told(values: Distribution) -> dict[str, Any]:
    everyone = {
        "cut": values.cut(),
        "failed": values.failed(),
        "p95_bounds": values.percentile_bounds(95, unit="s") if values.count() >= 20 else None,
    }
    # A panel shows the values seen; requests without one are in metrics of their own.
    values = replace(values, population=None)
    return {
        **everyone,
        "count": values.count(),
        "mean": values.mean(unit="s"),
        "p95": percentile(values, 95),
        "p99": percentile(values, 99),
        "above_zero": values.fraction_above(0),
    }


def percentile(values: Distribution, p: int) -> float | None:
    try:
        return values.percentile(p, unit="s")
    except NotEnoughValuesError:
        return None


main(*sys.argv[1:])
