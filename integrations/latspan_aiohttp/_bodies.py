"""How a response's body is read, iterated and closed."""

from __future__ import annotations

import asyncio
import functools
import weakref
from collections.abc import Awaitable, Callable
from typing import Any, Final

from aiohttp import ClientResponse, StreamReader, client

from latspan.integrations import (
    BodyTracker,
    Exchange,
    Patches,
    body_tracker,
    handle_internal_errors,
)

__all__ = ["follow_content", "followed", "patch_bodies"]

followed: Final[dict[int, tuple[BodyTracker, weakref.ref[ClientResponse]]]] = {}
"""
Who follows which body, by the identity of its reader.

A reader has slots, none of them for us, and no room for a weak reference. Its response holds it
for as long as it lives itself, and the entry goes when the response does.
"""

_SWITCHING_PROTOCOLS: Final = 101
_REDIRECTS: Final = range(300, 400)


def patch_bodies(patches: Patches) -> None:
    """
    Hook the readers of bodies, the responses, and the context managers that hold them.

    Of the reader's methods those that others are made of, so that each read is heard once.
    """
    patches.replace(StreamReader, "read", _read_of)
    patches.replace(StreamReader, "readany", _reading_of)
    patches.replace(StreamReader, "readuntil", _reading_of)
    patches.replace(StreamReader, "readchunk", _readchunk_of)
    patches.replace(StreamReader, "read_nowait", _read_nowait_of)
    for name, held_in in (
        ("__aiter__", "read_func"),
        ("iter_any", "read_func"),
        ("iter_chunked", "read_func"),
        ("iter_chunks", "_stream"),
    ):
        patches.replace(StreamReader, name, functools.partial(_iteration_of, held_in=held_in))
    patches.replace(ClientResponse, "close", _closing_of)
    patches.replace(ClientResponse, "release", _closing_of)
    for cls in (
        ClientResponse,
        client._BaseRequestContextManager,  # pyright: ignore[reportPrivateUsage] - no other name
        client._SessionRequestContextManager,  # pyright: ignore[reportPrivateUsage] - no other name
    ):
        patches.replace(cls, "__aenter__", _entering_of)


def follow_content(response: ClientResponse, exchange: Exchange) -> None:
    """
    Follow the body of ``response`` as its reader is read.

    Args:
        response: Its headers are in.
        exchange: Whose response it is.
    """
    content = response.content
    content.on_eof(functools.partial(_received, exchange))
    watching = body_tracker(response)
    if watching is None:
        return
    if content.at_eof() or response.status == _SWITCHING_PROTOCOLS:
        # There is nothing to read; several responses may share one reader that says so.
        watching.ended(watching.call.now())
        return
    key = id(content)
    followed[key] = watching, weakref.ref(response)
    weakref.finalize(response, followed.pop, key, None).atexit = False


def _received(exchange: Exchange) -> None:
    """Hear that the last byte of the body is in, whether anybody has read it or not."""
    exchange.attempt.body_end_ns = exchange.call.now()


def _watching(content: StreamReader) -> BodyTracker | None:
    found = followed.get(id(content))
    return None if found is None else found[0]


def _reading_of(original: Callable[..., Awaitable[bytes]]) -> Callable[..., Awaitable[bytes]]:
    """Replace a method of a reader's that gives bytes, none at the end."""

    @functools.wraps(original)
    async def read(self: StreamReader, *args: Any, **kwargs: Any) -> bytes:
        watching = _watching(self)
        if watching is None:
            return await original(self, *args, **kwargs)
        before = watching.call.now()
        try:
            data = await original(self, *args, **kwargs)
        except BaseException as error:
            _failed(watching, self, before, error)
            raise
        _heard(watching, self, before, data)
        return data

    return read


def _read_of(original: Callable[..., Awaitable[bytes]]) -> Callable[..., Awaitable[bytes]]:
    """Replace ``StreamReader.read``, which reads all by as many reads of ``readany``."""
    reading = _reading_of(original)

    @functools.wraps(original)
    async def read(self: StreamReader, n: int = -1) -> bytes:
        return await (original if n < 0 else reading)(self, n)

    return read


def _readchunk_of(
    original: Callable[[StreamReader], Awaitable[tuple[bytes, bool]]],
) -> Callable[[StreamReader], Awaitable[tuple[bytes, bool]]]:
    """Replace ``StreamReader.readchunk``."""

    @functools.wraps(original)
    async def readchunk(self: StreamReader) -> tuple[bytes, bool]:
        watching = _watching(self)
        if watching is None:
            return await original(self)
        before = watching.call.now()
        try:
            chunk = await original(self)
        except BaseException as error:
            _failed(watching, self, before, error)
            raise
        _heard(watching, self, before, chunk[0])
        return chunk

    return readchunk


