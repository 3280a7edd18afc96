"""
Hooks on reading and closing the body of a response.

All public methods that read a body use ``iter_raw`` or ``aiter_raw``, so only these two are hooked
to record reads. They return the body in its content coding. ``_get_content_decoder``, a private
method, is hooked too: the tracker then receives what the library's own decoder returns, and latspan
does not decode the body again.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
)
from functools import partial
from typing import Any

from latspan._live.instrument import (
    BODIES_ARE_FOLLOWED,
    BodyTracker,
    Patches,
    aclosing_of,
    aiter_tracked_body,
    aiter_watched,
    body_tracker,
    closing_of,
    iter_tracked_body,
    iter_watched,
)


def patch_bodies(patches: Patches, library: Any) -> None:
    """Hook the responses of httpx or httpx2, and the context managers that hold them."""
    patches.set_attribute(library.Response, BODIES_ARE_FOLLOWED, value=True)
    patches.replace(library.Response, "iter_raw", _iter_raw_of)
    patches.replace(library.Response, "aiter_raw", _aiter_raw_of)
    patches.replace(library.Response, "_get_content_decoder", _decoder_of)
    # A close of the other kind raises, and the response stays open.
    sync_tracker = partial(_tracker_of, library.SyncByteStream)
    async_tracker = partial(_tracker_of, library.AsyncByteStream)
    patches.replace(library.Response, "close", closing_of(sync_tracker))
    patches.replace(library.Response, "aclose", aclosing_of(async_tracker))
    patches.replace(library.Client, "stream", _stream_of)
    patches.replace(library.AsyncClient, "stream", _astream_of)


def _tracker_of(stream_class: type, response: Any) -> BodyTracker | None:
    """Return the tracker of a response whose body is a stream of that class."""
    tracker = body_tracker(response)
    return tracker if tracker is None or isinstance(response.stream, stream_class) else None


def _iter_raw_of(
    original: Callable[..., Generator[bytes]],
) -> Callable[..., Generator[bytes]]:
    @functools.wraps(original)
    def iter_raw(self: Any, *args: Any, **kwargs: Any) -> Generator[bytes]:
        tracker = body_tracker(self)
        source = original(self, *args, **kwargs)
        if tracker is None:
            return iter_watched(source, self)
        return iter_tracked_body(source, tracker)

    return iter_raw


def _aiter_raw_of(
    original: Callable[..., AsyncGenerator[bytes]],
) -> Callable[..., AsyncGenerator[bytes]]:
    @functools.wraps(original)
    def aiter_raw(self: Any, *args: Any, **kwargs: Any) -> AsyncGenerator[bytes]:
        tracker = body_tracker(self)
        source = original(self, *args, **kwargs)
        if tracker is None:
            return aiter_watched(source, self)
        return aiter_tracked_body(source, tracker)

    return aiter_raw


class _FollowedDecoder:
    """
    Decoder that passes the decoded bytes of each read to a body tracker.

    Args:
        decoder: The library's own decoder.
        tracker: The tracker of the body.
    """

    __slots__ = ("_decoder", "_tracker")

    def __init__(self, decoder: Any, tracker: BodyTracker) -> None:
        self._decoder = decoder
        self._tracker = tracker

    def decode(self, data: bytes) -> bytes | Iterator[bytes]:
        """Return ``data`` without its content coding: as bytes in httpx, in parts in httpx2."""
        self._tracker.decoding = True
        try:
            decoded: bytes | Iterable[bytes] = self._decoder.decode(data)
        except BaseException as error:
            _undecodable(self._tracker, error)
            raise
        if not isinstance(decoded, bytes):
            return self._parts(decoded)
        self._tracker.decoded(decoded)
        return decoded

    def flush(self) -> bytes | Iterator[bytes]:
        """Return the decoded data that is left at the end of the body."""
        try:
            decoded: bytes | Iterable[bytes] = self._decoder.flush()
        except BaseException as error:
            _undecodable(self._tracker, error)
            raise
        if not isinstance(decoded, bytes):
            return self._parts(decoded, last=True)
        self._tracker.decoded(decoded)
        self._tracker.flushed()
        return decoded

    def _parts(self, decoded: Iterable[bytes], *, last: bool = False) -> Iterator[bytes]:
        try:
            for part in decoded:
                self._tracker.decoded(part)
                yield part
        except GeneratorExit:
            # The caller stopped reading between two parts, which is not a decoding error.
            raise
        except BaseException as error:
            _undecodable(self._tracker, error)
            raise
        if last:
            self._tracker.flushed()


def _undecodable(tracker: BodyTracker, error: BaseException) -> None:
    """Record an exception of the decoder, raised after the read that returned the data."""
    tracker.failed(tracker.operation.now(), error)


def _decoder_of(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """
    Replace ``Response._get_content_decoder`` to receive the decoded body.

    The hooked reads return the body in its content coding. If latspan decoded it a second time,
    that would take as long as the library's own decoder, on the caller's thread.
    """

    @functools.wraps(original)
    def get_content_decoder(self: Any) -> Any:
        tracker = body_tracker(self)
        try:
            decoder = original(self)
        except BaseException as error:
            # httpx2 raises here for a body with too many content codings.
            if tracker is not None:
                _undecodable(tracker, error)
            raise
        if tracker is None or not tracker.coded:
            return decoder
        return _FollowedDecoder(decoder, tracker)

    return get_content_decoder


def _entered(response: Any) -> None:
    tracker = body_tracker(response)
    if tracker is not None:
        tracker.entered()


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
