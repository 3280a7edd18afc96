"""What httpcore tells of a request through its ``trace`` extension."""

from __future__ import annotations

from typing import Final

from latspan.instrument import Attempt
from latspan.segments import SegmentName

__all__ = ["stamp"]

_BEGINS: Final = {
    "connect_tcp.started": SegmentName.CONNECT,
    "connect_unix_socket.started": SegmentName.CONNECT,
    "start_tls.started": SegmentName.TLS,
    "send_request_headers.started": SegmentName.SEND,
    "send_request_body.complete": SegmentName.SERVER_WAIT,
}
"""The segment that begins with an event."""

_STAMPS: Final = {
    "connect_tcp.complete": "connected_ns",
    "connect_unix_socket.complete": "connected_ns",
    "start_tls.complete": "tls_done_ns",
    "send_request_body.complete": "sent_ns",
    "receive_response_headers.complete": "headers_ns",
    "receive_response_body.complete": "body_end_ns",
}
"""The field of a try that says when an event was."""


def stamp(attempt: Attempt, name: str, now_ns: int) -> None:
    """
    Note one event of httpcore's on the try that it is part of.

    Args:
        attempt: The try.
        name: The event's, ``<part>.<step>.<started|complete|failed>``.
        now_ns: When it was heard, monotonic nanoseconds.
    """
    if attempt.pool_acquired_ns is None:
        # There is no event for it: the first that comes means the pool let us through.
        attempt.pool_acquired_ns = now_ns
    step = name.partition(".")[2]
    field = _STAMPS.get(step)
    if field is not None:
        setattr(attempt, field, now_ns)
    begins = _BEGINS.get(step)
    if begins is not None:
        attempt.phase = begins
        if begins is SegmentName.SEND:
            attempt.reused = attempt.connected_ns is None
