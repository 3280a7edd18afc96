"""Iterators over response bodies that record each read of the client library's iterator."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Final, TypeVar

from latspan._instrument._bodies import BodyTracker
from latspan._operations import Operation

__all__ = ["aiter_tracked_body", "iter_arrivals", "iter_tracked_body", "record_arrivals"]

_T = TypeVar("_T", bound=bytes)

_ARRIVALS: Final = "_latspan_arrivals"
"""Attribute of a response that holds the list of the arrivals of its parts, and the clock."""

_STAMPED_STREAMS: Final = 2
"""Number of streams of each API format whose arrivals are recorded: of the first ones."""

_KEPT_ARRIVALS: Final = 64
"""Number of arrivals kept, the last ones: those after the last token matter."""


def iter_tracked_body(source: Generator[_T], tracker: BodyTracker) -> Generator[_T]:
    """
    Yield the items of ``source`` and record each read. Exceptions propagate unchanged.

    Args:
        source: The client library's own iteration over the body.
        tracker: Tracker of the body.
    """
    iterator = object()
    tracker.begins(iterator)
    before, fresh = tracker.reading(), True
    try:
        for data in source:
            tracker.read(before, data)
            fresh = False
            yield data
            before = tracker.reading()
        tracker.ended(before)
    except GeneratorExit:
        tracker.left(iterator)
        with tracker.closing_itself():
            source.close()
        raise
    except BaseException as error:
        tracker.failed(before, error, iterator if fresh else None)
        raise


def aiter_tracked_body(source: AsyncGenerator[_T], tracker: BodyTracker) -> AsyncGenerator[_T]:
    """Yield the items of ``source`` and record each read, and a ``break`` immediately."""
    iterator = object()
    generator = _aiterate_body(source, tracker, iterator)
    weakref.finalize(generator, tracker.left, iterator).atexit = False
    return generator


async def _aiterate_body(
    source: AsyncGenerator[_T], tracker: BodyTracker, iterator: object
) -> AsyncGenerator[_T]:
    tracker.begins(iterator)
    before, fresh = tracker.reading(), True
    try:
        async for data in source:
            tracker.read(before, data)
            fresh = False
            yield data
            before = tracker.reading()
        tracker.ended(before)
    except GeneratorExit:
        tracker.left(iterator)
        with tracker.closing_itself():
            await source.aclose()
        raise
    except BaseException as error:
        # A stopping event loop cancels the tasks that close dropped iterators; such a
        # cancellation is not a failed read.
        if tracker.in_read:
            tracker.failed(before, error, iterator if fresh else None)
        raise


def record_arrivals(operation: Operation, response: object) -> None:
    """
    Record when parts of the body arrive, if this is one of the first streams of its API format.

    Args:
        operation: An open call, whose client library reads the body as its own stream.
        response: The response of the transport, on which an attribute is set.
    """
    reads, api_format = operation.reads, operation.api_format
    if reads is None or api_format is None:
        return
    first_streams = operation.runtime.first_streams
    number = first_streams.get(api_format.name, 0)
    if number < _STAMPED_STREAMS:
        first_streams[api_format.name] = number + 1
        reads.arrivals = deque[int](maxlen=_KEPT_ARRIVALS)
        setattr(response, _ARRIVALS, (reads.arrivals, operation.now))


def iter_arrivals(source: Generator[bytes], response: object) -> Generator[bytes]:
    """Return ``source``, with its arrivals recorded if :func:`record_arrivals` arranged that."""
    recorded: tuple[deque[int], Callable[[], int]] | None = getattr(response, _ARRIVALS, None)
    return source if recorded is None else _iter_arrivals(source, *recorded)


def _iter_arrivals(
    source: Generator[bytes], arrivals: deque[int], now: Callable[[], int]
) -> Generator[bytes]:
    try:
        for data in source:
            arrivals.append(now())
            yield data
    finally:
        source.close()
