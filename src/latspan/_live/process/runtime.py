"""
Runtime of this process: clock, recorder and spans; absent until latspan is configured.

The composition root installs a :class:`Runtime`. Code that opens a request gets the current one
with :func:`current_runtime`, and does nothing if there is none.

**Expected start.** Zero-code instrumentation does not configure latspan when the program starts. It
passes a function to :func:`expect_start`, and the first thread that needs a runtime calls it. The
lock ``_starting`` admits one thread. If the start itself needs a runtime on that thread, ``_begun``
prevents a second start. Other threads wait, but at most for one second: they may hold an import
lock that the starting thread needs. After the start, successful or not, no start is expected.
:func:`install_runtime` and :func:`expect_no_start` discard an expected start, because the
application then configures latspan itself.

**Retirement.** A reconfiguration installs a new runtime while calls and requests of the old one are
still ending on other threads. :meth:`Runtime.retire` closes the old runtime before its last export.
Each record passes a gate (`_gate`): it is either complete when ``retire`` returns, or goes to the
successor, so it counts in exactly one of the two.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from latspan._base.gate import Gate
from latspan._base.internal_errors import (
    handle_internal_errors,
    log_internal_error,
    raise_internal_errors,
)
from latspan._model.metrics import DEFAULT_EXPECTATIONS, Expectations

if TYPE_CHECKING:
    # An application that only decorates a function imports this module, but not these.
    from opentelemetry.context import Context

    from latspan._base.clock import Clock
    from latspan._live.otel.spans import AttributeValue, OpenSpan, SpanSink
    from latspan._live.process.event_loop import LoopWatch
    from latspan._model.recording import Recorder, RequestRecord
    from latspan._model.segments import Side
    from latspan._model.tokens import TokenCounts
    from latspan._model.wire import Content

_WATCHED_STREAMS: Final = 2
"""Number of streams with a finish reason up to which those of a server are watched."""
_MAX_STREAM_KINDS: Final = 256
"""Maximum number of servers and API formats whose streams are counted."""


def _run_now(run_at_end: Callable[[], None]) -> None:
    run_at_end()


def _nothing_waits(_timeout_s: float | None) -> None:
    pass


class Observation(Protocol):
    """
    Function that is called after a request has ended, and returns what was observed meanwhile.
    """

    def __call__(
        self, start_ns: int, done_ns: int, server: tuple[str, int] | None, side: Side, /
    ) -> Mapping[str, AttributeValue]:
        """
        Return attributes to set on the request's span.

        ``latspan.sampled_attributes`` lists those that are samples.

        Args:
            start_ns: Start of the request, monotonic nanoseconds.
            done_ns: End of the request, monotonic nanoseconds.
            server: Host and port of the request's server, if there is one.
            side: Side of the network that the request was recorded on.
        """
        ...


class EmitEvent(Protocol):
    """Function that emits events through OpenTelemetry's Logs API."""

    def __call__(
        self, name: str, epoch_ns: int, attributes: Mapping[str, Any], context: Context, /
    ) -> None:
        """
        Emit an event.

        Args:
            name: Name of the event.
            epoch_ns: Time of the event, Unix nanoseconds.
            attributes: Strings, numbers, and lists and mappings of them.
            context: Context whose current span the event belongs to.
        """
        ...


