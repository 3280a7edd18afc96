"""
Client of an OpenAI-compatible endpoint that sends streamed chats, each recorded as one call.

A call is opened before the connection, so that a refused connection or a status of 500 is a call
with an outcome. What follows is recorded by the code that records HTTP clients in production: an
exchange for the attempt, and a body tracker for the stream.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from latspan._instrument import (
    BodyTracker,
    Exchange,
    SentRequest,
    error_type_of,
    open_call,
    outcome_of,
)
from latspan._instrument._outcomes import is_error
from latspan._load._answer import Answer
from latspan._load._connections import Connection, ConnectionPool
from latspan._segments import Outcome, SegmentName
from latspan._wire.openai_chat import OPENAI_CHAT

if TYPE_CHECKING:
    from latspan._load._endpoint import Endpoint
    from latspan._operations import ModelCall

__all__ = ["ChatClient"]

_LONGEST_ERROR: Final = 4_000
"""Maximum number of bytes kept of the body of an error."""

_OFF: Final = "latspan is off, so nothing would be recorded"


class ChatClient:
    """
    Client of one endpoint.

    Args:
        endpoint: Address and key of the endpoint.
        model: The requested model.
        reuse_connections: Whether a connection carries further requests.
    """

    def __init__(self, endpoint: Endpoint, model: str, *, reuse_connections: bool = True) -> None:
        self._endpoint = endpoint
        self._model = model
        self._server = (endpoint.host, endpoint.port)
        self._pool = ConnectionPool(
            endpoint.host, endpoint.port, tls=endpoint.tls(), reuse=reuse_connections
        )
        self._head = endpoint.request_head("POST", endpoint.chat_path)

    async def ask(self, body: bytes, timeout_s: float | None = None) -> Answer:
        """
        Send a chat and read its response to the end.

        Args:
            body: Body of the request, JSON.
            timeout_s: Seconds until the call ends with the outcome ``timeout``.

        Raises:
            asyncio.CancelledError: The task was cancelled; the call has the outcome ``cancelled``.
        """
        call: Any = open_call(
            operation="chat",
            provider="openai",
            model=self._model,
            api_format=OPENAI_CHAT,
            server=self._server,
            streamed=True,
        )
        if call is None:
            raise RuntimeError(_OFF)
        response = _Response(call)
        try:
            async with asyncio.timeout(timeout_s):
                await self._exchange(call, body, response)
        except asyncio.CancelledError as error:
            response.give_up(error)
            raise
        except Exception as error:  # noqa: BLE001 - whatever happened is the outcome of the call
            response.give_up(error)
        return response.answer()

    async def _exchange(self, call: ModelCall, body: bytes, response: _Response) -> None:
        """Send a request, on a new connection if an old one turns out to be closed."""
        exchange = self._begun(call, body)
        response.exchange = exchange
        request = self._request(exchange, body)
        for is_last in (False, True):
            connection = await self._pool.connection(exchange.attempt, call.now, fresh=is_last)
            response.connection = connection
            exchange.attempt.phase = SegmentName.SEND
            response.done = asyncio.get_running_loop().create_future()
            connection.send(request, response)
            try:
                await response.done
            except ConnectionError as error:
                # RFC 9112, section 9.3.1: a server may close an idle connection at any time. A
                # request that it met without a response is sent again, as curl does.
                if is_last or response.begun or not connection.is_reused:
                    raise
                exchange.attempt_failed(error)
                exchange.try_again()
            else:
                return

    def _begun(self, call: ModelCall, body: bytes) -> Exchange:
        endpoint = self._endpoint
        with call.active():
            exchange = Exchange.begin(
                SentRequest(
                    request=None,
                    method="POST",
                    scheme=endpoint.scheme,
                    host=endpoint.host,
                    port=endpoint.port,
                    path=endpoint.chat_path,
                    body=body,
                )
            )
        if exchange is None:
            raise RuntimeError(_OFF)
        return exchange

    def _request(self, exchange: Exchange, body: bytes) -> bytes:
        trace = "".join(f"{name}: {value}\r\n" for name, value in exchange.trace_context())
        return b"%sContent-Length: %d\r\n%s\r\n%s" % (
            self._head,
            len(body),
            trace.encode("latin-1"),
            body,
        )

    def close(self) -> None:
        """Close every connection."""
        self._pool.close()


class _Response:
    """
    One response, passed on to the call that it belongs to.

    Args:
        call: The call.
    """

    __slots__ = (
        "_call",
        "_error",
        "_error_body",
        "_last_ns",
        "_stamps",
        "_status",
        "_tracker",
        "connection",
        "done",
        "exchange",
    )

    def __init__(self, call: ModelCall) -> None:
        self._call = call
        self.exchange: Exchange | None = None
        self.connection: Connection | None = None
        self.done: asyncio.Future[None] | None = None
        self._tracker: BodyTracker | None = None
        self._status: int | None = None
        self._last_ns = 0
        self._stamps: list[int] = []
        self._error: BaseException | None = None
        self._error_body = b""

    @property
    def begun(self) -> bool:
        """Whether the head of the response has arrived."""
        return self._status is not None

    def sent(self) -> None:
        if self.exchange is not None:
            attempt = self.exchange.attempt
            attempt.sent_ns = self._call.now()
            attempt.phase = SegmentName.SERVER_WAIT

    def head_received(self, status: int, headers: Mapping[str, str]) -> None:
        call, exchange = self._call, self.exchange
        self._status = status
        if exchange is not None:
            self._last_ns = exchange.attempt.headers_ns = call.now()
            exchange.response_received(status, headers, None)
            call.returned()
            self._tracker = BodyTracker(call, exchange.attempt, None)

    def body_received(self, data: bytes) -> None:
        if self._tracker is not None:
            # The event loop reads whenever data arrives: a read begins when the last one returns.
            self._tracker.read(self._last_ns, data)
            self._last_ns = self._call.now()
        if self._status is not None and is_error(self._status):
            self._error_body = (self._error_body + data)[:_LONGEST_ERROR]

    def ended(self) -> None:
        self._keep_stamps()
        if self._tracker is not None:
            self._tracker.ended(self._last_ns)
        if self.done is not None and not self.done.done():
            self.done.set_result(None)

    def failed(self, error: Exception) -> None:
        if self.done is not None and not self.done.done():
            self.done.set_exception(error)

    def give_up(self, error: BaseException) -> None:
        """Close the connection and end the call with ``error``, unless the call has ended."""
        call = self._call
        if call.finished:
            return
        if self.connection is not None:
            self.connection.abandon()
        self._error = error
        self._keep_stamps()
        if self._tracker is not None:
            self._tracker.failed(self._last_ns, error)
            return
        done_ns = None
        if self.exchange is not None:
            self.exchange.failed(error)
            # The call ends with its attempt: no client library does anything after it.
            done_ns = self.exchange.attempt.end_ns
        call.end(outcome_of(error), done_ns=done_ns, error_type=error_type_of(error))

    def _keep_stamps(self) -> None:
        # The call drops its reads once it is recorded.
        if self._call.reads is not None:
            self._stamps = self._call.reads.stamps

    def answer(self) -> Answer:
        """Return what is known of the response at its end."""
        call, stamps = self._call, self._stamps
        first = next((at for at in range(2, len(stamps), 3) if stamps[at]), None)
        return Answer(
            outcome=call.outcome or Outcome.ERROR,
            duration_ns=call.now() - call.start_ns,
            first_token_ns=None if first is None else stamps[first - 1] - call.start_ns,
            status=self._status,
            error=self._error,
            error_body=self._error_body,
        )
