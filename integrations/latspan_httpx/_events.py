"""
What httpcore tells of one send through its ``trace`` extension.

The events of a send come in this order, each of its steps ``started`` and then ``complete`` or
``failed``. A connection that is open begins with the last line.

1. ``connect_tcp`` or ``connect_unix_socket``; where a connection is tried again (``retries=``),
   ``failed``, then ``retry`` and the back-off, then the same once more. That is another try.
2. Through a proxy: ``start_tls`` if the proxy speaks TLS, then the request for a tunnel, whose
   events have the names of the last line; or ``setup_socks5_connection``. A plain ``http`` request
   needs no tunnel: the proxy's connection is all there is. The whole of it is ``connect``.
3. ``start_tls`` with the server.
4. ``send_request_headers``, ``send_request_body``, ``receive_response_headers``, and as the body is
   read ``receive_response_body``, ``response_closed``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from latspan.integrations import Attempt, Exchange, SegmentName

__all__ = ["Listener"]

_EVENTS: Final[dict[str, tuple[str | None, SegmentName | None]]] = {
    "connect_tcp.started": (None, SegmentName.CONNECT),
    "connect_tcp.complete": ("connected_ns", None),
    "connect_unix_socket.started": (None, SegmentName.CONNECT),
    "connect_unix_socket.complete": ("connected_ns", None),
    "setup_socks5_connection.complete": ("connected_ns", None),
    "start_tls.started": (None, SegmentName.TLS),
    "start_tls.complete": ("tls_done_ns", None),
    "send_request_headers.started": (None, SegmentName.SEND),
    "send_request_body.complete": ("sent_ns", SegmentName.SERVER_WAIT),
    "receive_response_headers.complete": ("headers_ns", None),
    "receive_response_body.complete": ("body_end_ns", None),
}
"""The field of a try that says when an event was, and the segment that begins with it."""

_CONNECTING_FAILED: Final = frozenset(
    {"connect_tcp.failed", "connect_unix_socket.failed", "start_tls.failed"}
)


class Listener:
    """
    Notes httpcore's events on the try that they are part of.

    Args:
        attempt: The try.
        now: Monotonic nanoseconds.
        exchange: What it is a try of; ``None`` if nobody asks what becomes of it.
    """

    __slots__ = ("_exchange", "_failure", "_now", "_tunnelling", "attempt")

    def __init__(
        self, attempt: Attempt, now: Callable[[], int], exchange: Exchange | None = None
    ) -> None:
        self.attempt = attempt
        self._now = now
        self._exchange = exchange
        self._tunnelling = False
        self._failure: BaseException | None = None

    async def ahear(self, name: str, info: Any) -> None:
        """Do the same as :meth:`hear` for an asynchronous transport."""
        self.hear(name, info)

    def hear(self, name: str, info: Any) -> None:
        """
        Note an event, now.

        Args:
            name: ``<part>.<step>.<started|complete|failed>``.
            info: What httpcore tells of it, by name.
        """
        now_ns, attempt = self._now(), self.attempt
        if attempt.pool_acquired_ns is None:
            # There is no event for it: the first that comes means the pool let us through.
            attempt.pool_acquired_ns = now_ns
        step = name.partition(".")[2]
        event = _EVENTS.get(step)
        if event is None:
            if step in _CONNECTING_FAILED:
                self._failure = info.get("exception")
            elif step == "retry.started":
                self._gives_up()
        elif not self._tunnelling:
            field, begins = event
            if field is not None:
                setattr(attempt, field, now_ns)
            if begins is not None:
                self._enter(begins, info)
        elif step == "receive_response_headers.complete":
            self._tunnelling, attempt.connected_ns = False, now_ns

    def _enter(self, begins: SegmentName, info: Any) -> None:
        attempt = self.attempt
        if begins is SegmentName.CONNECT and attempt.end_ns is not None and self._exchange:
            # The back-off is over.
            attempt = self.attempt = self._exchange.send_begins()
            attempt.pool_acquired_ns = attempt.start_ns
        elif begins is SegmentName.SEND:
            if getattr(info.get("request"), "method", None) == b"CONNECT":
                # What came before was the connection to the proxy, and is part of `connect`.
                self._tunnelling, attempt.connected_ns, attempt.tls_done_ns = True, None, None
                begins = SegmentName.CONNECT
            else:
                attempt.reused = attempt.connected_ns is None
        attempt.phase = begins

    def _gives_up(self) -> None:
        """Hear that a connection that failed is tried again, after a back-off."""
        if self._exchange is not None and self._failure is not None:
            self._exchange.send_failed(self._failure, self.attempt)
        self._failure = None
