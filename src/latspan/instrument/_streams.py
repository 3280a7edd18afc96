"""
Streams, followed to their end whichever way the caller leaves them.

The stream stays the client library's own object. How it iterates, closes and is finalised is
hooked at its class; a :class:`Watch` beside it hears of each.
"""

from __future__ import annotations

import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from typing import Any, TypeVar

from latspan import _runtime
from latspan._request import LiveCall
from latspan.instrument._outcomes import error_type_of, outcome_of
from latspan.segments import Outcome
from latspan.wire import ContentShape, Dialect

__all__ = ["Watch", "aiterate", "iterate", "watch"]

_T = TypeVar("_T")


class Watch:
    """
    What a call hears of its stream.

    Args:
        call: The call, whose stream this is.
        dialect: How to tell what a chunk bears.
    """

    __slots__ = ("_entered", "call", "kind_of")

    def __init__(self, call: LiveCall, dialect: Dialect) -> None:
        self.call = call
        kind_of = (
            dialect.kind_of if dialect.opening is None else _keeping(call, dialect, dialect.opening)
        )
        if call.gathered is not None and dialect.content is not None:
            kind_of = _gathering(call.gathered, dialect.content, kind_of)
        self.kind_of = kind_of
        self._entered = False

    def read(self, before_ns: int, chunk: Any) -> None:
        """Stamp a read that gave ``chunk`` and was begun at ``before_ns``."""
        call = self.call
        after_ns = call.now()
        reads = call.reads
        if reads is not None and not call.finished:
            kind = self.kind_of(chunk)
            reads.add(before_ns, after_ns, kind)
            # As in `iterate`.
            if kind and call.choices == 1:
                call.tail.latest = chunk
            else:
                call.tail.add(chunk)

    def entered(self) -> None:
        """Hear that leaving an iteration is not the end: an exit will come, or another one."""
        self._entered = True

    def ended(self, before_ns: int) -> None:
        """Hear that the read begun at ``before_ns`` found the end of the stream."""
        self._finish(Outcome.COMPLETED, before_ns)

    def failed(self, before_ns: int, error: BaseException) -> None:
        """Hear that the read begun at ``before_ns`` raised."""
        self._finish(outcome_of(error), before_ns, error_type_of(error))

    def _finish(self, outcome: Outcome, before_ns: int, error_type: str | None = None) -> None:
        call = self.call
        if call.finished:
            return
        after_ns = call.now()
        if call.reads is not None:
            call.reads.end = (before_ns, after_ns)
        call.finish(outcome, done_ns=after_ns, error_type=error_type)

    def left(self) -> None:
        """
        Hear that the caller stopped iterating, by ``break`` or by dropping the iterator.

        Inside ``with`` the exit is still to come, and is the end; otherwise this is.
        """
        if not self._entered:
            self._finish_unread(finalizing=False)

    def iterator_dropped(self) -> None:
        """Hear the same from the finaliser of an iterator."""
        if not self._entered:
            self.dropped()

    def dropped(self) -> None:
        """Hear from its finaliser that nobody can read the stream any more."""
        with _runtime.guarded("the finalisation of a stream"):
            self._finish_unread(finalizing=True)

    def _finish_unread(self, *, finalizing: bool) -> None:
        """End the call at the last read's return, never at the time of garbage collection."""
        call = self.call
        last_ns = None if call.reads is None else call.reads.last_return_ns
        if last_ns is None:
            call.finish(Outcome.ABANDONED, done_ns=call.returned_ns, finalizing=finalizing)
        else:
            call.finish(Outcome.CLOSED_EARLY, done_ns=last_ns, finalizing=finalizing)

    def closing(self) -> None:
        """Hear that the caller begins to close the stream."""
        self.call.closing()

    def closed(self) -> None:
        """Hear that the stream is closed; no end if it had ended before."""
        self.call.finish(Outcome.CLOSED_EARLY)


