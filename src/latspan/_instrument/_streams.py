"""
Streams, followed to their end whichever way the caller leaves them.

The stream stays the client library's own object. How it iterates, closes and is finalised is
hooked at its class; a :class:`StreamTracker` beside it is called at each.

A chunk belongs to the application as soon as it is handed over, and may be changed there. So what
it holds besides text is taken down before that, and no chunk is kept. Most chunks hold only text:
for them one content test is made, and nothing else. The first chunk is always taken down, as it
names the model.

A caller that stops reading may read on later, with another iterator over the same stream: after
``next(iter(stream))`` for example. Leaving an iteration therefore notes an end without ending the
call. The call ends when the stream is closed or finalised, or when somebody wants to see what has
ended so far (``settle_left_calls``). Of several iterators over a stream the last one that is open
leaves it.
"""

from __future__ import annotations

import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from typing import Any, Final, TypeVar

from latspan import _runtime
from latspan._instrument._outcomes import error_type_of, outcome_of
from latspan._operations import ModelCall
from latspan._segments import Outcome
from latspan._wire import ApiFormat, ContentShape

__all__ = ["StreamTracker", "aiterate", "iterate", "watch"]

_T = TypeVar("_T")

_REFUSALS: Final = (RuntimeError, ValueError)
"""What a generator raises that is asked while it runs, asynchronous or not."""


class StreamTracker:
    """
    What a call learns of its stream.

    Args:
        call: The call, whose stream this is.
        dialect: How to read its chunks.
    """

    __slots__ = ("_dialect", "_entered", "_readers", "call", "first_look", "only_text")

    def __init__(self, call: ModelCall, dialect: ApiFormat) -> None:
        self.call = call
        self._dialect = dialect
        self._entered = False
        self._readers: set[object] = set()
        self.only_text = dialect.only_text or _never
        """Returns the kind of a chunk that holds only text, and 0 for every other."""
        self.first_look: Callable[[Any], int] = _never
        """The same for a stream's first chunk, which is never skipped."""
        if call.gathered is not None and dialect.content is not None:
            self.only_text, self.first_look = (
                _gathering(call.gathered, dialect.content, look)
                for look in (self.only_text, self.first_look)
            )

    @property
    def look(self) -> Callable[[Any], int]:
        """Which of the two is for the next chunk."""
        return self.first_look if self.call.tail.first is None else self.only_text

    def look_closer(self, chunk: Any) -> int:
        """Take down a chunk that holds more than text, and return its kind."""
        dialect, tail = self._dialect, self.call.tail
        if not self.call.finished:
            is_first = tail.first is None
            self.call.take_down(dialect, chunk)
            if is_first and tail.first is not None and dialect.continuous_usage(tail.first):
                self.only_text = self.first_look
        return dialect.kind_of(chunk)

    def begins(self, reader: object) -> None:
        """Note that an iterator reads its first chunk, perhaps after another one was left."""
        self._readers.add(reader)
        self.call.resume()

    def is_read_by(self, reader: object) -> bool:
        """Return whether that iterator reads the stream, and was not left."""
        return reader in self._readers

    def read(self, before_ns: int, chunk: Any) -> None:
        """Stamp a read of the stream itself that gave ``chunk`` and was begun at ``before_ns``."""
        call = self.call
        after_ns = call.now()
        # Once: another thread may end the call meanwhile, and that lets go of them.
        reads = call.reads
        if reads is not None and not call.finished:
            call.resume()
            reads.add(before_ns, after_ns, self.look(chunk) or self.look_closer(chunk))

    def entered(self) -> None:
        """Note that the stream is used in ``with``: its exit ends the call, and no loop does."""
        self._entered = True

    def ended(self, before_ns: int) -> None:
        """Note that the read begun at ``before_ns`` found the end of the stream."""
        self._finish(Outcome.COMPLETED, before_ns)

    def failed(self, before_ns: int, error: BaseException, reader: object = None) -> None:
        """
        Note that a read raised; that is no end if it came while another one was under way.

        Args:
            before_ns: When it began, monotonic nanoseconds.
            error: What it raised.
            reader: The iterator whose read it was, ``None`` for the stream itself.
        """
        self._readers.discard(reader)
        if self._readers and isinstance(error, _REFUSALS) and "already" in str(error):
            return
        self._finish(outcome_of(error), before_ns, error_type_of(error))

    def _finish(self, outcome: Outcome, before_ns: int, error_type: str | None = None) -> None:
        call = self.call
        if call.finished:
            return
        after_ns, reads = call.now(), call.reads
        if reads is not None:
            reads.end = (before_ns, after_ns)
        call.finish(outcome, done_ns=after_ns, error_type=error_type)

    def left(self, reader: object) -> None:
        """
        Note that the caller stopped iterating, by ``break`` or by dropping the iterator.

        Inside ``with`` the exit is still to come, and is the end. Otherwise the call ends here,
        unless the caller reads on.

        Args:
            reader: Whichever iterator it was. One that was never read leaves nothing, and neither
                does one beside which another is open.
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
        """End the call at the last read's return: its stream was finalised and cannot be read."""
        with _runtime.handle_internal_errors("the finalisation of a stream"):
            call, reads = self.call, self.call.reads
            last_ns = None if reads is None else reads.last_return_ns
            if last_ns is None:
                call.finish(Outcome.ABANDONED, done_ns=call.returned_ns, finalizing=True)
            else:
                call.finish(Outcome.CLOSED_EARLY, done_ns=last_ns, finalizing=True)

    def closing(self) -> None:
        """Note that the caller begins to close the stream."""
        self.call.closing()

    def closed(self) -> None:
        """Note that the stream is closed; no end if it had ended before."""
        self.call.finish(Outcome.CLOSED_EARLY)


