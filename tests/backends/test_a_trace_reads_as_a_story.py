"""What Jaeger shows of a request is its story: who, in which order, where the wait was."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from latspan.testing import Script, ScriptedServer
from support.backends import Backends, eventually
from support.otlp import attributes_of
from support.programs import run_program
from support.readback import by_trace, spans_in
from support.stories import faults, story
from tests.backends.conftest import TIMES, Run

PLAIN: Final = """\
chat small
  prepare
  pool_wait
  connect
  send
  queue
  prefill
  decode
  stream_close
"""

WITHOUT_A_STREAM: Final = """\
chat small
  prepare
  pool_wait
  connect
  send
  server_wait
  prefill
  decode
  postprocess
"""

LEFT_EARLY: Final = """\
chat small
  prepare
  pool_wait
  send
  server_wait
  stream_close
"""

FAILED: Final = """\
chat small (failed)
  prepare
  pool_wait
  connect
  send
  server_wait
  postprocess
"""

TRIED_TWICE: Final = """\
chat small
  prepare
  POST (failed)
  POST
  pool_wait
  connect
  send
  queue
  prefill
  decode
  stream_close
"""

TWO_CALLS: Final = """\
checkout
  retrieve
  chat small
    prepare
    pool_wait
    connect
    send
    queue
    prefill
    decode
    stream_close
  chat small
    prepare
    pool_wait
    connect
    send
    queue
    prefill
    decode
    stream_close
"""

SERVED: Final = """\
evening
  POST
    prepare
    pool_wait
    connect
    send
    POST /rooms/{room}/chat
      auth
      rerank
      chat small
        prepare
        pool_wait
        connect
        send
        queue
        prefill
      moderate
"""

NAMES: Final = {
    "chat small",
    "checkout",
    "POST",
    *("prepare", "pool_wait", "connect", "send", "server_wait", "queue", "prefill"),
    *("network", "decode", "stream_close", "retrieve", "postprocess"),
}
"""Of every span that the program's 24 calls and 2 requests have, however often it makes them."""


UNCERTAIN: Final = frozenset({"network"})
"""What is left of a wait beside what its server reports: at times nothing is."""


def read(backends: Backends, trace_id: str, spans: int, without: frozenset[str]) -> str:
    """Return a trace's story when Jaeger has so many of the spans that it tells of."""

    def look() -> list[Span]:
        found = spans_in(backends.trace(trace_id))
        return [span for span in found if span.name not in without]

    return story(eventually(look, lambda it: len(it) >= spans))


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (0, PLAIN),
        (16, WITHOUT_A_STREAM),
        (17, LEFT_EARLY),
        (18, FAILED),
        (19, TRIED_TWICE),
        (20, TWO_CALLS),
    ],
    ids=["plain", "without a stream", "left early", "failed", "tried twice", "two calls"],
)
def test_a_request(run: Run, step: int, expected: str) -> None:
    """
    As the program makes them, one after the other, and all of it several times.

    What most of them are: where the program is held up, time of its own comes between chunks.
    """
    roots: list[dict[str, Any]] = sorted(
        {each["trace_id"]: each for each in run.document["records"]}.values(),
        key=lambda each: each["start_epoch_ns"],
    )
    again = roots[step :: len(roots) // TIMES]
    sent = Counter(
        span.trace_id.hex() for span in spans_in(run.spans) if span.name not in UNCERTAIN
    )

    ids = [each["trace_id"] for each in again]
    stories = Counter(read(run.backends, each, sent[each], UNCERTAIN) for each in ids)
    assert len(again) == TIMES
    assert stories.most_common(1)[0][0] == expected


def test_a_served_request(backends: Backends) -> None:
    """
    The trace holds caller, server and model; no name holds an id of the path or the query.

    The comparison leaves out the segments that depend on the machine's speed. A server may begin
    before its client knows that the request is sent, so ``server_wait`` may precede or follow it. A
    write that takes more than 1 ms is ``send_stream``: it interrupts the model's chunks, or follows
    them.
    """
    with ScriptedServer([Script.chat(tokens=5, queue_ms=20, prefill_ms=30, gap_ms=2)]) as model:
        trace_id = run_program(
            "serves_and_asks", model.base_url, LATSPAN_ENDPOINT=backends.otlp_url
        )

    without = UNCERTAIN | {"server_wait", "decode", "stream_close", "send_stream"}
    assert read(backends, trace_id, SERVED.count("\n"), without) == SERVED


def test_names_are_few(run: Run) -> None:
    assert {span.name for span in spans_in(run.spans)} == NAMES


def test_nothing_in_a_trace_misleads(run: Run) -> None:
    """No span is empty or outside its parent, and segments do not overlap."""
    traces = by_trace(run.spans)

    assert [fault for spans in traces.values() for fault in faults(spans)] == []


def test_segments_leave_no_gap(run: Run) -> None:
    """Of a call that succeeded at once: each begins where the one before ended, from end to end."""
    spans = list(spans_in(run.spans))
    plain = [span for span in spans if span.name == "chat small" and is_plain(span)]
    # All 21, but for those between whose chunks the program was held up.
    assert len(plain) > TIMES * 21 / 2

    for call in plain:
        bounds = [
            (span.start_time_unix_nano, span.end_time_unix_nano)
            for span in spans
            if span.parent_span_id == call.span_id
        ]
        starts, ends = zip(*sorted(bounds), strict=True)
        assert starts == (call.start_time_unix_nano, *ends[:-1])
        assert ends[-1] == call.end_time_unix_nano


def is_plain(call: Span) -> bool:
    said = attributes_of(call.attributes)
    interleaved = {"latspan.retry.duration", "latspan.consumer.duration"} & said.keys()
    return said["latspan.outcome"] == "completed" and not interleaved
