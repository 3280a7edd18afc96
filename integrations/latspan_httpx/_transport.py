"""
Hooks on the call with which an httpx client passes one request to its transport.

The hooked methods, ``Client._send_single_request`` and its asynchronous counterpart, are private.
They are the only methods that the client calls once per request on the transport: the public
``send`` includes authentication and redirects, which are separate requests.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any

from latspan._instrument import (
    Exchange,
    is_excluded,
    log_internal_error,
    sent_request,
)
from latspan_httpx._sending import Aside, TransportSend, is_sending

__all__ = ["send", "send_async"]


def send(official: str) -> Callable[..., Any]:
    """
    Return the replacement for ``Client._send_single_request``.

    Args:
        official: The name of OpenTelemetry's own instrumentor of this library.
    """

    def send_request(
        wrapped: Callable[..., Any],
        instance: Any,  # noqa: ARG001 - wrapt's signature
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        request = args[0] if args else kwargs["request"]
        sending = _begin(request, official)
        if sending is None:
            return wrapped(*args, **kwargs)
        try:
            response = wrapped(*args, **kwargs)
        except BaseException as error:
            sending.failed(error)
            raise
        sending.response_received(response)
        return response

    return send_request


def send_async(official: str, core: str) -> Callable[..., Awaitable[Any]]:
    """
    Return the replacement for ``AsyncClient._send_single_request``.

    Args:
        official: The name of OpenTelemetry's own instrumentor of this library.
        core: The name of the module that the library uses, ``httpcore`` or ``httpcore2``.
    """
    start_up = functools.partial(_start_up, core)

    async def send_request(
        wrapped: Callable[..., Awaitable[Any]],
        instance: Any,  # noqa: ARG001 - wrapt's signature
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        request = args[0] if args else kwargs["request"]
        sending = _begin(request, official, start_up)
        if sending is None:
            return await wrapped(*args, **kwargs)
        try:
            response = await wrapped(*args, **kwargs)
        except BaseException as error:
            sending.failed(error)
            raise
        sending.response_received(response)
        return response

    return send_request


def _begin(
    request: Any, official: str, start_up: Callable[[], None] | None = None
) -> TransportSend | Aside | None:
    try:
        excluded = is_excluded(lambda: str(request.url), "HTTPX")
        if excluded is None:
            return None
        if not excluded:
            exchange = Exchange.begin(
                sent_request(request),
                official=("opentelemetry.instrumentation.httpx", official),
                start_up=start_up,
                asynchronous=start_up is not None,
            )
            if exchange is not None:
                return TransportSend(exchange, request)
        return Aside() if is_sending() else None
    except Exception as error:  # noqa: BLE001 - latspan's own
        log_internal_error(error, "the start of a request")
        return None


def _start_up(core: str) -> None:
    """
    Import the modules that httpcore otherwise imports inside the first asynchronous request.

    That import takes about 20 ms. It would fall between the entry into the transport and the first
    event, and would be reported as a wait for the pool.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    _import_backend(core)


@functools.cache
def _import_backend(core: str) -> None:
    for module in (f"{core}._backends.anyio", "anyio._backends._asyncio"):
        try:
            import_module(module)
        except ImportError:
            continue
