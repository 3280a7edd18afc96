"""
Hooks on the stream classes of a client library: on iteration, ``with`` and closing.

Each function takes a method of the library and returns its replacement, which behaves like the
original for every stream that latspan does not track. A stream is tracked if it has the attribute
``_latspan_tracker``. Only the stream refers to its tracker, so the tracker's finaliser runs when
the stream is deleted. A stream that the caller made from a raw response has no tracker yet; the
hooks then take over the tracking of the response's body (``claim_body``). Of the SDK's private
members, only ``_raw_stream`` of its wrapper classes is read.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterator
from typing import Any, Final

from latspan._instrument._bodies import claim_body
from latspan._instrument._close_hooks import aclosing_of, closing_of
from latspan._instrument._patching import Patches
from latspan._instrument._streams import StreamTracker, aiter_tracked, iter_tracked
from latspan._operations import ModelCall
from latspan._wire import ApiFormat

__all__ = ["patch_stream_classes", "patch_stream_wrappers", "track_stream"]

_TRACKER: Final = "_latspan_tracker"
"""Attribute of a stream that holds its tracker."""


def patch_stream_classes(patches: Patches, stream: type, async_stream: type) -> None:
    """
    Hook the iteration, ``with`` and close methods of two stream classes.

    A class must have the method that iterates; the others are optional. Individual objects cannot
    be hooked where they are created, because Python looks these methods up in the class.

    Args:
        patches: Applies and removes the patches.
        stream: Class that iterates synchronously.
        async_stream: Class that iterates asynchronously.
    """
    closing, aclosing = closing_of(_tracker_of), aclosing_of(_tracker_of)
    patches.replace(stream, "__iter__", _iter_of)
    _replace(patches, stream, __next__=_next_of, __enter__=_enter_of)
    # If the class has a `close`, the exit of `with` calls it.
    if not _replace(patches, stream, close=closing):
        _replace(patches, stream, __exit__=closing)
    patches.replace(async_stream, "__aiter__", _aiter_of)
    _replace(patches, async_stream, __anext__=_anext_of, __aenter__=_aenter_of)
    if not _replace(patches, async_stream, close=aclosing, aclose=aclosing):
        _replace(patches, async_stream, __aexit__=aclosing)


def _replace(patches: Patches, cls: type, **replacing: Callable[..., Any]) -> bool:
    """Replace the listed methods that the class has, and return whether it has any of them."""
    there = [name for name in replacing if callable(getattr(cls, name, None))]
    for name in there:
        patches.replace(cls, name, replacing[name])
    return bool(there)


def patch_stream_wrappers(patches: Patches, wrapper: type, async_wrapper: type) -> None:
    """
    Hook the ``close`` of two classes that wrap a stream and close its response directly.

    Args:
        patches: Applies and removes the patches.
        wrapper: Class that holds a stream in ``_raw_stream`` and has a ``close``.
        async_wrapper: The same with an asynchronous ``close``.
    """
    patches.replace(wrapper, "close", closing_of(_tracker_inside))
    patches.replace(async_wrapper, "close", aclosing_of(_tracker_inside))


def track_stream(call: ModelCall, api_format: ApiFormat, stream: Any) -> StreamTracker:
    """
    Track ``stream``, the response of ``call``, to its end.

    Args:
        call: The call.
        api_format: API format of the stream's chunks.
        stream: Instance of a patched class.
    """
    tracker = _HeldByItsStream(call, api_format)
    setattr(stream, _TRACKER, tracker)
    return tracker


class _HeldByItsStream(StreamTracker):
    """Tracker that its stream references and that is therefore finalised with the stream."""

    __slots__ = ()

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # At exit `shutdown` ends open calls; a finaliser would run later with less information.
        if not is_finalizing() and not self.call.finished:
            self.dropped()


def _tracker_of(stream: Any) -> StreamTracker | None:
    tracker: StreamTracker | None = getattr(stream, _TRACKER, None)
    if tracker is None:
        # The caller made this stream from a raw response, whose body was tracked so far.
        call = claim_body(getattr(stream, "response", None))
        if call is not None and call.api_format is not None:
            return track_stream(call, call.api_format, stream)
    return tracker


def _tracker_inside(wrapper: Any) -> StreamTracker | None:
    return _tracker_of(getattr(wrapper, "_raw_stream", None))


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
        before = tracker.call.now()
        try:
            chunk = original(self)
        except StopIteration:
            tracker.ended(before)
            raise
        except BaseException as error:
            tracker.failed(before, error)
            raise
        tracker.read(before, chunk)
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
        before = tracker.call.now()
        try:
            chunk = await original(self)
        except StopAsyncIteration:
            tracker.ended(before)
            raise
        except BaseException as error:
            tracker.failed(before, error)
            raise
        tracker.read(before, chunk)
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
