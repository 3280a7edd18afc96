"""How the body of a response is read, and the response closed."""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator
from typing import Any

from urllib3.response import HTTPResponse

from latspan.integrations import Patches, body_tracker, closing_of, iter_tracked_body

__all__ = ["at_its_end", "entering", "patch_bodies"]


def patch_bodies(patches: Patches) -> None:
    """Hook urllib3's responses; those of requests read through them."""
    patches.replace(HTTPResponse, "__enter__", entering)
    patches.replace(HTTPResponse, "read", _reading(gives_all=True))
    if hasattr(HTTPResponse, "read1"):
        patches.replace(HTTPResponse, "read1", _reading(gives_all=False))
    patches.replace(HTTPResponse, "stream", _iterating)
    patches.replace(HTTPResponse, "read_chunked", _iterating)
    patches.replace(HTTPResponse, "drain_conn", _drain_conn_of)
    patches.replace(HTTPResponse, "release_conn", _release_conn_of)
    patches.replace(HTTPResponse, "close", _close_of)


def at_its_end(response: Any) -> bool:
    """Return whether nothing is left of a body to be read, or nobody would hear it read."""
    if not isinstance(response, HTTPResponse):
        return True
    if response.headers.get("content-encoding") and response.tell():
        # Its last bytes may be in and not all decoded: only a read that gives nothing tells.
        return False
    try:
        return response.length_remaining == 0 or response.isclosed()
    except ValueError:
        # Made from something that cannot say.
        return False


def entering(original: Callable[..., Any]) -> Callable[..., Any]:
    """Stand in for ``__enter__`` of a response, of urllib3's or of requests'."""

    @functools.wraps(original)
    def enter(self: Any) -> Any:
        watching = body_tracker(getattr(self, "raw", self))
        if watching is not None:
            watching.entered()
        return original(self)

    return enter


def _reading(*, gives_all: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """
    Return what makes the stand-in for a method that reads.

    Args:
        gives_all: Whether it reads to the end where no amount is asked for.
    """

    def impersonate(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def read(self: Any, amt: int | None = None, *args: Any, **kwargs: Any) -> Any:
            watching = body_tracker(self)
            if watching is None or watching.in_read or watching.call.finished or amt == 0:
                return original(self, amt, *args, **kwargs)
            before = watching.reading()
            try:
                data = original(self, amt, *args, **kwargs)
            except BaseException as error:
                watching.failed(before, error)
                raise
            if not data:
                watching.ended(before)
                return data
            watching.read(before, data)
            if (gives_all and (amt is None or amt < 0)) or at_its_end(self):
                watching.ended(watching.reading())
            return data

        return read

    return impersonate


def _iterating(original: Callable[..., Generator[bytes]]) -> Callable[..., Generator[bytes]]:
    """Stand in for a method that yields the body; of one that uses another, the outer counts."""

    @functools.wraps(original)
    def iterating(self: Any, *args: Any, **kwargs: Any) -> Generator[bytes]:
        source = original(self, *args, **kwargs)
        watching = body_tracker(self)
        if watching is None or watching.in_read or watching.call.finished:
            return source
        return iter_tracked_body(source, watching)

    return iterating


def _drain_conn_of(original: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(original)
    def drain_conn(self: Any) -> None:
        watching = body_tracker(self)
        if watching is None or watching.in_read or watching.call.finished:
            original(self)
            return
        watching.closing()
        watching.reading()
        try:
            original(self)
        finally:
            watching.discarded()

    return drain_conn


def _release_conn_of(original: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(original)
    def release_conn(self: Any) -> None:
        watching = body_tracker(self)
        # A read that meets the end releases the connection itself.
        if watching is not None and not watching.in_read:
            watching.released()
        original(self)

    return release_conn


def _close_of(original: Callable[..., None]) -> Callable[..., None]:
    heard = closing_of(body_tracker)(original)

    @functools.wraps(original)
    def close(self: Any) -> None:
        # So `io.IOBase` calls it when nobody holds the response any more.
        if not getattr(self, "_finalizing", False):
            heard(self)
            return
        watching = body_tracker(self)
        if watching is not None:
            watching.dropped()
        original(self)

    return close
