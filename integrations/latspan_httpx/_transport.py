"""One try on the transport, seen through httpcore's ``trace`` extension."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any, Final, cast

from latspan import semconv
from latspan.instrument import (
    Attempt,
    Call,
    active_call,
    error_type_of,
    inject_trace_context,
    open_exchange,
    outcome_of,
)
from latspan.segments import Outcome, SegmentName

__all__ = ["handle_async_request", "handle_request"]

_FIRST_ERROR_STATUS: Final = 400


def handle_request(
    wrapped: Callable[..., Any],
    instance: Any,  # noqa: ARG001 - wrapt's signature
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Stand in for ``HTTPTransport.handle_request``."""
    request = args[0] if args else kwargs["request"]
    exchange = _Exchange.begin(request)
    if exchange is None:
        return wrapped(*args, **kwargs)
    extensions = request.extensions
    request.extensions = {**extensions, "trace": exchange.trace(extensions.get("trace"))}
    try:
        response = wrapped(*args, **kwargs)
    except BaseException as error:
        exchange.failed(error)
        raise
    finally:
        # httpcore holds on to its own reference; the caller sees the request as it was.
        request.extensions = extensions
    exchange.answered(response)
    return response


def handle_async_request(core: str) -> Callable[..., Awaitable[Any]]:
    """
    Return what stands in for ``AsyncHTTPTransport.handle_async_request``.

    Args:
        core: The module beneath, ``httpcore`` or ``httpcore2``.
    """

    async def handle(
        wrapped: Callable[..., Awaitable[Any]],
        instance: Any,  # noqa: ARG001 - wrapt's signature
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        _start_up(core)
        request = args[0] if args else kwargs["request"]
        exchange = _Exchange.begin(request)
        if exchange is None:
            return await wrapped(*args, **kwargs)
        extensions = request.extensions
        request.extensions = {
            **extensions,
            "trace": exchange.async_trace(extensions.get("trace")),
        }
        try:
            response = await wrapped(*args, **kwargs)
        except BaseException as error:
            exchange.failed(error)
            raise
        finally:
            request.extensions = extensions
        exchange.answered(response)
        return response

    return handle


def _start_up(core: str) -> None:
    """
    Import now what httpcore imports inside the first asynchronous request.

    Otherwise its some 20 ms would lie between entry into the transport and the first event, and
    read as a wait for the pool.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    for module in (f"{core}._backends.anyio", "anyio._backends._asyncio"):
        try:
            import_module(module)
        except ImportError:
            continue


class _Exchange:
    """
    One request and its response on the transport.

    Args:
        call: The call it is a try of, or an exchange of its own.
        alone: Whether it is an exchange of its own, which ends with its response.
    """

    __slots__ = ("_alone", "_attempt", "_call", "_connected_here")

    def __init__(self, call: Call, *, alone: bool) -> None:
        self._call = call
        self._alone = alone
        self._attempt: Attempt = call.open_attempt()
        self._connected_here = False

    @classmethod
    def begin(cls, request: Any) -> _Exchange | None:
        """Return the exchange of ``request``, ``None`` where there is nothing to do."""
        call = active_call()
        host: str = request.url.host
        alone = call is None or (call.host is not None and call.host != host)
        if alone:
            call = open_exchange(request.method, attributes=_attributes(request))
        if call is None:
            return None
        call.method = request.method
        exchange = cls(call, alone=alone)
        inject_trace_context(call, request.headers)
        return exchange

    def trace(self, chained: Callable[..., Any] | None) -> Callable[[str, Any], None]:
        """Return the callback for a synchronous transport; ``chained`` is the caller's own."""

        def on_event(name: str, info: Any) -> None:
            self._hear(name, info)
            if chained is not None:
                chained(name, info)

        return on_event

    def async_trace(
        self, chained: Callable[..., Awaitable[Any]] | None
    ) -> Callable[[str, Any], Awaitable[None]]:
        """Return the callback for an asynchronous transport."""

        async def on_event(name: str, info: Any) -> None:
            self._hear(name, info)
            if chained is not None:
                await chained(name, info)

        return on_event

    def answered(self, response: Any) -> None:
        """Hear that the response headers were handed over."""
        call, attempt = self._call, self._attempt
        attempt.end_ns = call.now()
        attempt.status = status = response.status_code
        call.headers = response.headers
        if status >= _FIRST_ERROR_STATUS:
            attempt.error_type = str(status)
        if self._alone:
            weakref.finalize(
                response, call.finish, Outcome.ABANDONED, finalizing=True
            ).atexit = False

    def failed(self, error: BaseException) -> None:
        """Hear that the transport raised."""
        call, attempt = self._call, self._attempt
        attempt.end_ns = call.now()
        attempt.error_type = error_type_of(error)
        if self._alone:
            call.finish(outcome_of(error), done_ns=attempt.end_ns, error_type=attempt.error_type)

    def _hear(self, name: str, info: Any) -> None:
        """Stamp one event of httpcore's, ``<part>.<step>.<started|complete|failed>``."""
        now = self._call.now()
        attempt = self._attempt
        if attempt.pool_acquired_ns is None:
            # There is no event for it: the first that comes means the pool let us through.
            attempt.pool_acquired_ns = now
        step = name.partition(".")[2]
        if step == "receive_response_headers.complete":
            attempt.headers_ns = now
        elif step == "send_request_body.complete":
            attempt.sent_ns = now
            attempt.phase = SegmentName.SERVER_WAIT
        elif step == "send_request_headers.started":
            attempt.phase = SegmentName.SEND
            attempt.reused = not self._connected_here
        elif step in {"connect_tcp.started", "connect_unix_socket.started"}:
            attempt.phase = SegmentName.CONNECT
            self._connected_here = True
        elif step in {"connect_tcp.complete", "connect_unix_socket.complete"}:
            attempt.connected_ns = now
        elif step == "start_tls.started":
            attempt.phase = SegmentName.TLS
        elif step == "start_tls.complete":
            attempt.tls_done_ns = now
        elif step == "receive_response_body.complete":
            attempt.body_end_ns = now
        elif step == "receive_response_body.failed":
            self._body_failed(now, info)
        elif step == "response_closed.complete" and self._alone:
            self._end(now)

    def _body_failed(self, now: int, info: Any) -> None:
        if not self._alone:
            # A client library that stops at its end mark closes the body early: no failure, and
            # if it is one the stream itself will say so.
            return
        error = cast("dict[str, Any]", info).get("exception")
        if isinstance(error, BaseException):
            self._call.finish(
                outcome_of(error), done_ns=now, error_type=_error_type_unless_left(error)
            )

    def _end(self, now: int) -> None:
        status = self._attempt.status
        if status is None or status < _FIRST_ERROR_STATUS:
            self._call.finish(Outcome.COMPLETED, done_ns=now)
        else:
            outcome = Outcome.REJECTED if status == 429 else Outcome.ERROR
            self._call.finish(outcome, done_ns=now, error_type=str(status))


def _error_type_unless_left(error: BaseException) -> str | None:
    return None if isinstance(error, GeneratorExit) else error_type_of(error)


def _attributes(request: Any) -> dict[str, str | int]:
    url = request.url
    port: int = url.port or (80 if url.scheme == "http" else 443)
    return {
        semconv.HTTP_REQUEST_METHOD: request.method,
        semconv.SERVER_ADDRESS: url.host,
        semconv.SERVER_PORT: port,
        # Neither credentials nor the query leave the process.
        semconv.URL_FULL: f"{url.scheme}://{url.host}:{port}{url.path}",
    }
