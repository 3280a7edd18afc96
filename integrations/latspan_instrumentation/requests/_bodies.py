"""Hooks on reading the body of a response and on closing the response."""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator
from typing import Any

from urllib3.response import HTTPResponse

from latspan._live.instrument import (
    BODIES_ARE_FOLLOWED,
    Patches,
    body_tracker,
    closing_of,
    iter_tracked_body,
)


def patch_bodies(patches: Patches) -> None:
    """Hook urllib3's responses; the responses of requests read through them."""
    patches.replace(HTTPResponse, "__enter__", entering)
    patches.replace(HTTPResponse, "read", _reading(gives_all=True))
    if hasattr(HTTPResponse, "read1"):
        patches.replace(HTTPResponse, "read1", _reading(gives_all=False))
    patches.replace(HTTPResponse, "stream", _iterating)
    patches.replace(HTTPResponse, "read_chunked", _iterating)
    patches.replace(HTTPResponse, "drain_conn", _drain_conn_of)
    patches.replace(HTTPResponse, "release_conn", _release_conn_of)
    patches.replace(HTTPResponse, "close", _close_of)
    patches.set_attribute(HTTPResponse, BODIES_ARE_FOLLOWED, value=True)


def at_its_end(response: Any) -> bool:
    """Return whether a body is read to its end, or its reads are not tracked at all."""
    if not isinstance(response, HTTPResponse):
        return True
    if response.headers.get("content-encoding") and response.tell():
        # The last bytes may be received but not yet decoded. Only a read that returns no data
        # shows that the decoded body has ended.
        return False
    try:
        return response.length_remaining == 0 or response.isclosed()
    except ValueError:
        # The response wraps a file object that cannot report whether it is closed.
        return False


def entering(original: Callable[..., Any]) -> Callable[..., Any]:
    """Replace ``__enter__`` of a response of urllib3 or requests."""

    @functools.wraps(original)
    def enter(self: Any) -> Any:
        tracker = body_tracker(getattr(self, "raw", self))
        if tracker is not None:
            tracker.entered()
        return original(self)

    return enter


def _reading(*, gives_all: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """
    Return a function that makes the replacement for a method that reads.

    Args:
        gives_all: Whether the method reads to the end if it is called without an amount.
    """

    def impersonate(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def read(self: Any, amt: int | None = None, *args: Any, **kwargs: Any) -> Any:
            tracker = body_tracker(self)
            if tracker is None or tracker.in_read or tracker.operation.finished or amt == 0:
                return original(self, amt, *args, **kwargs)
            before = tracker.reading()
            try:
                data = original(self, amt, *args, **kwargs)
            except BaseException as error:
                tracker.failed(before, error)
                raise
            if not data:
                tracker.ended(before)
                return data
            tracker.read(before, data)
            if (gives_all and (amt is None or amt < 0)) or at_its_end(self):
                tracker.ended(tracker.reading())
            return data

        return read

    return impersonate


def _iterating(original: Callable[..., Generator[bytes]]) -> Callable[..., Generator[bytes]]:
    """
    Replace a method that yields the body.

    If such a method uses another one, only the outer one is tracked.
    """

    @functools.wraps(original)
    def iterating(self: Any, *args: Any, **kwargs: Any) -> Generator[bytes]:
        source = original(self, *args, **kwargs)
        tracker = body_tracker(self)
        if tracker is None or tracker.in_read or tracker.operation.finished:
            return source
        return iter_tracked_body(source, tracker)

    return iterating


def _drain_conn_of(original: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(original)
    def drain_conn(self: Any) -> None:
        tracker = body_tracker(self)
        if tracker is None or tracker.in_read or tracker.operation.finished:
            original(self)
            return
        tracker.closing()
        tracker.reading()
        try:
            original(self)
        finally:
            tracker.discarded()

    return drain_conn


def _release_conn_of(original: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(original)
    def release_conn(self: Any) -> None:
        tracker = body_tracker(self)
        # A read that reaches the end releases the connection itself, and the read is recorded.
        if tracker is not None and not tracker.in_read:
            tracker.released()
        original(self)

    return release_conn


def _close_of(original: Callable[..., None]) -> Callable[..., None]:
    tracked = closing_of(body_tracker)(original)

    @functools.wraps(original)
    def close(self: Any) -> None:
        # `io.IOBase` sets `_finalizing` if it calls `close` because the response is garbage.
        if not getattr(self, "_finalizing", False):
            tracked(self)
            return
        tracker = body_tracker(self)
        if tracker is not None:
            tracker.dropped()
        original(self)

    return close
