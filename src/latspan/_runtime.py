"""
What is switched on in this process: clock, recorder, spans. Nothing, until configured.

The composition root installs a :class:`Runtime`; whoever opens a request asks for the current one
and does nothing when there is none.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Protocol

from latspan._log import logger
from latspan._metrics import DEFAULT_EXPECTATIONS, Expectations

if TYPE_CHECKING:
    # Whoever decorates a function pays for this module, and not for what it is told of.
    from opentelemetry.context import Context

    from latspan._clock import Clock
    from latspan._recording import Recorder, RequestRecord
    from latspan._segments import Side
    from latspan._spans import AttributeValue, OpenSpan, SpanSink
    from latspan._tokens import TokenCounts
    from latspan._wire import Content

__all__ = [
    "EmitEvent",
    "Observation",
    "Runtime",
    "current",
    "expect",
    "expect_nothing",
    "handle_internal_errors",
    "install",
    "log_internal_error",
    "nobody_observes",
    "overridden",
    "start_if_expected",
]


def _run_now(conclude: Callable[[], None]) -> None:
    conclude()


def _nothing_waits(_timeout_s: float | None) -> None:
    pass


class Observation(Protocol):
    """What is asked, once a request has ended, for what happened around it."""

    def __call__(
        self, start_ns: int, done_ns: int, server: tuple[str, int] | None, side: Side, /
    ) -> Mapping[str, AttributeValue]:
        """
        Return attributes of its span.

        ``latspan.sampled_attributes`` lists those that are samples.

        Args:
            start_ns: When it began, monotonic nanoseconds.
            done_ns: When it ended.
            server: Host and port it went to, if to any.
            side: The side of the network it is on.
        """
        ...


class EmitEvent(Protocol):
    """Emits an event through OpenTelemetry's logs."""

    def __call__(
        self, name: str, epoch_ns: int, attributes: Mapping[str, Any], context: Context, /
    ) -> None:
        """
        Emit it.

        Args:
            name: Its name.
            epoch_ns: When it happened, Unix nanoseconds.
            attributes: Texts, numbers, and lists and mappings of them.
            context: The context whose current span it belongs to.
        """
        ...


def _saw_nothing(
    _start_ns: int, _done_ns: int, _server: tuple[str, int] | None, _side: Side
) -> Mapping[str, AttributeValue]:
    return {}


def nobody_observes() -> Observation:
    """Begin to observe nothing."""
    return _saw_nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """
    Everything a live request needs of the process it runs in.

    Args:
        clock: Where time is read.
        recorder: Where finished requests go.
        sink: Returns where spans go; asked for each request, because an application may set its
            provider at any time.
        settle: Runs the arithmetic of a finished request: now, or on latspan's own thread.
        propagate: Whether ``traceparent`` is added to requests.
        defaults: Attributes of every request: ``inference_path``, ``route``, ``traffic_class``,
            ``tenant``.
        expected: What streams are held against.
        strict: latspan's own bugs are raised instead of logged; for tests of latspan.
        drain: Returns when everything that ``settle`` was given so far is done, or so many seconds
            later; ``None`` waits as long as it takes.
        count_tokens: Counts what a provider did not, by content and model; ``None`` where nobody
            asked for that.
        captures_content: Whether spans say what was asked and answered.
        captures_media: Whether what is captured has images, audio and files in it.
        emit: Emits an event for each inference; ``None`` if no events are asked for.
        captures_in_events: Whether events say what was asked and answered.
        request_stream_usage: Whether streams are asked for their token counts.
        emit_gen_ai_latency: Whether a model's requests say ``gen_ai.latency.*`` too.
        observe: Begins to observe what happens around a request; called on its thread.
    """

    clock: Clock
    recorder: Recorder
    sink: Callable[[], SpanSink]
    settle: Callable[[Callable[[], None]], None] = _run_now
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
    request_stream_usage: bool = False
    emit_gen_ai_latency: bool = False
    observe: Callable[[], Observation] = nobody_observes
    reads_content: bool = field(init=False)
    """Whether what is asked and answered is gathered, for whatever purpose."""
    concludes_apart: bool = field(init=False)
    """Whether requests end on latspan's thread in any case: content is read, or events emitted."""
    excluded_urls: dict[tuple[str, ...], tuple[re.Pattern[str], ...]] = field(
        init=False,
        compare=False,
        default_factory=dict[tuple[str, ...], tuple[re.Pattern[str], ...]],
    )
    """The URLs that the environment excludes, by the libraries that they were looked up for."""

    def __post_init__(self) -> None:
        captures = self.captures_content or self.captures_in_events
        reads_content = captures or self.count_tokens is not None
        object.__setattr__(self, "reads_content", reads_content)
        object.__setattr__(self, "concludes_apart", reads_content or self.emit is not None)

    def record(self, record: RequestRecord, span: OpenSpan) -> None:
        """
        Record a finished request; where its span's trace is kept later, it is an example then.

        Args:
            record: The request.
            span: Its span.
        """
        self.recorder.record(record)
        if not record.sampled:
            span.when_kept(lambda: self.recorder.exemplify(record))

    def conclude(
        self, doing: str, conclude: Callable[..., None], *observed: Any, inline: bool
    ) -> None:
        """
        Run what follows the end of something, guarded.

        Args:
            doing: The end of what, for the log.
            conclude: What follows.
            observed: What it is given.
            inline: Here and now, because its span must not wait.
        """
        if inline:
            _run_guarded(doing, conclude, *observed)
            # Otherwise the caller whose record is one too many would count all that wait.
            if self.recorder.fills_up():
                self.settle(self.recorder.drain)
        else:
            # A closure would be ten objects more for the collector to look at while they wait.
            self.settle(partial(_run_guarded, doing, conclude, *observed))


