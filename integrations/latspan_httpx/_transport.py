"""One try on the transport, seen through httpcore's ``trace`` extension."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final, cast

from latspan import semconv
from latspan.instrument import (
    Attempt,
    Call,
    active_call,
    error_type_of,
    guarded,
    inject_trace_context,
    open_exchange,
    outcome_of,
    outcome_of_status,
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
    try:
        with exchange.sending(request, exchange.trace(request.extensions.get("trace"))):
            response = wrapped(*args, **kwargs)
    except BaseException as error:
        exchange.failed(error)
        raise
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
        request = args[0] if args else kwargs["request"]
        exchange = _Exchange.begin(request, lambda: _start_up(core))
        if exchange is None:
            return await wrapped(*args, **kwargs)
        try:
            with exchange.sending(request, exchange.async_trace(request.extensions.get("trace"))):
                response = await wrapped(*args, **kwargs)
        except BaseException as error:
            exchange.failed(error)
            raise
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
    def begin(cls, request: Any, start_up: Callable[[], None] | None = None) -> _Exchange | None:
        """
        Return the exchange of ``request``, ``None`` where there is nothing to do.

        Args:
            request: What the transport was handed.
            start_up: Done before the attempt begins.
        """
        with guarded("the start of a request"):
            call = active_call()
            server = _server(request.url)
            alone = call is None or call.server not in {None, server}
            if alone:
                call = open_exchange(request.method, attributes=_attributes(request, server))
            if call is None:
                return None
            if start_up is not None:
                start_up()
            call.method = request.method
            return cls(call, alone=alone)
        return None

    @contextmanager
    def sending(self, request: Any, trace: Callable[..., Any]) -> Generator[None]:
        """
        Lend ``request`` our trace context and ``trace`` callback.

        The caller has its request back as it was: sent again, or on to where a redirect points,
        it must not carry this exchange's identity. httpcore holds on to its own references.
        """
        headers, extensions = request.headers, request.extensions
        with guarded("the trace context of a request"):
            request.headers = headers.copy()
            inject_trace_context(self._call, request.headers)
        request.extensions = {**extensions, "trace": trace}
        try:
            yield
        finally:
            request.headers, request.extensions = headers, extensions

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
        with guarded("the response headers"):
            if attempt.headers_ns is None:
                # A transport beneath that gives no events.
                attempt.headers_ns = attempt.end_ns
            attempt.status = response.status_code
            call.headers = response.headers
            if response.status_code >= _FIRST_ERROR_STATUS:
                attempt.error_type = str(response.status_code)
            if self._alone:
                # What nobody reads or closes was over, for its caller, with the headers.
                weakref.finalize(
                    response,
                    call.finish,
                    Outcome.ABANDONED,
                    done_ns=attempt.end_ns,
                    finalizing=True,
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
        elif self._alone and step in {
            "receive_response_body.failed",
            "response_closed.complete",
        }:
            # In a call these are its own to judge: a client library that stops at its end mark
            # closes the body early, and that is no failure.
            with guarded("the end of an HTTP exchange"):
                self._end(now, cast("dict[str, Any]", info).get("exception"))

    def _end(self, now: int, error: BaseException | None) -> None:
        """End an exchange of its own: its body failed, or its response was closed."""
        attempt = self._attempt
        if error is not None and not isinstance(error, GeneratorExit):
            self._call.finish(outcome_of(error), done_ns=now, error_type=error_type_of(error))
            return
        outcome = outcome_of_status(attempt.status, self._call.headers)
        if outcome is Outcome.COMPLETED and attempt.body_end_ns is None:
            outcome = Outcome.CLOSED_EARLY
        self._call.finish(outcome, done_ns=now, error_type=attempt.error_type)


def _server(url: Any) -> tuple[str, int]:
    return url.host, url.port or (80 if url.scheme == "http" else 443)


def _attributes(request: Any, server: tuple[str, int]) -> dict[str, str | int]:
    url = request.url
    host, port = server
    return {
        semconv.HTTP_REQUEST_METHOD: request.method,
        semconv.SERVER_ADDRESS: host,
        semconv.SERVER_PORT: port,
        # Neither credentials nor the query leave the process.
        semconv.URL_FULL: f"{url.scheme}://{host}:{port}{url.path}",
    }