def no_watch() -> None:
    """Watch no event loop."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Runtime:
    """
    Process-wide objects and settings that open requests use.

    Args:
        clock: Source of time.
        recorder: Receives finished requests.
        sink: Returns the span sink; called for each request, because an application may set its
            provider at any time.
        enqueue: Runs a job for a finished request: on the worker thread, or immediately in tests.
        propagate: Whether ``traceparent`` is added to requests.
        defaults: Attributes of every request: ``inference_path``, ``route``, ``traffic_class``,
            ``tenant``.
        expected: Expectations that streams are measured against.
        strict: Whether latspan's own bugs are raised instead of logged; for tests of latspan.
        drain: Waits until everything passed to ``enqueue`` so far is done, at most the given
            number of seconds; ``None`` waits without limit.
        count_tokens: Counts tokens that a provider did not report, from content and model; ``None``
            if counting is off.
        captures_content: Whether spans include the content of requests and responses.
        captures_media: Whether captured content includes images, audio and files.
        emit: Emits an event for each inference; ``None`` if events are off.
        captures_in_events: Whether events include the content of requests and responses.
        export_url_paths: Whether spans have the paths of URLs.
        request_stream_usage: Whether token counts are requested for streams.
        emit_gen_ai_latency: Whether a model's requests also have ``gen_ai.latency.*`` attributes.
        series_attributes: Names of the application's own span attributes that are series attributes
            too.
        response_headers: Names of further response headers that are recorded as attributes, in
            lower case.
        observe: Begins the observation of a request; called on the request's thread. ``None`` if
            nothing is observed.
        watch_loop: Watches the event loop of the current thread, for blocks during a call; returns
            ``None`` if there is none, or loops are not watched.
    """

    clock: Clock
    recorder: Recorder
    sink: Callable[[], SpanSink]
    enqueue: Callable[[Callable[[], None]], None] = _run_now
    propagate: bool = True
    defaults: Mapping[str, str] = field(default_factory=dict[str, str])
    expected: Expectations = DEFAULT_EXPECTATIONS
    strict: bool = False
    drain: Callable[[float | None], object] = _nothing_waits
    count_tokens: Callable[[Content, str | None], TokenCounts] | None = None
    captures_content: bool = False
    captures_media: bool = False
    emit: EmitEvent | None = None
    captures_in_events: bool = False
    export_url_paths: bool = False
    request_stream_usage: bool = False
    emit_gen_ai_latency: bool = False
    series_attributes: tuple[str, ...] = ()
    response_headers: frozenset[str] = frozenset()
    observe: Callable[[], Observation] | None = None
    watch_loop: Callable[[], LoopWatch | None] = no_watch
    write_record: Callable[[RequestRecord], None] | None = None
    reads_content: bool = field(init=False)
    """Whether the content of requests and responses is gathered, for any purpose."""
    ends_on_worker: bool = field(init=False)
    """Whether requests always end on latspan's thread: content is read, or events are emitted."""
    excluded_urls: dict[tuple[str, ...], tuple[re.Pattern[str], ...]] = field(
        init=False,
        compare=False,
        default_factory=dict[tuple[str, ...], tuple[re.Pattern[str], ...]],
    )
    """URLs that the environment excludes, by the library that they were looked up for."""
    exchange_segments: dict[tuple[str, int | None], str] = field(
        init=False, compare=False, default_factory=dict[tuple[str, int | None], str]
    )
    """Names of the segments of HTTP exchanges inside requests, by host and port."""
    _whole_streams: dict[tuple[object, str], int] = field(
        init=False, compare=False, default_factory=dict[tuple[object, str], int]
    )
    """Number of streams that ended with a finish reason, by server and API format, at most 2."""
    _gate: Gate = field(init=False, compare=False, default_factory=Gate)
    _successors: list[Runtime] = field(init=False, compare=False, default_factory=list["Runtime"])
    """The runtime that receives the records after the gate is closed; empty if there is none."""

    def __post_init__(self) -> None:
        captures = self.captures_content or self.captures_in_events
        reads_content = captures or self.count_tokens is not None
        object.__setattr__(self, "reads_content", reads_content)
        object.__setattr__(self, "ends_on_worker", reads_content or self.emit is not None)

    def record(self, record: RequestRecord, span: OpenSpan) -> None:
        """
        Record a finished request; if its span's trace is kept later, add it as an exemplar then.

        Args:
            record: The finished request.
            span: Its span.
        """
        gate = self._gate
        try:
            if not gate.enter() and self._successors:
                self._successors[0].record(record, span)
                return
            self.recorder.record(record)
            if self.write_record is not None:
                self.write_record(record)
        finally:
            gate.leave()
        if not record.sampled:
            span.when_kept(lambda: self.recorder.add_exemplar(record))

    def retire(self, successor: Runtime | None) -> None:
        """
        Wait for the records that are being recorded now; pass later ones to ``successor``.

        Args:
            successor: Runtime that replaced this one; ``None`` if there is none.
        """
        if successor is not None:
            self._successors.append(successor)
        self._gate.close()

    def watches_streams(self, server: object, api_format: str) -> bool:
        """Return whether the bytes of the next stream are watched: see ``_first_streams.py``."""
        return self._whole_streams.get((server, api_format), 0) < _WATCHED_STREAMS

    def stream_ended(self, server: object, api_format: str, *, has_reason: bool) -> None:
        """Record that a stream has ended, with or without a finish reason."""
        known, key = self._whole_streams, (server, api_format)
        if not has_reason:
            known.pop(key, None)
        elif (number := known.get(key, 0)) < _WATCHED_STREAMS and len(known) < _MAX_STREAM_KINDS:
            known[key] = number + 1

    def run_at_end(
        self, doing: str, function: Callable[..., None], *observed: Any, inline: bool
    ) -> None:
        """
        Run ``function`` after the end of a request or scope, with internal errors handled.

        Args:
            doing: Description of what ended, for the log.
            function: Function to run.
            observed: Arguments of ``function``.
            inline: Whether to run it now on this thread, because the span must end before the
                caller goes on.
        """
        if inline:
            _run_guarded(doing, function, *observed)
            # Otherwise the caller whose record fills the queue would have to count all queued
            # records.
            if self.recorder.fills_up():
                self.enqueue(self.recorder.drain)
        else:
            # A closure would give the garbage collector ten more objects per queued job.
            self.enqueue(partial(_run_guarded, doing, function, *observed))


