"""What httpcore tells of a request through its ``trace`` extension."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from latspan.instrument import Attempt
from latspan.segments import SegmentName

__all__ = ["astamping", "stamping"]

_EVENTS: Final[dict[str, tuple[str | None, SegmentName | None]]] = {
    "connect_tcp.started": (None, SegmentName.CONNECT),
    "connect_tcp.complete": ("connected_ns", None),
    "connect_unix_socket.started": (None, SegmentName.CONNECT),
    "connect_unix_socket.complete": ("connected_ns", None),
    "start_tls.started": (None, SegmentName.TLS),
    "start_tls.complete": ("tls_done_ns", None),
    "send_request_headers.started": (None, SegmentName.SEND),
    "send_request_body.complete": ("sent_ns", SegmentName.SERVER_WAIT),
    "receive_response_headers.complete": ("headers_ns", None),
    "receive_response_body.complete": ("body_end_ns", None),
}
"""The field of a try that says when an event was, and the segment that begins with it."""


def stamping(
    attempt: Attempt, now: Callable[[], int], also: Callable[[str, Any], object] | None = None
) -> Callable[[str, Any], None]:
    """
    Return what notes httpcore's events on the try that they are part of.

    Args:
        attempt: The try.
        now: Monotonic nanoseconds.
        also: Is told afterwards.

    Returns:
        Takes an event's name, ``<part>.<step>.<started|complete|failed>``, when it is heard.
    """

    def stamp(name: str, _info: Any) -> None:
        now_ns = now()
        if attempt.pool_acquired_ns is None:
            # There is no event for it: the first that comes means the pool let us through.
            attempt.pool_acquired_ns = now_ns
        event = _EVENTS.get(name.partition(".")[2])
        if event is None:
            return
        field, begins = event
        if field is not None:
            setattr(attempt, field, now_ns)
        if begins is not None:
            attempt.phase = begins
            if begins is SegmentName.SEND:
                attempt.reused = attempt.connected_ns is None

    if also is None:
        return stamp

    def stamp_and_tell(name: str, info: Any) -> None:
        stamp(name, info)
        also(name, info)

    return stamp_and_tell


def astamping(
    attempt: Attempt,
    now: Callable[[], int],
    also: Callable[[str, Any], Awaitable[object]] | None = None,
) -> Callable[[str, Any], Awaitable[None]]:
    """Return the same as :func:`stamping`, for an asynchronous transport."""
    stamp = stamping(attempt, now)

    async def astamp(name: str, info: Any) -> None:
        stamp(name, info)
        if also is not None:
            await also(name, info)

    return astamp
