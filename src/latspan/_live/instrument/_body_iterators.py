"""Iterators over response bodies that record each read of the client library's iterator."""

from __future__ import annotations

import weakref
from collections.abc import AsyncGenerator, Generator
from typing import TypeVar

from latspan._live.instrument._bodies import BodyTracker

_T = TypeVar("_T", bound=bytes)


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
