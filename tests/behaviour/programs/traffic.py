"""Chats that the programs here send, and a document about them."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import openai

import latspan
from latspan import Kind, Snapshot
from latspan._model.units import in_metric_unit
from latspan.testing import RequestRecord

MODEL = "small"
PLAIN_CHATS = 16
STEPS = PLAIN_CHATS + 6
METRICS = (
    "time_to_first_token",
    "time_to_first_visible_token",
    "time_per_output_token",
    "chunk_gap",
    "stall_duration",
    "stall_ratio",
    "fluidity",
    "buffer_needed",
    "gen_ai.client.operation.duration",
    "gen_ai.client.operation.time_to_first_chunk",
    "gen_ai.client.operation.time_per_output_chunk",
    "gen_ai.client.token.usage",
)


def steps(base_url: str) -> Iterator[None]:
    """Do one user-visible thing per step: 24 calls, 4 of them in 2 requests, 1 of them retried."""
    with openai.OpenAI(base_url=base_url, api_key="none", max_retries=0) as client:
        for _ in range(PLAIN_CHATS):
            stream(client)
            yield
        client.chat.completions.create(model=MODEL, messages=[])
        yield
        break_off(client)
        yield
        fail(client)
        yield
        stream(client.with_options(max_retries=1))
        yield
        for _ in range(2):
            check_out(client)
            yield


def stream(client: openai.OpenAI) -> list[str]:
    chunks = client.chat.completions.create(
        model=MODEL, messages=[], stream=True, stream_options={"include_usage": True}
    )
    return [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]


def break_off(client: openai.OpenAI) -> None:
    with client.chat.completions.create(model=MODEL, messages=[], stream=True) as chunks:
        for _ in chunks:
            break


def fail(client: openai.OpenAI) -> None:
    try:
        stream(client)
    except openai.InternalServerError:
        return
    raise AssertionError("the server was to fail")


def check_out(client: openai.OpenAI) -> None:
    with latspan.request("checkout"):
        with latspan.stage("retrieve"):
            sum(range(10_000))
        stream(client)
        stream(client)


def print_document() -> None:
    """Print everything that latspan has recorded in this process."""
    snapshot = latspan.snapshot()
    document = {
        "records": [as_json(record) for record in snapshot.records],
        "distributions": list(distributions(snapshot)),
    }
    sys.stdout.write(json.dumps(document))
    sys.stdout.flush()


def leave_at_once() -> None:
    """End the process without exit handlers, so that nothing more is exported."""
    os._exit(0)


def as_json(record: RequestRecord) -> dict[str, Any]:
    return {
        "name": record.name,
        "kind": record.kind,
        "outcome": record.outcome,
        "failed": record.outcome.failed,
        "trace_id": f"{record.trace_id:032x}",
        "span_id": f"{record.span_id:016x}",
        "start_epoch_ns": record.start_epoch_ns,
        "duration_ns": record.duration_ns,
        "segments": [
            [segment.name, segment.start_ns, segment.end_ns, segment.source]
            for segment in record.segments
        ],
    }


def distributions(snapshot: Snapshot) -> Iterator[dict[str, Any]]:
    for kind in Kind:
        named = [
            *((name, None, snapshot.metric(name, kind=kind)) for name in METRICS),
            *(("segment", name, snapshot.segment(name, kind=kind)) for name in snapshot.segments()),
        ]
        for metric, segment, values in named:
            if values.count():
                p95 = None
                if values.count() >= 20:
                    # Of the values seen, as a histogram that was exported has it.
                    p95 = in_metric_unit(values.histogram.value_at_percentile(95), values.unit)
                yield {
                    "metric": metric,
                    "segment": segment,
                    "kind": kind,
                    "count": values.count(),
                    "p95": p95,
                }
    yield from lower_bounds(snapshot)


def lower_bounds(snapshot: Snapshot) -> Iterator[dict[str, Any]]:
    counts: Counter[tuple[str, str | None, Kind]] = Counter()
    for key, series in snapshot.series.items():
        if key.is_at_least:
            counts[key.metric, key.segment, key.kind] += series.histogram.count
    for (metric, segment, kind), count in counts.items():
        yield {"metric": metric, "segment": segment, "kind": kind, "count": count, "p95": None}