def _run_guarded(doing: str, conclude: Callable[..., None], *observed: Any) -> None:
    with handle_internal_errors(doing):
        conclude(*observed)


_installed: Runtime | None = None
_overriding: Runtime | None = None
# At most one, in a list so that only one thread can take it.
_expected: list[Callable[[], None]] = []
_begun: list[bool] = []
_starting = threading.RLock()
_LONGEST_START_S: Final = 1.0


def current() -> Runtime | None:
    """Return what is switched on, ``None`` when nothing is."""
    if _overriding is not None:
        return _overriding
    if _expected:
        start_if_expected()
    return _installed


def install(runtime: Runtime | None) -> None:
    """Switch on ``runtime``, or off with ``None``; whatever was expected no longer is."""
    global _installed
    _expected.clear()
    _installed = runtime


def expect(start: Callable[[], None]) -> None:
    """
    Have ``start`` switch something on when it is first needed, unless something is on by then.

    Args:
        start: Called once, on the thread of whoever needs it first.
    """
    if _installed is None:
        _expected[:] = [start]


def expect_nothing() -> None:
    """Forget what was expected: somebody switches something on now."""
    _expected.clear()


def start_if_expected() -> None:
    """Start now what would be started when it is first needed."""
    # Others wait until it is on, or their requests would be lost; not for ever, for who waits may
    # hold the lock of an import that the starter needs. The starter itself does not.
    if not _starting.acquire(timeout=_LONGEST_START_S):
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


@contextmanager
def overridden(runtime: Runtime) -> Generator[None]:
    """Let ``runtime`` rule inside, whatever the application configures meanwhile; for tests."""
    global _overriding
    before, _overriding = _overriding, runtime
    try:
        yield
    finally:
        _overriding = before


_reported_bugs: set[tuple[type[BaseException], str]] = set()


def log_internal_error(error: Exception, doing: str) -> None:
    """
    Log a bug of latspan's own once; in a strict runtime raise it.

    An application never sees an exception that is not its own.
    """
    runtime = current()
    if runtime is not None and runtime.strict:
        raise error
    key = (type(error), doing)
    if key not in _reported_bugs:
        _reported_bugs.add(key)
        logger.error("latspan failed at %s; the call is not affected", doing, exc_info=error)


class handle_internal_errors:  # noqa: N801 - read as a statement: `with handle_internal_errors("…"):`
    """
    Keep a bug of latspan's own from reaching the application.

    Args:
        doing: What is being done, for the log.
    """

    __slots__ = ("_doing",)

    def __init__(self, doing: str) -> None:
        self._doing = doing

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        log_internal_error(error, self._doing)
        return True