def _read_nowait_of(original: Callable[..., bytes]) -> Callable[..., bytes]:
    """Replace ``StreamReader.read_nowait``."""

    @functools.wraps(original)
    def read_nowait(self: StreamReader, n: int = -1) -> bytes:
        watching = _watching(self)
        if watching is None:
            return original(self, n)
        before = watching.call.now()
        data = original(self, n)
        _heard(watching, self, before, data)
        return data

    return read_nowait


def _heard(watching: BodyTracker, content: StreamReader, before_ns: int, data: bytes) -> None:
    """Tell of a read that did not fail."""
    if data:
        watching.read(before_ns, data)
    elif content.at_eof():
        watching.ended(before_ns)


def _failed(
    watching: BodyTracker, content: StreamReader, before_ns: int, error: BaseException
) -> None:
    """Report a failed read; after a cancelled or refused one the body can still be read."""
    if isinstance(error, asyncio.CancelledError | GeneratorExit):
        watching.interrupted(before_ns, error)
    elif not (isinstance(error, RuntimeError) and _is_waited_for(content)):
        watching.failed(before_ns, error)


def _is_waited_for(content: StreamReader) -> bool:
    """Return whether a read waits for data, beside which every other one is refused."""
    return getattr(content, "_waiter", None) is not None


class _Iterated:
    """
    What an iterator over a body reads through: it lives for as long as somebody iterates.

    Args:
        read: A method of the reader's.
        content: The reader itself.
        response: Kept alive, as by whoever reads to the end.
        watching: Follows its body.
    """

    __slots__ = ("__weakref__", "_content", "_iterator", "_read", "_response", "_watching")

    def __init__(
        self,
        read: Callable[[], Awaitable[Any]],
        content: StreamReader,
        response: ClientResponse,
        watching: BodyTracker,
    ) -> None:
        self._read = read
        self._content = content
        self._response = response
        self._watching = watching
        self._iterator = object()
        weakref.finalize(self, watching.left, self._iterator).atexit = False

    def __call__(self) -> Awaitable[Any]:
        if not _is_waited_for(self._content):
            # Otherwise it is refused, and dropping it leaves nothing.
            self._watching.begins(self._iterator)
        return self._read()

    readchunk = __call__


def _iteration_of(original: Callable[..., Any], *, held_in: str) -> Callable[..., Any]:
    """Replace a method of a reader's that gives an iterator, to hear when that is dropped."""

    @functools.wraps(original)
    def iteration(self: StreamReader, *args: Any, **kwargs: Any) -> Any:
        iterator = original(self, *args, **kwargs)
        found = followed.get(id(self))
        response = None if found is None else found[1]()
        if found is None or response is None:
            return iterator
        with handle_internal_errors("the iteration of a body"):
            held: Any = getattr(iterator, held_in)
            # A method to read by, or the reader itself, of which one method is called.
            read = getattr(held, "readchunk", held)
            setattr(iterator, held_in, _Iterated(read, self, response, found[0]))
        return iterator

    return iteration


def _closing_of(original: Callable[[ClientResponse], Any]) -> Callable[[ClientResponse], Any]:
    """Replace ``ClientResponse.close`` or ``release``, which leaving ``async with`` calls too."""

    @functools.wraps(original)
    def close(self: ClientResponse) -> Any:
        watching = body_tracker(self)
        if watching is None:
            return original(self)
        # An answer that is not read to its end mark is whole nevertheless if nothing is left of
        # it; what a redirect answers stands in its headers, and aiohttp drops the rest unread.
        whole = self.content.at_eof() or self.status in _REDIRECTS
        watching.closing()
        try:
            return original(self)
        finally:
            if whole:
                watching.ended(watching.call.now())
            else:
                watching.closed()

    return close


def _entering_of(original: Callable[[Any], Awaitable[Any]]) -> Callable[[Any], Awaitable[Any]]:
    """Replace ``__aenter__`` of a response, or of what makes one."""

    @functools.wraps(original)
    async def enter(self: Any) -> Any:
        entered = await original(self)
        watching = body_tracker(entered)
        if watching is not None:
            watching.entered()
        return entered

    return enter
