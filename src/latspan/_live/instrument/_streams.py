"""
Streams of client libraries, tracked to their end in whichever way the caller leaves them.

The stream stays the client library's own object. Iteration, closing and finalisation are hooked
in its class; each hook calls the :class:`StreamTracker` of the stream.

A chunk belongs to the application as soon as the application has received it, and the application
may modify it. Fields other than text are therefore copied before that, and no chunk is kept. Most
chunks hold only text: they need one content test and nothing else. The first chunk is always
copied, because it names the model.

A caller that stops reading may read on later with another iterator over the same stream, for
example after ``next(iter(stream))``. Leaving an iteration therefore records a provisional end
without ending the call. The call ends when the stream is closed or finalised, or when the calls
that have ended so far are requested (``end_left_operations``). If a stream has several iterators,
the caller has left the stream only when it has left the last open iterator.
"""

from __future__ import annotations

import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from types import AsyncGeneratorType, GeneratorType
from typing import Any, Final, TypeVar, cast

from latspan._base.internal_errors import handle_internal_errors, log_internal_error
from latspan._live.instrument._outcomes import failure_of
from latspan._live.operations import ModelCall
from latspan._model.segments import Outcome
from latspan._model.wire import ApiFormat, ChunkKind, ContentShape

_T = TypeVar("_T")

_KINDS: Final = frozenset(map(int, ChunkKind))

_REFUSALS: Final = (RuntimeError, ValueError)
"""
Exceptions that an asynchronous or a synchronous generator raises if it is resumed while it runs.
"""


class StreamTracker:
    """
    Tracker of one stream on behalf of its call.

    Args:
        call: The call that the stream belongs to; its API format is known.
    """

    __slots__ = ("_api_format", "_entered", "_only_text", "_readers", "call", "look")

    def __init__(self, call: ModelCall) -> None:
        self.call = call
        if call.reads is None:
            call.expect_stream()
        self._api_format = api_format = cast("ApiFormat", call.api_format)
        self._entered = False
        self._readers: set[object] = set()
        self._only_text = api_format.only_text or _ZERO
        self.look: Callable[[Any], int] = _ZERO
        """
        Content test of the next chunk: returns the kind of a chunk that holds only text, and 0 for
        every other chunk. It is always 0 before the fields of the first chunk are copied.
        """
        if call.gathered is not None and api_format.content is not None:
            self._only_text, self.look = (
                _gathering(call.gathered, api_format.content, look)
                for look in (self._only_text, self.look)
            )

    def look_closer(self, chunk: Any) -> int:
        """Copy the fields of a chunk that holds more than text, and return its kind."""
        call, api_format = self.call, self._api_format
        if not call.finished:
            is_first = not call.parts
            call.keep_copy(api_format, chunk)
            if is_first and call.parts and not api_format.continuous_usage(call.parts[0]):
                self.look = self._only_text
        # The format may be another distribution's, whose error must not reach the application.
        try:
            kind = api_format.classify_chunk(chunk)
            if kind not in _KINDS:
                raise TypeError(f"classify_chunk of {api_format.name} returned no ChunkKind")
        except Exception as error:  # noqa: BLE001 - see above
            log_internal_error(error, "the kind of a chunk")
            return 0
        return kind

    def begins(self, reader: object) -> None:
        """
        Record that a reader begins, possibly after the caller left another one.

        It is an iterator, or a single read of the stream itself.
        """
        self._readers.add(reader)
        if self.call.left is not None:
            self.call.resume()

    def is_read_by(self, reader: object) -> bool:
        """Return whether the iterator is reading the stream and the caller has not left it."""
        return reader in self._readers

    def read(self, before_ns: int, chunk: Any, reader: object) -> None:
        """Record that ``reader`` read ``chunk`` from the stream itself, from ``before_ns`` on."""
        call = self.call
        after_ns = call.now()
        self._readers.discard(reader)
        # Read the attribute once: another thread may end the call meanwhile, which sets it to
        # `None`.
        reads = call.reads
        if reads is not None and not call.finished:
            call.resume()
            reads.add(before_ns, after_ns, self.look(chunk) or self.look_closer(chunk))

    def entered(self) -> None:
        """Record that the stream is used in ``with``: leaving the block ends the call."""
        self._entered = True

    def ended(
        self,
        before_ns: int,
        outcome: Outcome = Outcome.COMPLETED,
        error_type: str | None = None,
    ) -> None:
        """
        Record that a read found the end of the stream, or failed with another outcome.

        Args:
            before_ns: Start of the read, monotonic nanoseconds.
            outcome: Outcome of the call.
            error_type: Status code or name of an exception type.
        """
        call = self.call
        if call.finished:
            return
        after_ns, reads = call.now(), call.reads
        if reads is not None:
            reads.end = (before_ns, after_ns)
        call.end(outcome, done_ns=after_ns, error_type=error_type)

    def failed(self, before_ns: int, error: BaseException, reader: object) -> None:
        """
        Record that a read raised. A read that was refused has no effect.

        Args:
            before_ns: Start of the read, monotonic nanoseconds.
            error: The exception that it raised.
            reader: What :meth:`begins` received: the iterator, or an object that stands for a
                single read of the stream itself.
        """
        self._readers.discard(reader)
        if self._readers and isinstance(error, _REFUSALS) and "already" in str(error):
            return
        call = self.call
        self.ended(before_ns, *failure_of(error, call.answering, call.headers))

    def left(self, reader: object) -> None:
        """
        Record that the caller stopped iterating, by ``break`` or by dropping the iterator.

        Inside ``with`` the exit still follows and ends the call. Otherwise the call ends here
        unless the caller reads on.

        Args:
            reader: The iterator. The method has no effect if the iterator was never read, or is not
                the last open one.
        """
        call, reads = self.call, self.call.reads
        if reader not in self._readers:
            return
        self._readers.discard(reader)
        if self._entered or self._readers or reads is None:
            return
        last_ns = reads.last_return_ns
        if last_ns is not None:
            call.leave(Outcome.CLOSED_EARLY, done_ns=last_ns)

    def dropped(self) -> None:
        """End the call at the return of the last read, because its stream was finalised."""
        with handle_internal_errors("the finalisation of a stream"):
            call, reads = self.call, self.call.reads
            last_ns = None if reads is None else reads.last_return_ns
            if last_ns is None:
                call.end(Outcome.ABANDONED, done_ns=call.returned_ns, finalizing=True)
            else:
                call.end(Outcome.CLOSED_EARLY, done_ns=last_ns, finalizing=True)

    def closing(self) -> None:
        """Record that the caller begins to close the stream."""
        self.call.closing()

    def closed(self) -> None:
        """End the call because the stream is closed, unless the call has ended already."""
        self.call.end(Outcome.CLOSED_EARLY)