def _keeping(
    call: LiveCall, dialect: Dialect, is_opening: Callable[[Any], bool]
) -> Callable[[Any], int]:
    """Return the content test, which keeps the opening chunk besides."""
    kind_of = dialect.kind_of

    def kind_and_keep(chunk: Any) -> int:
        if call.opening is None and is_opening(chunk):
            call.opening = chunk
        return kind_of(chunk)

    return kind_and_keep


def _gathering(
    gathered: list[Any], content: ContentShape, kind_of: Callable[[Any], int]
) -> Callable[[Any], int]:
    """Return the content test, which takes down the chunk's text besides."""
    fragments = content.fragments

    def kind_and_gather(chunk: Any) -> int:
        with _runtime.guarded("the text of a chunk"):
            gathered.extend(fragments(chunk))
        return kind_of(chunk)

    return kind_and_gather


def watch(call: LiveCall, dialect: Dialect, stream: object) -> Watch:
    """
    Follow ``stream``, the answer of ``call``, to its end.

    Args:
        call: The call.
        dialect: How to tell what a chunk bears.
        stream: The client library's own object; it is not changed, and is not kept alive.
    """
    watching = Watch(call, dialect)
    # At exit `shutdown` ends what is open; a finaliser then would be later and know less.
    weakref.finalize(stream, watching.dropped).atexit = False
    return watching


def iterate(
    source: Iterator[_T],
    watching: Watch,
    stream: object,  # noqa: ARG001 - kept alive
) -> Generator[_T]:
    """
    Yield what ``source`` yields, stamped.

    Two clock readings, one content test, one append and one assignment a chunk; nothing else
    happens on the caller's thread. Exceptions pass through as they are.

    Args:
        source: The client library's own iteration over the stream.
        watching: Who follows it.
        stream: Kept alive for as long as it is iterated: in ``for chunk in create(...)`` nobody
            else holds it, and its finaliser would come before its end.
    """
    now = watching.call.now
    reads, tail = watching.call.reads, watching.call.tail
    if reads is None or watching.call.finished:
        yield from source
        return
    kind_of, stamps = watching.kind_of, reads.stamps
    # Of several choices each may end within its text, and others follow.
    alone = watching.call.choices == 1
    before = now()
    try:
        for chunk in source:
            stamps += (before, now(), kind := kind_of(chunk))
            if kind and alone:
                tail.latest = chunk
            else:
                tail.add(chunk)
            yield chunk
            before = now()
        watching.ended(before)
    except GeneratorExit:
        watching.left()
        raise
    except BaseException as error:
        watching.failed(before, error)
        raise


def aiterate(source: AsyncIterator[_T], watching: Watch, stream: object) -> AsyncGenerator[_T]:
    """
    Yield what ``source`` yields, stamped, and hear a ``break`` at once.

    An asynchronous generator that is dropped is closed by its event loop, later and in a task of
    the loop's. A weak reference to it is told when it is dropped. Arguments as for
    :func:`iterate`.
    """
    generator = _aiterate(source, watching, stream)
    weakref.finalize(generator, watching.iterator_dropped).atexit = False
    return generator


async def _aiterate(
    source: AsyncIterator[_T],
    watching: Watch,
    stream: object,  # noqa: ARG001 - kept alive
) -> AsyncGenerator[_T]:
    now = watching.call.now
    reads, tail = watching.call.reads, watching.call.tail
    if reads is None or watching.call.finished:
        async for chunk in source:
            yield chunk
        return
    kind_of, stamps = watching.kind_of, reads.stamps
    # Of several choices each may end within its text, and others follow.
    alone = watching.call.choices == 1
    before = now()
    try:
        async for chunk in source:
            stamps += (before, now(), kind := kind_of(chunk))
            if kind and alone:
                tail.latest = chunk
            else:
                tail.add(chunk)
            yield chunk
            before = now()
        watching.ended(before)
    except GeneratorExit:
        watching.left()
        raise
    except BaseException as error:
        watching.failed(before, error)
        raise
