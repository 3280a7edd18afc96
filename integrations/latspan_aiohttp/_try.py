"""One try: what aiohttp's connector tells while the connection for it is made."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Final, cast

from aiohttp import ClientSession, TraceConfig
from aiohttp.tracing import Trace

from latspan.integrations import Exchange, SegmentName

__all__ = ["Try", "of", "put"]

_TRY: Final = "_latspan_try"
"""The attribute of a request, and of its response, that holds the try."""

_SILENT: Final = TraceConfig()
_SILENT.freeze()


class Try(Trace):
    """
    One try of a request, in the place of a trace that a connector reports to.

    A connector gets it beside the traces of the application's own, and nobody else does, so that
    no session's ``trace_configs`` changes. A signal that is not heard here goes to nobody.

    Args:
        exchange: What it is a try of.
        secure: Whether TLS is spoken.
    """

    def __init__(self, exchange: Exchange, *, secure: bool) -> None:
        super().__init__(cast("ClientSession", None), _SILENT, SimpleNamespace())
        self.exchange = exchange
        self.writes_body = False
        """Whether the body is written in a task of its own, which knows when all is sent."""
        self._secure = secure
        self._looked_up = False

    async def send_connection_reuseconn(self) -> None:
        """Hear that the pool gave a connection that had served before."""
        self._pool_acquired()

    async def send_connection_create_start(self) -> None:
        """Hear that the pool gave room for a new connection."""
        self._pool_acquired()
        self.exchange.connected_here = True
        self.exchange.attempt.phase = SegmentName.CONNECT

    def _pool_acquired(self) -> None:
        attempt = self.exchange.attempt
        if attempt.pool_acquired_ns is None:
            attempt.pool_acquired_ns = self.exchange.call.now()

    async def send_dns_resolvehost_start(self, host: str) -> None:  # noqa: ARG002 - aiohttp's
        """Hear that the name is being looked up."""
        self._looking_up()

    async def send_dns_cache_hit(self, host: str) -> None:  # noqa: ARG002 - aiohttp's
        """Hear that the name is known, or that another request is looking it up already."""
        self._looking_up()

    def _looking_up(self) -> None:
        self._looked_up = True
        self.exchange.attempt.phase = SegmentName.DNS

    def resolved(self) -> None:
        """Hear that the addresses are known."""
        attempt = self.exchange.attempt
        # A look-up goes on, shielded, after its request has failed or was cancelled.
        if attempt.end_ns is None:
            # A host that is an address has none: its connection begins with TCP.
            attempt.dns_done_ns = (
                self.exchange.call.now() if self._looked_up else attempt.pool_acquired_ns
            )
            attempt.phase = SegmentName.TCP

    def socket_connected(self) -> None:
        """Hear that TCP stands, and TLS begins if it is spoken."""
        attempt = self.exchange.attempt
        attempt.connected_ns = self.exchange.call.now()
        if self._secure:
            attempt.phase = SegmentName.TLS

    async def send_connection_create_end(self) -> None:
        """Hear that the connection is ready for a request."""
        attempt, now = self.exchange.attempt, self.exchange.call.now()
        if self._secure and attempt.connected_ns is not None:
            attempt.tls_done_ns = now
            return
        attempt.connected_ns = now
        if self._secure:
            # Nobody told TCP from TLS: the whole is one composite segment.
            attempt.dns_done_ns = None

    def sent(self) -> None:
        """Hear that the last byte of the request was handed over."""
        attempt = self.exchange.attempt
        if attempt.end_ns is None:
            attempt.sent_ns = self.exchange.call.now()
            attempt.phase = SegmentName.SERVER_WAIT


def of(carrier: Any) -> Try | None:
    """Return the try that a request or a response belongs to, if it is followed."""
    tried = getattr(carrier, _TRY, None)
    # A test's fake has every attribute that it is asked for.
    return tried if isinstance(tried, Try) else None


def put(carrier: Any, tried: Try | None) -> bool:
    """
    Note which try a request or a response belongs to.

    Returns:
        Whether it could be noted: a fake, or a class with slots, takes no attribute of ours.
    """
    try:
        setattr(carrier, _TRY, tried)
    except AttributeError:
        return False
    return True
