"""
Hooks on reading, iterating and closing the body of a response.

A body is read through the response's ``StreamReader``, which accepts no attributes; so a table
finds the tracker by the ``id()`` of the reader. Only the basic methods of the reader are hooked. An
iterator over the body is recognised as dropped by a finaliser: its read function, the private
attribute ``read_func`` or ``_stream``, is replaced by an object that lives exactly as long as the
iterator.
"""

from __future__ import annotations

import asyncio
import functools
import weakref
from collections.abc import Awaitable, Callable
from typing import Any, Final

from aiohttp import ClientResponse, StreamReader, client

from latspan._live.instrument import (
    BodyTracker,
    Exchange,
    Patches,
    body_tracker,
    handle_internal_errors,
)

followed: Final[dict[int, tuple[BodyTracker, weakref.ref[ClientResponse]]]] = {}
"""
The tracker and the response of each followed body, by the ``id()`` of its reader.

A reader has ``__slots__``: latspan can neither add an attribute to it nor hold a weak reference to
it. Its response keeps it alive, so the ``id()`` stays valid while the response lives, and the entry
is removed together with the response.
"""

_SWITCHING_PROTOCOLS: Final = 101
_REDIRECTS: Final = range(300, 400)


def patch_bodies(patches: Patches) -> None:
    """
    Hook the readers of bodies, the responses, and the context managers that hold them.

    Only the basic methods of the reader are hooked, those that its other methods call, so that
    each read is recorded once.
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


def track_content(response: ClientResponse, exchange: Exchange) -> None:
    """
    Track the reads of the body of ``response``.

    Args:
        response: A response whose headers have been received.
        exchange: The exchange that the response belongs to.
    """
    content = response.content
    content.on_eof(functools.partial(_received, exchange))
    tracker = body_tracker(response)
    if tracker is None:
        return
    if content.at_eof() or response.status == _SWITCHING_PROTOCOLS:
        # There is nothing to read. Several responses may share one reader for an empty body, so
        # it must not be an entry of `followed`.
        tracker.ended(tracker.operation.now())
        return
    key = id(content)
    followed[key] = tracker, weakref.ref(response)
    weakref.finalize(response, followed.pop, key, None).atexit = False


def _received(exchange: Exchange) -> None:
    """Record that the last byte of the body has been received, read by the caller or not."""
    exchange.attempt.body_end_ns = exchange.operation.now()


def _tracker(content: StreamReader) -> BodyTracker | None:
    found = followed.get(id(content))
    return None if found is None else found[0]


def _reading_of(original: Callable[..., Awaitable[bytes]]) -> Callable[..., Awaitable[bytes]]:
    """Replace a method of the reader that returns bytes, and empty bytes at the end."""

    @functools.wraps(original)
    async def read(self: StreamReader, *args: Any, **kwargs: Any) -> bytes:
        tracker = _tracker(self)
        if tracker is None:
            return await original(self, *args, **kwargs)
        before = tracker.operation.now()
        try:
            data = await original(self, *args, **kwargs)
        except BaseException as error:
            _failed(tracker, self, before, error)
            raise
        _record_read(tracker, self, before, data)
        return data

    return read


def _read_of(original: Callable[..., Awaitable[bytes]]) -> Callable[..., Awaitable[bytes]]:
    """
    Replace ``StreamReader.read``.

    Without a limit it calls ``readany`` until the end, which is hooked itself.
    """
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
        tracker = _tracker(self)
        if tracker is None:
            return await original(self)
        before = tracker.operation.now()
        try:
            chunk = await original(self)
        except BaseException as error:
            _failed(tracker, self, before, error)
            raise
        _record_read(tracker, self, before, chunk[0])
        return chunk

    return readchunk


def _read_nowait_of(original: Callable[..., bytes]) -> Callable[..., bytes]:
    """Replace ``StreamReader.read_nowait``."""

    @functools.wraps(original)
    def read_nowait(self: StreamReader, n: int = -1) -> bytes:
        tracker = _tracker(self)
        if tracker is None:
            return original(self, n)
        before = tracker.operation.now()
        data = original(self, n)
        _record_read(tracker, self, before, data)
        return data

    return read_nowait


def _record_read(tracker: BodyTracker, content: StreamReader, before_ns: int, data: bytes) -> None:
    """Record a read that did not fail."""
    if data:
        tracker.read(before_ns, data)
    elif content.at_eof():
        tracker.ended(before_ns)


def _failed(
    tracker: BodyTracker, content: StreamReader, before_ns: int, error: BaseException
) -> None:
    """Record a failed read; after a cancelled or refused read the body can still be read."""
    if isinstance(error, asyncio.CancelledError | GeneratorExit):
        tracker.interrupted(before_ns, error)
    elif not (isinstance(error, RuntimeError) and _is_waited_for(content)):
        tracker.failed(before_ns, error)


def _is_waited_for(content: StreamReader) -> bool:
    """Return whether a read is waiting for data; aiohttp refuses any other read meanwhile."""
    return getattr(content, "_waiter", None) is not None


class _Iterated:
    """
    Read function of an iterator over a body; it lives as long as the iterator.

    Its finalizer reports that the caller dropped the iterator.

    Args:
        read: A method of the reader.
        content: The reader.
        response: The response, kept alive while its body is iterated.
        tracker: The tracker of its body.
    """

    __slots__ = ("__weakref__", "_content", "_iterator", "_read", "_response", "_tracker")

    def __init__(
        self,
        read: Callable[[], Awaitable[Any]],
        content: StreamReader,
        response: ClientResponse,
        tracker: BodyTracker,
    ) -> None:
        self._read = read
        self._content = content
        self._response = response
        self._tracker = tracker
        self._iterator = object()
        weakref.finalize(self, tracker.left, self._iterator).atexit = False

    def __call__(self) -> Awaitable[Any]:
        if not _is_waited_for(self._content):
            # If another read is waiting, aiohttp refuses this one, so it does not count as the
            # start of an iteration, and dropping this iterator does not leave the body unread.
            self._tracker.begins(self._iterator)
        return self._read()

    readchunk = __call__


def _iteration_of(original: Callable[..., Any], *, held_in: str) -> Callable[..., Any]:
    """Replace a method of the reader that returns an iterator, to detect when it is dropped."""

    @functools.wraps(original)
    def iteration(self: StreamReader, *args: Any, **kwargs: Any) -> Any:
        iterator = original(self, *args, **kwargs)
        found = followed.get(id(self))
        response = None if found is None else found[1]()
        if found is None or response is None:
            return iterator
        with handle_internal_errors("the iteration of a body"):
            held: Any = getattr(iterator, held_in)
            # Either a bound method that reads, or the reader itself, whose `readchunk` is called.
            read = getattr(held, "readchunk", held)
            setattr(iterator, held_in, _Iterated(read, self, response, found[0]))
        return iterator

    return iteration


def _closing_of(original: Callable[[ClientResponse], Any]) -> Callable[[ClientResponse], Any]:
    """Replace ``ClientResponse.close`` or ``release``; leaving ``async with`` also calls them."""

    @functools.wraps(original)
    def close(self: ClientResponse) -> Any:
        tracker = body_tracker(self)
        if tracker is None:
            return original(self)
        # A body counts as complete if nothing is left of it, even if the caller has not read the
        # end mark. The content of a redirect is in its headers, and aiohttp drops its body unread.
        whole = self.content.at_eof() or self.status in _REDIRECTS
        tracker.closing()
        try:
            return original(self)
        finally:
            if whole:
                tracker.ended(tracker.operation.now())
            else:
                tracker.closed()

    return close


def _entering_of(original: Callable[[Any], Awaitable[Any]]) -> Callable[[Any], Awaitable[Any]]:
    """Replace ``__aenter__`` of a response, or of a context manager that returns one."""

    @functools.wraps(original)
    async def enter(self: Any) -> Any:
        entered = await original(self)
        tracker = body_tracker(entered)
        if tracker is not None:
            tracker.entered()
        return entered

    return enter