def _watch(generator: Generator[Any] | AsyncGenerator[Any], tracker: StreamTracker) -> None:
    """Make known whether the caller waits in the generator, without any cost per chunk."""
    held, reads = weakref.ref(generator), tracker.call.reads

    def began() -> int | None:
        iterator, frame = held(), None
        if isinstance(iterator, GeneratorType) and iterator.gi_running:
            frame = iterator.gi_frame
        elif isinstance(iterator, AsyncGeneratorType) and iterator.ag_running:
            frame = iterator.ag_frame
        return None if frame is None else frame.f_locals.get("before")

    if reads is not None:
        reads.began = began


_ZERO: Final[Callable[[Any], int]] = ().count
"""Function that returns 0 for every chunk; a method of an empty tuple, because that runs in C."""


def _gathering(
    gathered: list[Any], content: ContentShape, look: Callable[[Any], int]
) -> Callable[[Any], int]:
    """Return the content test, extended to collect the chunk's text."""
    fragments = content.fragments

    def look_and_gather(chunk: Any) -> int:
        with handle_internal_errors("the text of a chunk"):
            gathered.extend(fragments(chunk))
        return look(chunk)

    return look_and_gather


def iter_tracked(source: Iterator[_T], tracker: StreamTracker, stream: object) -> Generator[_T]:
    """
    Yield the items of ``source`` and record each read.

    A chunk that holds only text costs two clock readings, one content test and one append on the
    caller's thread, and nothing else. Exceptions propagate unchanged.

    Args:
        source: The client library's own iteration over the stream.
        tracker: Tracker of the stream.
        stream: Kept alive while it is iterated: in ``for chunk in create(...)`` there is no other
            reference to it, and its finaliser would run before its end.
    """
    generator = _iterate(source, tracker, stream)
    _watch(generator, tracker)
    return generator


def _iterate(
    source: Iterator[_T],
    tracker: StreamTracker,
    stream: object,  # noqa: ARG001 - kept alive
) -> Generator[_T]:
    now, reads = tracker.call.now, tracker.call.reads
    if reads is None or tracker.call.finished:
        yield from source
        return
    stamp, look_closer = reads.stamps.extend, tracker.look_closer
    reader = object()
    tracker.begins(reader)
    look = tracker.look
    before = now()
    try:
        for chunk in source:
            stamp((before, now(), look(chunk) or look_closer(chunk)))
            yield chunk
            look = tracker.look
            before = now()
        tracker.ended(before)
    except GeneratorExit:
        tracker.left(reader)
        raise
    except BaseException as error:
        tracker.failed(before, error, reader)
        raise


def aiter_tracked(
    source: AsyncIterator[_T], tracker: StreamTracker, stream: object
) -> AsyncGenerator[_T]:
    """
    Yield the items of ``source``, record each read, and record a ``break`` immediately.

    If the caller drops an asynchronous generator, the event loop closes the generator later, in a
    separate task. Therefore latspan uses a weak reference to the generator: its callback runs as
    soon as the generator is dropped. The arguments are those of :func:`iter_tracked`.
    """
    reader = object()
    generator = _aiterate(source, tracker, stream, reader)
    _watch(generator, tracker)
    weakref.finalize(generator, tracker.left, reader).atexit = False
    return generator


async def _aiterate(
    source: AsyncIterator[_T],
    tracker: StreamTracker,
    stream: object,  # noqa: ARG001 - kept alive
    reader: object,
) -> AsyncGenerator[_T]:
    now, reads = tracker.call.now, tracker.call.reads
    if reads is None or tracker.call.finished:
        async for chunk in source:
            yield chunk
        return
    stamp, look_closer = reads.stamps.extend, tracker.look_closer
    tracker.begins(reader)
    look = tracker.look
    before = now()
    try:
        async for chunk in source:
            stamp((before, now(), look(chunk) or look_closer(chunk)))
            yield chunk
            look = tracker.look
            before = now()
        tracker.ended(before)
    except GeneratorExit:
        tracker.left(reader)
        if isinstance(source, AsyncGenerator):
            # Without latspan, `aclose()` would close the client library's own generator.
            await cast("AsyncGenerator[_T]", source).aclose()
        raise
    except BaseException as error:
        # A stopping event loop cancels the tasks that close dropped iterators; such a
        # cancellation is not a failed read.
        if tracker.is_read_by(reader):
            tracker.failed(before, error, reader)
        raise