def _never(chunk: Any) -> int:
    del chunk
    return 0


def _gathering(
    gathered: list[Any], content: ContentShape, look: Callable[[Any], int]
) -> Callable[[Any], int]:
    """Return the content test, which takes down the chunk's text besides."""
    fragments = content.fragments

    def look_and_gather(chunk: Any) -> int:
        with _runtime.handle_internal_errors("the text of a chunk"):
            gathered.extend(fragments(chunk))
        return look(chunk)

    return look_and_gather


def watch(call: ModelCall, dialect: ApiFormat, stream: object) -> StreamTracker:
    """
    Follow ``stream``, the answer of ``call``, to its end.

    Args:
        call: The call.
        dialect: How to tell what a chunk bears.
        stream: The client library's own object; it is not changed, and is not kept alive.
    """
    watching = StreamTracker(call, dialect)
    # At exit `shutdown` ends what is open; a finaliser then would be later and know less.
    weakref.finalize(stream, watching.dropped).atexit = False
    return watching


def iterate(
    source: Iterator[_T],
    watching: StreamTracker,
    stream: object,  # noqa: ARG001 - kept alive
) -> Generator[_T]:
    """
    Yield what ``source`` yields, stamped.

    Two clock readings, one content test and one append per chunk; nothing else happens on the
    caller's thread for a chunk that holds only text. Exceptions pass through as they are.

    Args:
        source: The client library's own iteration over the stream.
        watching: Follows it.
        stream: Kept alive for as long as it is iterated: in ``for chunk in create(...)`` nothing
            else holds it, and its finaliser would come before its end.
    """
    now, reads = watching.call.now, watching.call.reads
    if reads is None or watching.call.finished:
        yield from source
        return
    stamp, look_closer = reads.stamps.extend, watching.look_closer
    look = watching.look
    reader = object()
    watching.begins(reader)
    before = now()
    try:
        for chunk in source:
            stamp((before, now(), look(chunk) or look_closer(chunk)))
            yield chunk
            look = watching.only_text
            before = now()
        watching.ended(before)
    except GeneratorExit:
        watching.left(reader)
        raise
    except BaseException as error:
        watching.failed(before, error, reader)
        raise


def aiterate(
    source: AsyncIterator[_T], watching: StreamTracker, stream: object
) -> AsyncGenerator[_T]:
    """
    Yield what ``source`` yields, stamped, and notice a ``break`` at once.

    An asynchronous generator that is dropped is closed by its event loop, later and in a task of
    the loop's. The callback of a weak reference to it runs when it is dropped. Arguments as for
    :func:`iterate`.
    """
    reader = object()
    generator = _aiterate(source, watching, stream, reader)
    weakref.finalize(generator, watching.left, reader).atexit = False
    return generator


async def _aiterate(
    source: AsyncIterator[_T],
    watching: StreamTracker,
    stream: object,  # noqa: ARG001 - kept alive
    reader: object,
) -> AsyncGenerator[_T]:
    now, reads = watching.call.now, watching.call.reads
    if reads is None or watching.call.finished:
        async for chunk in source:
            yield chunk
        return
    stamp, look_closer = reads.stamps.extend, watching.look_closer
    look = watching.look
    watching.begins(reader)
    before = now()
    try:
        async for chunk in source:
            stamp((before, now(), look(chunk) or look_closer(chunk)))
            yield chunk
            look = watching.only_text
            before = now()
        watching.ended(before)
    except GeneratorExit:
        watching.left(reader)
        raise
    except BaseException as error:
        # At its end a loop cancels what closes the iterators that were dropped.
        if watching.is_read_by(reader):
            watching.failed(before, error, reader)
        raise
