"""
Hooks on the stream classes of a client library: on iteration, ``with`` and closing.

Each function takes a method of the library and returns its replacement, which behaves like the
original for every stream that latspan does not track. A stream is tracked if it has the attribute
``_latspan_tracker``. Only the stream refers to its tracker, so the tracker's finaliser runs when
the stream is deleted. A stream that the caller made from a raw response has no tracker yet; the
hooks then take over the tracking of the response's body (``claim_body``).

A generator has no class of its own that could be hooked. latspan replaces it by another generator,
which reads the original one. The frame of the new generator holds the tracker.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterator
from typing import Any, Final, cast

from latspan._live.instrument._bodies import claim_body
from latspan._live.instrument._close_hooks import aclosing_of, closing_of
from latspan._live.instrument._patching import Patches
from latspan._live.instrument._streams import StreamTracker, aiter_tracked, iter_tracked
from latspan._live.operations import ModelCall
from latspan.errors import InstrumentationError

_TRACKER: Final = "_latspan_tracker"
"""Attribute of a stream that holds its tracker."""

HOOKED: Final = "_latspan_stream"
"""Attribute of a class whose streams can be tracked."""


def patch_stream(patches: Patches, cls: type) -> None:
    """
    Hook the iteration, ``with`` and close methods of a stream class.

    The class iterates synchronously, asynchronously or both. Its ``__iter__`` or ``__aiter__`` may
    be a generator function or return the object itself. The other methods are optional. Individual
    objects cannot be hooked where they are created, because Python looks these methods up in the
    class. The hooks have no effect on streams that do not belong to a recorded call.

    Args:
        patches: Applies and removes the patches.
        cls: Class of the streams that an SDK's methods return.

    Raises:
        InstrumentationError: The class does not iterate.
    """
    iterates_async = hasattr(cls, "__aiter__")
    if not iterates_async and not hasattr(cls, "__iter__"):
        raise InstrumentationError(
            f"{cls.__qualname__} does not iterate, so it is not a stream class"
        )
    if hasattr(cls, "__iter__"):
        patches.replace(cls, "__iter__", _iter_of)
        _replace(patches, cls, __next__=_next_of, __enter__=_enter_of)
        # If the class has a `close`, the exit of `with` calls it.
        closing = closing_of(_tracker_of)
        if iterates_async or not _replace(patches, cls, close=closing):
            _replace(patches, cls, __exit__=closing)
    if iterates_async:
        patches.replace(cls, "__aiter__", _aiter_of)
        _replace(patches, cls, __anext__=_anext_of, __aenter__=_aenter_of)
        aclosing = aclosing_of(_tracker_of)
        if not _replace(patches, cls, close=aclosing, aclose=aclosing):
            _replace(patches, cls, __aexit__=aclosing)
    patches.set_attribute(cls, HOOKED, value=True)


def _replace(patches: Patches, cls: type, **replacing: Callable[..., Any]) -> bool:
    """Replace the listed methods that the class has, and return whether it has any of them."""
    there = [name for name in replacing if callable(getattr(cls, name, None))]
    for name in there:
        patches.replace(cls, name, replacing[name])
    return bool(there)


def patch_stream_holder(patches: Patches, cls: type, attribute: str) -> None:
    """
    Hook the ``close`` of a class that holds a stream and closes the stream's response directly.

    Args:
        patches: Applies and removes the patches.
        cls: Class that has a ``close``, synchronous or asynchronous.
        attribute: Attribute of its objects that holds the stream.
    """

    def tracker_inside(holder: Any) -> StreamTracker | None:
        return _tracker_of(getattr(holder, attribute, None))

    is_async = inspect.iscoroutinefunction(inspect.unwrap(cast("Any", cls).close))
    patches.replace(cls, "close", (aclosing_of if is_async else closing_of)(tracker_inside))


def track_stream(call: ModelCall, stream: Any) -> StreamTracker:
    """
    Track ``stream``, the response of ``call``, to its end.

    Args:
        call: The call.
        stream: Instance of a patched class.
    """
    tracker = _HeldByItsStream(call)
    setattr(stream, _TRACKER, tracker)
    return tracker


class _HeldByItsStream(StreamTracker):
    """Tracker that its stream references and that is therefore finalised with the stream."""

    __slots__ = ()

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # At exit `shutdown` ends open calls; a finaliser would run later with less information.
        if not is_finalizing() and not self.call.finished:
            self.dropped()


class GeneratorTracker(_HeldByItsStream):
    """Tracker of a generator, which cannot be read on once its reader has left it."""

    __slots__ = ()

    def left(self, reader: object) -> None:
        """End the call, unless its generator was never read: then its finaliser ends the call."""
        super().left(reader)
        self.call.end_if_left(finalizing=True)


def _tracker_of(stream: Any) -> StreamTracker | None:
    tracker: StreamTracker | None = getattr(stream, _TRACKER, None)
    if tracker is None:
        # The caller made this stream from a raw response, whose body was tracked so far.
        call = claim_body(getattr(stream, "response", None))
        if call is not None:
            return track_stream(call, stream)
    return tracker


def _iter_of(original: Callable[[Any], Iterator[Any]]) -> Callable[[Any], Iterator[Any]]:
    """Replace ``Stream.__iter__``."""

    @functools.wraps(original)
    def iter_stream(self: Any) -> Iterator[Any]:
        tracker = _tracker_of(self)
        source = original(self)
        if source is self:
            # The stream is its own iterator: each read goes through `__next__`.
            return source
        return _late(source, self) if tracker is None else iter_tracked(source, tracker, self)

    return iter_stream


def _late(source: Iterator[Any], stream: Any) -> Generator[Any]:
    """Iterate a stream whose iteration another instrumentation began before it was tracked."""
    tracker = _tracker_of(stream)
    yield from source if tracker is None else iter_tracked(source, tracker, stream)


async def _alate(source: AsyncGenerator[Any], stream: Any) -> AsyncGenerator[Any]:
    tracker = _tracker_of(stream)
    async for chunk in source if tracker is None else aiter_tracked(source, tracker, stream):
        yield chunk


def _next_of(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Replace ``Stream.__next__``."""

    @functools.wraps(original)
    def next_chunk(self: Any) -> Any:
        tracker = _tracker_of(self)
        if tracker is None:
            return original(self)
        reader = object()
        tracker.begins(reader)
        before = tracker.call.now()
        try:
            chunk = original(self)
        except StopIteration:
            tracker.ended(before)
            raise
        except BaseException as error:
            tracker.failed(before, error, reader)
            raise
        tracker.read(before, chunk, reader)
        return chunk

    return next_chunk


