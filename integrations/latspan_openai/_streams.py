"""
The SDK's stream classes: how they iterate, are entered and are closed.

Each function takes a method of the SDK's and returns its replacement, which does as the original
does for every stream that latspan does not follow.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from typing import Any, Final

from latspan.instrument import Call, Watch, aiterate, iterate, watch
from latspan.wire.openai_chat import OPENAI_CHAT

__all__ = [
    "aclose_of",
    "aenter_of",
    "aiter_of",
    "anext_of",
    "close_of",
    "enter_of",
    "follow",
    "iter_of",
    "next_of",
]

_WATCH: Final = "_latspan_watch"
"""The attribute of a stream that holds who follows it."""


def follow(call: Call, stream: Any) -> None:
    """Follow ``stream``, the answer of ``call``, to its end."""
    setattr(stream, _WATCH, watch(call, OPENAI_CHAT, stream))


def _watch_of(stream: Any) -> Watch | None:
    return getattr(stream, _WATCH, None)


def iter_of(original: Callable[[Any], Iterator[Any]]) -> Callable[[Any], Iterator[Any]]:
    """Replace ``Stream.__iter__``."""

    @functools.wraps(original)
    def iter_stream(self: Any) -> Iterator[Any]:
        watching = _watch_of(self)
        source = original(self)
        return source if watching is None else iterate(source, watching, self)

    return iter_stream


def next_of(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
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


def enter_of(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Replace ``Stream.__enter__``."""

    @functools.wraps(original)
    def enter(self: Any) -> Any:
        watching = _watch_of(self)
        if watching is not None:
            watching.entered()
        return original(self)

    return enter


def close_of(original: Callable[[Any], None]) -> Callable[[Any], None]:
    """Replace ``Stream.close``, which leaving ``with`` calls too."""

    @functools.wraps(original)
    def close(self: Any) -> None:
        watching = _watch_of(self)
        if watching is None:
            original(self)
            return
        watching.closing()
        try:
            original(self)
        finally:
            watching.closed()

    return close


def aiter_of(
    original: Callable[[Any], AsyncGenerator[Any]],
) -> Callable[[Any], AsyncGenerator[Any]]:
    """Replace ``AsyncStream.__aiter__``."""

    @functools.wraps(original)
    def aiter_stream(self: Any) -> AsyncGenerator[Any]:
        watching = _watch_of(self)
        source = original(self)
        return source if watching is None else aiterate(source, watching, self)

    return aiter_stream


def anext_of(
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


def aenter_of(original: Callable[[Any], Awaitable[Any]]) -> Callable[[Any], Awaitable[Any]]:
    """Replace ``AsyncStream.__aenter__``."""

    @functools.wraps(original)
    async def enter(self: Any) -> Any:
        watching = _watch_of(self)
        if watching is not None:
            watching.entered()
        return await original(self)

    return enter


def aclose_of(
    original: Callable[[Any], Awaitable[None]],
) -> Callable[[Any], Awaitable[None]]:
    """Replace ``AsyncStream.close``, which ``aclose`` and leaving ``async with`` call too."""

    @functools.wraps(original)
    async def close(self: Any) -> None:
        watching = _watch_of(self)
        if watching is None:
            await original(self)
            return
        watching.closing()
        try:
            await original(self)
        finally:
            watching.closed()

    return close
