"""Iterators over response bodies that record each read of the client library's iterator."""

from __future__ import annotations

import weakref
from collections.abc import AsyncGenerator, Generator
from typing import TypeVar

from latspan._instrument._bodies import BodyTracker

__all__ = ["aiter_tracked_body", "iter_tracked_body"]

_T = TypeVar("_T", bound=bytes)


def iter_tracked_body(source: Generator[_T], watching: BodyTracker) -> Generator[_T]:
    """
    Yield the items of ``source`` and record each read. Exceptions propagate unchanged.

    Args:
        source: The client library's own iteration over the body.
        watching: Tracker of the body.
    """
    iterator = object()
    watching.begins(iterator)
    before, fresh = watching.reading(), True
    try:
        for data in source:
            watching.read(before, data)
            fresh = False
            yield data
            before = watching.reading()
        watching.ended(before)
    except GeneratorExit:
        watching.left(iterator)
        with watching.closing_itself():
            source.close()
        raise
    except BaseException as error:
        watching.failed(before, error, iterator if fresh else None)
        raise


def aiter_tracked_body(source: AsyncGenerator[_T], watching: BodyTracker) -> AsyncGenerator[_T]:
    """Yield the same asynchronously, and record a ``break`` immediately; see ``aiterate``."""
    iterator = object()
    generator = _aiterate_body(source, watching, iterator)
    weakref.finalize(generator, watching.left, iterator).atexit = False
    return generator


async def _aiterate_body(
    source: AsyncGenerator[_T], watching: BodyTracker, iterator: object
) -> AsyncGenerator[_T]:
    watching.begins(iterator)
    before, fresh = watching.reading(), True
    try:
        async for data in source:
            watching.read(before, data)
            fresh = False
            yield data
            before = watching.reading()
        watching.ended(before)
    except GeneratorExit:
        watching.left(iterator)
        with watching.closing_itself():
            await source.aclose()
        raise
    except BaseException as error:
        # A stopping event loop cancels the tasks that close dropped iterators; such a
        # cancellation is not a failed read.
        if watching.in_read:
            watching.failed(before, error, iterator if fresh else None)
        raise
