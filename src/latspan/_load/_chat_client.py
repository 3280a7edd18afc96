"""
Client of an OpenAI-compatible endpoint that sends streamed chats, each recorded as one call.

A call is opened before the connection, so that a refused connection or a status of 500 is a call
with an outcome. Inside it, ``latspan_instrumentation.aiohttp`` records the attempts, as it does for
an application in production. The body of a response that belongs to a call is its caller's to
record, so a body tracker records each read here. ``readany`` returns what has been received, so the
events of one read arrived together: each has an arrival of its own, as each chunk of an SDK's
stream has.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from latspan._live.instrument import BodyTracker, error_type_of, open_call, outcome_of
from latspan._live.instrument._outcomes import is_error
from latspan._load._http import CONNECTION_FAILED, body_of, cause_of, open_session, target
from latspan._load._progress import RequestResult
from latspan._model.segments import Outcome
from latspan._model.wire.openai_chat import OPENAI_CHAT

if TYPE_CHECKING:
    import aiohttp

    from latspan._live.operations import ModelCall
    from latspan._load._endpoint import Endpoint

_MAX_ERROR_LENGTH: Final = 4_000
"""Maximum number of bytes kept of the body of an error."""

_JSON: Final = {"Content-Type": "application/json"}


class ChatClient:
    """
    Client of one endpoint, on the running event loop. aiohttp must be instrumented.

    Args:
        endpoint: Address and key of the endpoint.
        model: The requested model.
        reuse_connections: Whether a connection carries further requests.
    """

    def __init__(self, endpoint: Endpoint, model: str, *, reuse_connections: bool = True) -> None:
        self._model = model
        self._server = (endpoint.host, endpoint.port)
        self._url = target(endpoint.chat_url)
        self._session = open_session(endpoint, reuse_connections=reuse_connections)
        self._new_connections = open_session(endpoint, reuse_connections=False)

    async def ask(self, body: bytes, timeout_s: float | None = None) -> RequestResult:
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
            raise RuntimeError("latspan is off, so nothing would be recorded")
        chat = _Chat(call)
        try:
            async with asyncio.timeout(timeout_s):
                await chat.read(await self._response(call, body))
        except asyncio.CancelledError as error:
            chat.failed(error)
            raise
        except Exception as error:  # noqa: BLE001 - whatever happened is the outcome of the call
            chat.failed(cause_of(error))
        return chat.answer()

    async def _response(self, call: ModelCall, body: bytes) -> aiohttp.ClientResponse:
        """Send a request, on a new connection if an old one turns out to be closed."""
        try:
            return await self._sent(self._session, call, body)
        except CONNECTION_FAILED:
            # RFC 9112, section 9.3.1: a server may close an idle connection at any time. A request
            # that it met without a response is sent again, as curl does. aiohttp does so too, but
            # not for POST.
            if not (call.attempts and call.attempts[-1].reused):
                raise
        return await self._sent(self._new_connections, call, body)

    async def _sent(
        self, session: aiohttp.ClientSession, call: ModelCall, body: bytes
    ) -> aiohttp.ClientResponse:
        with call.active():
            return await session.post(
                self._url, data=body_of(body), headers=_JSON, allow_redirects=False
            )

    async def close(self) -> None:
        """Close every connection."""
        await self._session.close()
        await self._new_connections.close()


class _Chat:
    """
    One chat, from its response to the end of its call.

    Args:
        call: The call.
    """

    __slots__ = ("_before_ns", "_call", "_error", "_error_body", "_stamps", "_status", "_tracker")

    def __init__(self, call: ModelCall) -> None:
        self._call = call
        self._tracker: BodyTracker | None = None
        self._status: int | None = None
        self._before_ns = 0
        self._stamps: list[int] = []
        self._error: BaseException | None = None
        self._error_body = b""

    async def read(self, response: aiohttp.ClientResponse) -> None:
        """Read a response to its end, which ends the call."""
        call, read = self._call, response.content.readany
        call.returned()
        self._status = response.status
        self._tracker = tracker = BodyTracker(call, call.attempts[-1], None, as_received=True)
        self._before_ns = call.now()
        try:
            while data := await read():
                tracker.read(self._before_ns, data)
                self._before_ns = call.now()
                if is_error(response.status):
                    self._error_body = (self._error_body + data)[:_MAX_ERROR_LENGTH]
        except BaseException:
            response.close()
            raise
        self._keep_stamps()
        tracker.ended(self._before_ns)

    def failed(self, error: BaseException) -> None:
        """End the call with ``error``, unless it has ended."""
        call = self._call
        if call.finished:
            return
        self._error = error
        self._keep_stamps()
        if self._tracker is not None:
            self._tracker.failed(self._before_ns, error)
            return
        # The call ends with its attempt: the time that aiohttp then takes is not the server's.
        done_ns = call.attempts[-1].end_ns if call.attempts else None
        call.end(outcome_of(error), done_ns=done_ns, error_type=error_type_of(error))

    def _keep_stamps(self) -> None:
        # The call drops its reads once it is recorded.
        if self._call.reads is not None:
            self._stamps = self._call.reads.stamps

    def answer(self) -> RequestResult:
        """Return what is known of the response at its end."""
        call, stamps = self._call, self._stamps
        first = next((at for at in range(2, len(stamps), 3) if stamps[at] > 0), None)
        return RequestResult(
            outcome=call.outcome or Outcome.ERROR,
            duration_ns=call.now() - call.start_ns,
            first_token_ns=None if first is None else stamps[first - 1] - call.start_ns,
            status=self._status,
            error=self._error,
            error_body=self._error_body,
        )