def _enter_of(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Replace ``Stream.__enter__``."""

    @functools.wraps(original)
    def enter(self: Any) -> Any:
        tracker = _tracker_of(self)
        if tracker is not None:
            tracker.entered()
        return original(self)

    return enter


def _aiter_of(
    original: Callable[[Any], AsyncGenerator[Any]],
) -> Callable[[Any], AsyncGenerator[Any]]:
    """Replace ``AsyncStream.__aiter__``."""

    @functools.wraps(original)
    def aiter_stream(self: Any) -> AsyncGenerator[Any]:
        tracker = _tracker_of(self)
        source = original(self)
        if source is self:
            return source
        return _alate(source, self) if tracker is None else aiter_tracked(source, tracker, self)

    return aiter_stream


def _anext_of(
    original: Callable[[Any], Awaitable[Any]],
) -> Callable[[Any], Awaitable[Any]]:
    """Replace ``AsyncStream.__anext__``."""

    @functools.wraps(original)
    async def next_chunk(self: Any) -> Any:
        tracker = _tracker_of(self)
        if tracker is None:
            return await original(self)
        reader = object()
        tracker.begins(reader)
        before = tracker.call.now()
        try:
            chunk = await original(self)
        except StopAsyncIteration:
            tracker.ended(before)
            raise
        except BaseException as error:
            tracker.failed(before, error, reader)
            raise
        tracker.read(before, chunk, reader)
        return chunk

    return next_chunk


def _aenter_of(original: Callable[[Any], Awaitable[Any]]) -> Callable[[Any], Awaitable[Any]]:
    """Replace ``AsyncStream.__aenter__``."""

    @functools.wraps(original)
    async def enter(self: Any) -> Any:
        tracker = _tracker_of(self)
        if tracker is not None:
            tracker.entered()
        return await original(self)

    return enter
