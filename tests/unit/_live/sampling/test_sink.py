"""All spans of a trace are exported or left out together, in whatever order they end."""

from __future__ import annotations

import sys
import threading
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    StatusCode,
    TraceFlags,
)

from latspan import semconv
from latspan._base.nanoseconds import NS_PER_S
from latspan._live.otel.export import PrivateSink
from latspan._live.otel.spans import AttributeValue, ChildSpan, FinishedSpan, OpenSpan
from latspan._live.sampling import SamplingSink
from latspan._live.sampling import _trace_buffer as limits
from latspan._model.segments import Outcome

ALIKE = {semconv.LATSPAN_KIND: "request", semconv.LATSPAN_INFERENCE_PATH: "chat"}
NEVER_BY_CHANCE = 1 << 100
USUAL_NS, SLOW_NS = 1_000, 1_000_000


class Traces:
    """Traces that pass through a sampling sink after a run of usual requests."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        provider = TracerProvider(resource=Resource.get_empty(), shutdown_on_exit=False)
        self.sink = SamplingSink(PrivateSink(provider, self.exporter.export), 0.05, SLOW_NS - 1)
        for number in range(1_000):
            self.end(self.begin("usual", remote=number + 1), took_ns=USUAL_NS)
        self.exporter.clear()
        self.left_out_before = self.sink.traces.sampled_out

    def begin(
        self, name: str, *, beneath: OpenSpan | None = None, remote: int = 0, sampled: bool = True
    ) -> OpenSpan:
        """Open a span at 0, with a local, a remote or no parent."""
        parent_context = Context() if beneath is None else beneath.context
        if remote:
            flags = TraceFlags(TraceFlags.SAMPLED if sampled else 0)
            parent = SpanContext(NEVER_BY_CHANCE + remote, 1, is_remote=True, trace_flags=flags)
            parent_context = trace.set_span_in_context(NonRecordingSpan(parent))
        return self.sink.open(
            name,
            kind=SpanKind.INTERNAL,
            start_epoch_ns=0,
            attributes=ALIKE,
            parent_context=parent_context,
        )

    def end(
        self,
        span: OpenSpan,
        *,
        took_ns: int = USUAL_NS,
        failed: bool = False,
        children: int = 0,
        first_token_s: float | None = None,
        outcome: Outcome = Outcome.COMPLETED,
    ) -> None:
        """Finish a span."""
        attributes: dict[str, AttributeValue] = {semconv.LATSPAN_OUTCOME: outcome}
        if first_token_s is not None:
            attributes[semconv.LATSPAN_TIME_TO_FIRST_TOKEN] = first_token_s
        below = tuple(ChildSpan("segment", 0, took_ns, {}) for _ in range(children))
        span.end(FinishedSpan(took_ns, attributes, failed=failed, children=below))

    @property
    def names(self) -> list[str]:
        """Names of the exported spans."""
        return [span.name for span in self.exporter.get_finished_spans()]

    @property
    def sampled_out(self) -> int:
        """Number of traces left out since construction."""
        return self.sink.traces.sampled_out - self.left_out_before


@pytest.fixture
def traces() -> Traces:
    return Traces()


@pytest.mark.parametrize("took_ns", [USUAL_NS, SLOW_NS])
def test_a_trace_is_kept_whole_or_left_out_whole(traces: Traces, took_ns: int) -> None:
    """Spans that have ended are held until the root ends."""
    root = traces.begin("root", remote=9_999)
    child = traces.begin("child", beneath=root)
    grandchild = traces.begin("grandchild", beneath=child)
    traces.end(grandchild)
    traces.end(child, children=2)
    assert traces.names == []

    traces.end(root, took_ns=took_ns)

    whole = ["grandchild", "segment", "segment", "child", "root"]
    assert traces.names == (whole if took_ns == SLOW_NS else [])
    assert traces.sampled_out == (took_ns == USUAL_NS)
    assert traces.sink.traces.lost == 0


def test_a_failure_anywhere_keeps_the_trace(traces: Traces) -> None:
    """Its later spans are exported immediately."""
    root = traces.begin("root", remote=9_999)
    traces.end(traces.begin("fine", beneath=root))
    failing = traces.begin("failing", beneath=root)
    assert not root.kept

    traces.end(failing, failed=True)

    assert root.kept
    assert traces.names == ["fine", "failing"]
    traces.end(root)
    assert traces.names == ["fine", "failing", "root"]


@pytest.mark.parametrize("code", [StatusCode.ERROR, StatusCode.OK])
def test_an_error_that_the_application_sets_keeps_the_trace(
    traces: Traces, code: StatusCode
) -> None:
    """It counts as a failure although latspan has recorded none."""
    root = traces.begin("root", remote=9_999)
    trace.get_current_span(root.context).set_status(code)
    root.add_event("event", {}, 1)
    root.stop_recording()
    assert not trace.get_current_span(root.context).is_recording()

    traces.end(root)

    assert traces.names == (["root"] if code is StatusCode.ERROR else [])


def test_a_late_first_token_in_a_call_keeps_the_request(traces: Traces) -> None:
    """It is compared with the first tokens of other requests."""
    for number in range(300):
        root = traces.begin("usual", remote=5_000 + number)
        traces.end(traces.begin("call", beneath=root), first_token_s=(number % 100) / 1e6)
        traces.end(root)
    traces.exporter.clear()
    root = traces.begin("usual", remote=9_999)

    traces.end(traces.begin("call", beneath=root), first_token_s=0.5)
    traces.end(root)

    assert traces.names == ["call", "usual"]


@pytest.mark.parametrize("failed", [True, False])
def test_a_child_that_ends_after_its_root_may_still_fail(traces: Traces, failed: bool) -> None:
    """The trace waits for it."""
    root = traces.begin("root", remote=9_999)
    late = traces.begin("late", beneath=root)
    traces.end(root)
    assert (traces.names, traces.sampled_out) == ([], 0)

    traces.end(late, failed=failed)

    assert traces.names == (["root", "late"] if failed else [])
    assert traces.sampled_out == (not failed)


def test_a_span_that_starts_after_a_kept_trace_is_kept(traces: Traces) -> None:
    """Its parent has been exported."""
    root = traces.begin("root", remote=9_999)
    traces.end(root, took_ns=SLOW_NS)

    traces.end(traces.begin("after", beneath=root))

    assert traces.names == ["root", "after"]


@pytest.mark.parametrize("failed", [True, False])
def test_a_span_that_starts_after_a_left_out_trace_is_decided_separately(
    traces: Traces, failed: bool
) -> None:
    """If it fails, it is kept without its parent."""
    root = traces.begin("root", remote=9_999)
    traces.end(root)

    traces.end(traces.begin("root", beneath=root), failed=failed)

    assert traces.names == (["root"] if failed else [])


def test_overlapping_requests_of_one_trace_are_kept_together(traces: Traces) -> None:
    """A client can send two requests to its server at once."""
    one = traces.begin("one", remote=9_999)
    other = traces.begin("other", remote=9_999)
    traces.end(one)

    traces.end(other, took_ns=SLOW_NS)

    assert traces.names == ["one", "other"]


def test_an_unsampled_remote_parent_leaves_the_trace_out(traces: Traces) -> None:
    """Even if the trace fails: the sampler of the caller has priority."""
    span = traces.begin("root", remote=9_999, sampled=False)

    traces.end(span, failed=True)

    assert (traces.names, traces.sampled_out) == ([], 0)


def test_random_selection_is_decided_at_the_start(traces: Traces) -> None:
    """Spans of a selected trace are not held."""
    root = traces.begin("root", remote=(1 << 56) - 1)
    assert root.kept

    traces.end(traces.begin("child", beneath=root))

    assert traces.names == ["child"]


def test_children_added_to_an_open_span_are_held_too(traces: Traces) -> None:
    """Such children are exported as children of the current span."""
    root = traces.begin("root", remote=9_999)
    child = ChildSpan("child", 0, 1, {})

    traces.sink.end_children([child], root.context)

    assert traces.names == []
    traces.end(root, took_ns=SLOW_NS)
    traces.sink.end_children([child], root.context)
    assert traces.names == ["child", "root", "child"]


def test_exemplar_callbacks_wait_for_the_decision(traces: Traces) -> None:
    """A callback is called once if the trace is kept, and never otherwise."""
    told: list[str] = []
    slow, usual = traces.begin("slow", remote=9_998), traces.begin("usual", remote=9_999)
    slow.when_kept(lambda: told.append("slow"))
    usual.when_kept(lambda: told.append("usual"))
    assert told == []

    traces.end(slow, took_ns=SLOW_NS)
    traces.end(usual)
    slow.when_kept(lambda: told.append("asked later"))
    usual.when_kept(lambda: told.append("asked later"))

    assert told == ["slow", "asked later"]


def test_spans_over_the_limit_per_trace_are_counted_as_lost(traces: Traces) -> None:
    """Spans of a trace that is left out do not count as lost."""
    for remote, took_ns in ((9_998, USUAL_NS), (9_999, SLOW_NS)):
        root = traces.begin("root", remote=remote)
        for _ in range(limits.MAX_SPANS_PER_TRACE + 10):
            traces.end(traces.begin("child", beneath=root), children=1)
        traces.end(root, took_ns=took_ns)

    assert len(traces.names) == 2 * limits.MAX_SPANS_PER_TRACE + 1
    assert traces.sink.traces.lost == 20


def test_the_limit_on_all_held_spans_is_enforced(traces: Traces) -> None:
    """Room is available again after traces have ended."""
    roots = [traces.begin("root", remote=10_000 + number) for number in range(20)]
    for root in roots:
        for _ in range(300):
            traces.end(traces.begin("child", beneath=root))
    for root in roots:
        traces.end(root, took_ns=SLOW_NS)
    assert traces.names.count("child") == limits.MAX_SPANS
    assert traces.sink.traces.lost == 20 * 300 - limits.MAX_SPANS

    after = traces.begin("root", remote=9_999)
    traces.end(traces.begin("child", beneath=after))
    traces.end(after, took_ns=SLOW_NS)

    assert traces.names.count("child") == limits.MAX_SPANS + 1


def test_a_root_that_never_ends_is_kept_after_ten_minutes(traces: Traces) -> None:
    """At the next end of any span, its spans so far are exported; later ones follow."""
    endless = traces.begin("endless", remote=9_998)
    traces.end(traces.begin("child", beneath=endless))

    traces.end(traces.begin("root", remote=9_999), took_ns=601 * NS_PER_S)

    assert traces.names == ["root", "child"]
    traces.end(traces.begin("later", beneath=endless))
    assert traces.names == ["root", "child", "later"]


def test_a_child_that_never_ends_does_not_keep_its_trace(traces: Traces) -> None:
    """The end of its root decides."""
    root = traces.begin("root", remote=9_998)
    traces.begin("endless", beneath=root)
    traces.end(root)

    traces.end(traces.begin("slow", remote=9_999), took_ns=601 * NS_PER_S)

    assert traces.names == ["slow"]
    assert traces.sampled_out == 1


def test_open_traces_are_kept_at_shutdown(traces: Traces) -> None:
    """The outcome of their roots is not known yet."""
    endless = traces.begin("endless", remote=9_999)
    traces.end(traces.begin("child", beneath=endless))

    traces.sink.traces.release()

    assert traces.names == ["child"]


def test_an_abandoned_trace_is_kept_and_its_duration_does_not_count(traces: Traces) -> None:
    """A request that a shutdown ends would have taken longer."""
    for number in range(300):
        abandoned = traces.begin("abandoned", remote=9_000 + number)
        traces.end(traces.begin("child", beneath=abandoned))
        traces.end(abandoned, took_ns=1, outcome=Outcome.ABANDONED)
    assert traces.names == ["child", "abandoned"] * 300

    traces.end(traces.begin("quick", remote=9_999), took_ns=2)
    assert traces.sampled_out == 1


def test_concurrent_threads_lose_no_spans(traces: Traces) -> None:
    """Each of eight threads has its own traces, and all of them share one more."""
    shared = traces.begin("shared", remote=9_999)

    def work(number: int) -> None:
        for turn in range(100):
            root = traces.begin("root", remote=10_000 + 100 * number + turn)
            traces.end(traces.begin("beneath", beneath=root))
            traces.end(traces.begin("piece", beneath=shared) if turn < 60 else root)
            if turn < 60:
                traces.end(root, took_ns=SLOW_NS)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    traces.end(shared, took_ns=SLOW_NS)

    assert traces.names.count("piece") == 8 * 60
    assert traces.names.count("root") == traces.names.count("beneath") == 8 * 60
    assert traces.sampled_out == 8 * 40


def test_a_span_that_starts_while_its_trace_closes_gets_a_decision(traces: Traces) -> None:
    """It finds the trace, whose last span then ends before the new one is counted as open."""

    class Racing(dict[int, limits.HeldTrace]):
        """Let the other thread run to its end between a lookup and the next step."""

        def get(self, key: int, default: Any = None) -> Any:
            found = super().get(key, default)
            if ending:
                traces.end(ending.pop())
            return found

    traces.sink.traces._traces = Racing()  # pyright: ignore[reportPrivateUsage]
    ending: list[OpenSpan] = []
    first = traces.begin("first", remote=5_000)
    ending.append(first)
    second = traces.begin("second", remote=5_000)
    traces.end(second, took_ns=SLOW_NS)

    assert traces.names == ["second"]
    assert traces.sampled_out == 1


def test_spans_that_start_while_traces_close_are_not_lost(traces: Traces) -> None:
    """Two threads switch as often as possible; each trace closes while another span starts."""
    rounds = 2_000
    before = sys.getswitchinterval()
    firsts = [traces.begin("first", remote=5_000 + number) for number in range(rounds)]

    def end_all() -> None:
        for first in firsts:
            traces.end(first)

    thread = threading.Thread(target=end_all)
    sys.setswitchinterval(1e-6)
    try:
        thread.start()
        for number in range(rounds):
            traces.end(traces.begin("second", remote=5_000 + number), took_ns=SLOW_NS)
        thread.join()
    finally:
        sys.setswitchinterval(before)

    assert traces.names.count("second") == rounds
    assert not traces.sink.traces._traces  # pyright: ignore[reportPrivateUsage]
