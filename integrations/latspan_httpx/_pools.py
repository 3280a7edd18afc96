"""
Hooks on the pools of httpcore: each request passed to a pool is one send, from any transport.

A transport that retries, or sends twice concurrently, passes the request to a pool more than once.
Each send has its own httpcore request, so the ``trace`` callbacks of the sends are separate. The
httpx request, which transports see and may change, is not modified here.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import Any

from latspan._instrument import Patches
from latspan_httpx._sending import begin_send

__all__ = ["patch_pools"]


def patch_pools(patches: Patches, core: Any) -> None:
    """Hook the pools of httpcore or httpcore2; its proxy pools inherit the hooks."""
    patches.replace(core.ConnectionPool, "handle_request", _handle_request_of)
    patches.replace(core.AsyncConnectionPool, "handle_async_request", _handle_async_request_of)


def _handle_request_of(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def handle_request(self: Any, request: Any) -> Any:
        send = begin_send(request, asynchronous=False)
        if send is None:
            return original(self, request)
        try:
            response = original(self, request)
        except BaseException as error:
            send.failed(error)
            raise
        send.response_received(response)
        return response

    return handle_request


def _handle_async_request_of(
    original: Callable[..., Awaitable[Any]],
) -> Callable[..., Awaitable[Any]]:
    @functools.wraps(original)
    async def handle_async_request(self: Any, request: Any) -> Any:
        send = begin_send(request, asynchronous=True)
        if send is None:
            return await original(self, request)
        try:
            response = await original(self, request)
        except BaseException as error:
            send.failed(error)
            raise
        send.response_received(response)
        return response

    return handle_async_request
