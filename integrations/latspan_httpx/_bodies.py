"""Hooks on reading and closing the body of a response."""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
)
from typing import Any

from latspan._instrument import (
    BODIES_ARE_FOLLOWED,
    BodyTracker,
    Patches,
    aclosing_of,
    aiter_tracked_body,
    body_tracker,
    closing_of,
    iter_tracked_body,
)

__all__ = ["patch_bodies"]


def patch_bodies(patches: Patches, library: Any) -> None:
    """Hook the responses of httpx or httpx2, and the context managers that hold them."""
    patches.note(library.Response, BODIES_ARE_FOLLOWED, value=True)
    patches.replace(library.Response, "iter_raw", _iter_raw_of)
    patches.replace(library.Response, "aiter_raw", _aiter_raw_of)
    patches.replace(library.Response, "_get_content_decoder", _decoder_of)
    patches.replace(library.Response, "close", closing_of(body_tracker))
    patches.replace(library.Response, "aclose", aclosing_of(body_tracker))
    patches.replace(library.Client, "stream", _stream_of)
    patches.replace(library.AsyncClient, "stream", _astream_of)


def _iter_raw_of(
    original: Callable[..., Generator[bytes]],
) -> Callable[..., Generator[bytes]]:
    @functools.wraps(original)
    def iter_raw(self: Any, *args: Any, **kwargs: Any) -> Generator[bytes]:
        watching = body_tracker(self)
        source = original(self, *args, **kwargs)
        return source if watching is None else iter_tracked_body(source, watching)

    return iter_raw


def _aiter_raw_of(
    original: Callable[..., AsyncGenerator[bytes]],
) -> Callable[..., AsyncGenerator[bytes]]:
    @functools.wraps(original)
    def aiter_raw(self: Any, *args: Any, **kwargs: Any) -> AsyncGenerator[bytes]:
        watching = body_tracker(self)
        source = original(self, *args, **kwargs)
        return source if watching is None else aiter_tracked_body(source, watching)

    return aiter_raw


class _FollowedDecoder:
    """
    Decoder that passes the decoded bytes of each read to a body tracker.

    Args:
        decoder: The library's own decoder.
        watching: The tracker of the body.
    """

    __slots__ = ("_decoder", "_watching")

    def __init__(self, decoder: Any, watching: BodyTracker) -> None:
        self._decoder = decoder
        self._watching = watching

    def decode(self, data: bytes) -> bytes | Iterator[bytes]:
        """Return ``data`` without its content coding: as bytes in httpx, in parts in httpx2."""
        self._watching.decoding = True
        try:
            decoded: bytes | Iterable[bytes] = self._decoder.decode(data)
        except BaseException as error:
            _undecodable(self._watching, error)
            raise
        if not isinstance(decoded, bytes):
            return self._parts(decoded)
        self._watching.decoded(decoded)
        return decoded

    def flush(self) -> bytes | Iterator[bytes]:
        """Return the decoded data that is left at the end of the body."""
        try:
            decoded: bytes | Iterable[bytes] = self._decoder.flush()
        except BaseException as error:
            _undecodable(self._watching, error)
            raise
        if not isinstance(decoded, bytes):
            return self._parts(decoded, last=True)
        self._watching.decoded(decoded)
        self._watching.flushed()
        return decoded

    def _parts(self, decoded: Iterable[bytes], *, last: bool = False) -> Iterator[bytes]:
        try:
            for part in decoded:
                self._watching.decoded(part)
                yield part
        except GeneratorExit:
            # The caller stopped reading between two parts, which is not a decoding error.
            raise
        except BaseException as error:
            _undecodable(self._watching, error)
            raise
        if last:
            self._watching.flushed()


def _undecodable(watching: BodyTracker, error: BaseException) -> None:
    """Record an exception of the decoder, raised after the read that returned the data."""
    watching.failed(watching.call.now(), error)


def _decoder_of(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """
    Replace ``Response._get_content_decoder`` to receive the decoded body.

    The hooked reads return the body in its content coding. If latspan decoded it a second time,
    that would take as long as the library's own decoder, on the caller's thread.
    """

    @functools.wraps(original)
    def get_content_decoder(self: Any) -> Any:
        watching = body_tracker(self)
        try:
            decoder = original(self)
        except BaseException as error:
            # httpx2 raises here for a body with too many content codings.
            if watching is not None:
                _undecodable(watching, error)
            raise
        if watching is None or not watching.coded:
            return decoder
        return _FollowedDecoder(decoder, watching)

    return get_content_decoder


def _entered(response: Any) -> None:
    watching = body_tracker(response)
    if watching is not None:
        watching.entered()


def _stream_of(
    original: Callable[..., AbstractContextManager[Any]],
) -> Callable[..., AbstractContextManager[Any]]:
    @functools.wraps(original)
    @contextmanager
    def stream(self: Any, *args: Any, **kwargs: Any) -> Generator[Any]:
        with original(self, *args, **kwargs) as response:
            _entered(response)
            yield response

    return stream


def _astream_of(
    original: Callable[..., AbstractAsyncContextManager[Any]],
) -> Callable[..., AbstractAsyncContextManager[Any]]:
    @functools.wraps(original)
    @asynccontextmanager
    async def stream(self: Any, *args: Any, **kwargs: Any) -> AsyncGenerator[Any]:
        async with original(self, *args, **kwargs) as response:
            _entered(response)
            yield response

    return stream