def _run_guarded(doing: str, function: Callable[..., None], *observed: Any) -> None:
    # Not `with handle_internal_errors(…)`: it would be three more functions for each call.
    try:
        function(*observed)
    except Exception as error:  # noqa: BLE001 - latspan's own
        log_internal_error(error, doing)


_installed: Runtime | None = None
_overriding: Runtime | None = None
# The function that was passed to `expect`, until it has returned; and a mark while it runs.
_expected: list[Callable[[], None]] = []
_begun: list[bool] = []
_starting = threading.RLock()
_MAX_START_S: Final = 1.0
_MAX_FLUSH_WAIT_S: Final = 5.0


def current_runtime() -> Runtime | None:
    """Return the current runtime; ``None`` if latspan is off."""
    if _overriding is not None:
        return _overriding
    if _expected:
        start_if_expected()
    return _installed


def install_runtime(runtime: Runtime | None) -> None:
    """Install ``runtime``, or switch off with ``None``; discard an expected start."""
    global _installed
    _expected.clear()
    _installed = runtime
    _set_strictness()


def expect_start(start: Callable[[], None]) -> None:
    """
    Call ``start`` when a runtime is first needed, unless one is installed by then.

    Args:
        start: Called once, on the thread that needs a runtime first.
    """
    if _installed is None:
        _expected[:] = [start]


def expect_no_start() -> None:
    """Discard the expected start: the application configures latspan now."""
    _expected.clear()


def start_if_expected() -> None:
    """Run the expected start now, or wait up to one second for the thread that runs it."""
    # Other threads wait for the start to finish, or their requests would be lost. They wait with a
    # limit, because a waiting thread may hold an import lock that the starting thread needs. The
    # lock is reentrant, so the starting thread itself does not wait.
    if not _starting.acquire(timeout=_MAX_START_S):
        return
    try:
        if _expected and not _begun:
            _begun.append(True)
            try:
                _expected[0]()
            finally:
                _expected.clear()
                _begun.clear()
    finally:
        _starting.release()


def drain_before_flush() -> None:
    """Wait at most five seconds until the requests that have ended have their spans."""
    with handle_internal_errors("a flush by the application"):
        runtime = current_runtime()
        if runtime is not None:
            runtime.drain(_MAX_FLUSH_WAIT_S)


_when_requested: Final[list[Callable[[], None]]] = []


def when_instrumentation_is_requested(call: Callable[[], None]) -> None:
    """Call ``call`` after each time that the application has switched its integrations on."""
    _when_requested.append(call)


def instrumentation_requested() -> None:
    """Report that the application has just switched its integrations on."""
    for call in tuple(_when_requested):
        with handle_internal_errors("the report of instrumented libraries"):
            call()


@contextmanager
def override_runtime(runtime: Runtime) -> Generator[None]:
    """Use ``runtime`` inside the block, whatever the application configures; for tests."""
    global _overriding
    before, _overriding = _overriding, runtime
    _set_strictness()
    try:
        yield
    finally:
        _overriding = before
        _set_strictness()


def _set_strictness() -> None:
    runtime = _overriding or _installed
    raise_internal_errors(runtime is not None and runtime.strict)
