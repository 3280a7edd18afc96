"""One attempt of a request, and the signals of aiohttp's connector while it connects."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Final, cast

from aiohttp import ClientSession, TraceConfig
from aiohttp.tracing import Trace

from latspan._live.instrument import Exchange
from latspan._model.segments import SegmentName

_TRY: Final = "_latspan_try"
"""The attribute of a request, and of its response, that holds the attempt."""

_SILENT: Final = TraceConfig()
_SILENT.freeze()


class Try(Trace):
    """
    One attempt of a request. It is passed to the connector as a trace, which receives its signals.

    Only the connector receives this trace, in addition to the application's own traces, so the
    ``trace_configs`` of a session do not change. Signals without a method here are ignored.

    Args:
        exchange: The exchange that the attempt belongs to.
        secure: Whether the connection uses TLS.
    """

    def __init__(self, exchange: Exchange, *, secure: bool) -> None:
        super().__init__(cast("ClientSession", None), _SILENT, SimpleNamespace())
        self.exchange = exchange
        self.writes_body = False
        """Whether a separate task writes the body; that task then records the end of sending."""
        self._secure = secure
        self._looked_up = False

    async def send_connection_reuseconn(self) -> None:
        """Record that the pool returned a reused connection."""
        self._pool_acquired()

    async def send_connection_create_start(self) -> None:
        """Record that the pool permits a new connection."""
        self._pool_acquired()
        self.exchange.connected_here = True
        self.exchange.attempt.phase = SegmentName.CONNECT

    def _pool_acquired(self) -> None:
        attempt = self.exchange.attempt
        if attempt.pool_acquired_ns is None:
            attempt.pool_acquired_ns = self.exchange.operation.now()

    async def send_dns_resolvehost_start(self, host: str) -> None:  # noqa: ARG002 - aiohttp's
        """Record that the look-up of the host name has started."""
        self._looking_up()

    async def send_dns_cache_hit(self, host: str) -> None:  # noqa: ARG002 - aiohttp's
        """Record that the name is cached, or that another request is already looking it up."""
        self._looking_up()

    def _looking_up(self) -> None:
        self._looked_up = True
        self.exchange.attempt.phase = SegmentName.DNS

    def resolved(self) -> None:
        """Record that the addresses of the host are known."""
        attempt = self.exchange.attempt
        # aiohttp shields a look-up, so it continues after its request failed or was cancelled.
        if attempt.end_ns is None:
            # A host that is an IP address needs no look-up, so its connection begins with TCP.
            attempt.dns_done_ns = (
                self.exchange.operation.now() if self._looked_up else attempt.pool_acquired_ns
            )
            attempt.phase = SegmentName.TCP

    def socket_connected(self) -> None:
        """Record that TCP is connected, and that TLS begins if the connection uses it."""
        attempt = self.exchange.attempt
        attempt.connected_ns = self.exchange.operation.now()
        if self._secure:
            attempt.phase = SegmentName.TLS

    async def send_connection_create_end(self) -> None:
        """Record that the connection is ready for a request."""
        attempt, now = self.exchange.attempt, self.exchange.operation.now()
        if self._secure and attempt.connected_ns is not None:
            attempt.tls_done_ns = now
            return
        attempt.connected_ns = now
        if self._secure:
            # The end of TCP was not observed, so look-up, TCP and TLS are one composite segment.
            attempt.dns_done_ns = None

    def sent(self) -> None:
        """Record that the last byte of the request was written."""
        attempt = self.exchange.attempt
        if attempt.end_ns is None:
            attempt.sent_ns = self.exchange.operation.now()
            attempt.phase = SegmentName.SERVER_WAIT


def of(carrier: Any) -> Try | None:
    """Return the attempt that a request or a response belongs to, or ``None`` if not tracked."""
    tried = getattr(carrier, _TRY, None)
    # A mock in a test returns a value for every attribute, so the type is checked.
    return tried if isinstance(tried, Try) else None


def put(carrier: Any, tried: Try | None) -> bool:
    """
    Store the attempt that a request or a response belongs to.

    Returns:
        Whether it could be stored: a mock, or a class with slots, may not accept the attribute.
    """
    try:
        setattr(carrier, _TRY, tried)
    except AttributeError:
        return False
    return True
