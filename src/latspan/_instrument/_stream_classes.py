"""
The stream classes of a client library: how they iterate, are entered and are closed.

Each function takes a method of the library's and returns its replacement, which does as the
original does for every stream that latspan does not follow.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterator
from typing import Any, Final

from latspan._instrument._bodies import claim_body
from latspan._instrument._close_hooks import aclosing_of, closing_of
from latspan._instrument._patching import Patches
from latspan._instrument._streams import StreamTracker, aiterate, iterate
from latspan._operations import ModelCall
from latspan._wire import ApiFormat

__all__ = ["follow", "patch_stream_classes", "patch_stream_wrappers"]

_WATCH: Final = "_latspan_watch"
"""The attribute of a stream that holds who follows it."""


def patch_stream_classes(patches: Patches, stream: type, async_stream: type) -> None:
    """
    Hook how two classes of streams iterate, are entered and are closed.

    Of these methods a class needs only the one that iterates. Objects cannot be hooked one by one
    where they are made: Python looks such methods up in the class.

    Args:
        patches: Takes them off again.
        stream: Iterates synchronously.
        async_stream: Iterates asynchronously.
    """
    closing, aclosing = closing_of(_watch_of), aclosing_of(_watch_of)
    patches.replace(stream, "__iter__", _iter_of)
    _replace(patches, stream, __next__=_next_of, __enter__=_enter_of)
    # Where there is a `close`, the exit of `with` calls it.
    if not _replace(patches, stream, close=closing):
        _replace(patches, stream, __exit__=closing)
    patches.replace(async_stream, "__aiter__", _aiter_of)
    _replace(patches, async_stream, __anext__=_anext_of, __aenter__=_aenter_of)
    if not _replace(patches, async_stream, close=aclosing, aclose=aclosing):
        _replace(patches, async_stream, __aexit__=aclosing)


def _replace(patches: Patches, cls: type, **replacing: Callable[..., Any]) -> bool:
    """Replace those of the methods that the class has, and return whether it has any."""
    there = [name for name in replacing if callable(getattr(cls, name, None))]
    for name in there:
        patches.replace(cls, name, replacing[name])
    return bool(there)


def patch_stream_wrappers(patches: Patches, wrapper: type, async_wrapper: type) -> None:
    """
    Hook how two classes that wrap a stream, and close its response past it, are closed.

    Args:
        patches: Takes them off again.
        wrapper: Holds a stream in ``_raw_stream``, and closes with ``close``.
        async_wrapper: The same asynchronously.
    """
    patches.replace(wrapper, "close", closing_of(_watch_inside))
    patches.replace(async_wrapper, "close", aclosing_of(_watch_inside))


def follow(call: ModelCall, dialect: ApiFormat, stream: Any) -> StreamTracker:
    """
    Follow ``stream``, the answer of ``call``, to its end.

    Args:
        call: The call.
        dialect: How to tell what a chunk bears.
        stream: Of a class that is patched.
    """
    watching = _HeldByItsStream(call, dialect)
    setattr(stream, _WATCH, watching)
    return watching


class _HeldByItsStream(StreamTracker):
    """Follows a stream that holds it, and so is finalised with it: no reference to it is needed."""

    __slots__ = ()

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # At exit `shutdown` ends what is open; a finaliser then would be later and know less.
        if not is_finalizing() and not self.call.finished:
            self.dropped()


def _watch_of(stream: Any) -> StreamTracker | None:
    watching: StreamTracker | None = getattr(stream, _WATCH, None)
    if watching is None:
        # Made by the caller from a raw response, whose body was followed so far.
        call = claim_body(getattr(stream, "response", None))
        if call is not None and call.dialect is not None:
            return follow(call, call.dialect, stream)
    return watching


def _watch_inside(wrapper: Any) -> StreamTracker | None:
    return _watch_of(getattr(wrapper, "_raw_stream", None))


def _iter_of(original: Callable[[Any], Iterator[Any]]) -> Callable[[Any], Iterator[Any]]:
    """Replace ``Stream.__iter__``."""

    @functools.wraps(original)
    def iter_stream(self: Any) -> Iterator[Any]:
        watching = _watch_of(self)
        source = original(self)
        if source is self:
            # Its own iterator: each read of it goes through `__next__`.
            return source
        return _late(source, self) if watching is None else iterate(source, watching, self)

    return iter_stream


def _late(source: Iterator[Any], stream: Any) -> Generator[Any]:
    """Iterate a stream that another instrumentation began to iterate before it was handed over."""
    watching = _watch_of(stream)
    yield from source if watching is None else iterate(source, watching, stream)


async def _alate(source: AsyncGenerator[Any], stream: Any) -> AsyncGenerator[Any]:
    watching = _watch_of(stream)
    async for chunk in source if watching is None else aiterate(source, watching, stream):
        yield chunk


def _next_of(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Replace ``Stream.__next__``."""

    @functools.wraps(original)
    def next_chunk(self: Any) -> Any:
        watching = _watch_of(self)
        if watching is None:
            return original(self)
        before = watching.call.now()
        try:
            chunk = original(self)
        except StopIteration:
            watching.ended(before)
            raise
        except BaseException as error:
            watching.failed(before, error)
            raise
        watching.read(before, chunk)
        return chunk

    return next_chunk


def _enter_of(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Replace ``Stream.__enter__``."""

    @functools.wraps(original)
    def enter(self: Any) -> Any:
        watching = _watch_of(self)
        if watching is not None:
            watching.entered()
        return original(self)

    return enter


def _aiter_of(
    original: Callable[[Any], AsyncGenerator[Any]],
) -> Callable[[Any], AsyncGenerator[Any]]:
    """Replace ``AsyncStream.__aiter__``."""

    @functools.wraps(original)
    def aiter_stream(self: Any) -> AsyncGenerator[Any]:
        watching = _watch_of(self)
        source = original(self)
        if source is self:
            return source
        return _alate(source, self) if watching is None else aiterate(source, watching, self)

    return aiter_stream


def _anext_of(
    original: Callable[[Any], Awaitable[Any]],
) -> Callable[[Any], Awaitable[Any]]:
    """Replace ``AsyncStream.__anext__``."""

    @functools.wraps(original)
    async def next_chunk(self: Any) -> Any:
        watching = _watch_of(self)
        if watching is None:
            return await original(self)
        before = watching.call.now()
        try:
            chunk = await original(self)
        except StopAsyncIteration:
            watching.ended(before)
            raise
        except BaseException as error:
            watching.failed(before, error)
            raise
        watching.read(before, chunk)
        return chunk

    return next_chunk


def _aenter_of(original: Callable[[Any], Awaitable[Any]]) -> Callable[[Any], Awaitable[Any]]:
    """Replace ``AsyncStream.__aenter__``."""

    @functools.wraps(original)
    async def enter(self: Any) -> Any:
        watching = _watch_of(self)
        if watching is not None:
            watching.entered()
        return await original(self)

    return enter
