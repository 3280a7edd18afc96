"""What httpcore tells of a request through its ``trace`` extension."""

from __future__ import annotations

from latspan.instrument import Attempt
from latspan.segments import SegmentName

__all__ = ["stamp"]


def stamp(attempt: Attempt, name: str, now_ns: int) -> str:
    """
    Note one event of httpcore's on the try that it is part of.

    Args:
        attempt: The try.
        name: The event's, ``<part>.<step>.<started|complete|failed>``.
        now_ns: When it was heard, monotonic nanoseconds.

    Returns:
        The event's name without its part.
    """
    if attempt.pool_acquired_ns is None:
        # There is no event for it: the first that comes means the pool let us through.
        attempt.pool_acquired_ns = now_ns
    step = name.partition(".")[2]
    if step == "receive_response_headers.complete":
        attempt.headers_ns = now_ns
    elif step == "send_request_body.complete":
        attempt.sent_ns = now_ns
        attempt.phase = SegmentName.SERVER_WAIT
    elif step == "send_request_headers.started":
        attempt.phase = SegmentName.SEND
    elif step in {"connect_tcp.started", "connect_unix_socket.started"}:
        attempt.phase = SegmentName.CONNECT
    elif step in {"connect_tcp.complete", "connect_unix_socket.complete"}:
        attempt.connected_ns = now_ns
    elif step == "start_tls.started":
        attempt.phase = SegmentName.TLS
    elif step == "start_tls.complete":
        attempt.tls_done_ns = now_ns
    elif step == "receive_response_body.complete":
        attempt.body_end_ns = now_ns
    return step
