"""
Hooks on a pool that sends a request: getting a connection, connecting it, and sending.

``urlopen`` is public. ``_get_conn``, ``_make_request``, ``_prepare_proxy`` and ``_validate_conn``
are private: urllib3 has no public hook between them, and they separate the wait for the pool, the
connection and the request.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

from latspan._live.instrument import Patches
from latspan_instrumentation.requests._sending import UrlopenCall, is_open


def patch_pools(patches: Patches) -> None:
    """Hook urllib3's pools; pool managers and requests send every request through a pool."""
    patches.wrap(HTTPConnectionPool, "urlopen", _urlopen)
    patches.replace(HTTPConnectionPool, "_get_conn", _get_conn_of)
    patches.replace(HTTPConnectionPool, "_make_request", _make_request_of)
    patches.replace(HTTPSConnectionPool, "_prepare_proxy", _connecting)
    patches.replace(HTTPSConnectionPool, "_validate_conn", _connecting)


def _urlopen(
    wrapped: Callable[..., Any],
    instance: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Replace ``HTTPConnectionPool.urlopen(method, url, body, headers, …)``."""
    method = _argument(args, kwargs, 0, "method")
    url = _argument(args, kwargs, 1, "url")
    body = _argument(args, kwargs, 2, "body")
    outer = UrlopenCall.current()
    if outer is not None and outer.calls_itself_again(instance):
        if outer.retry_or_redirect(method, url, body):
            args, kwargs = _propagating(outer, instance, args, kwargs)
        return wrapped(*args, **kwargs)
    sending = UrlopenCall.begin(instance, method, url, body)
    if sending is None and outer is None:
        return wrapped(*args, **kwargs)
    if sending is None:
        with UrlopenCall.aside():
            return wrapped(*args, **kwargs)
    try:
        args, kwargs = _propagating(sending, instance, args, kwargs)
        response = wrapped(*args, **kwargs)
    except BaseException as error:
        sending.failed(error)
        raise
    else:
        sending.response_received(response)
        return response
    finally:
        sending.leave()


def _propagating(
    sending: UrlopenCall, pool: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of ``urlopen`` with latspan's trace context added to the headers."""
    given = _argument(args, kwargs, 3, "headers")
    # If the caller passes no headers, urllib3 sends the pool's.
    headers = pool.headers if given is None else given
    propagating = sending.with_trace_context(headers)
    if propagating is headers:
        return args, kwargs
    if len(args) > 3:
        return (*args[:3], propagating, *args[4:]), kwargs
    return args, {**kwargs, "headers": propagating}


def _argument(args: tuple[Any, ...], kwargs: dict[str, Any], at: int, name: str) -> Any:
    return args[at] if len(args) > at else kwargs.get(name)


def _get_conn_of(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def get_conn(self: Any, *args: Any, **kwargs: Any) -> Any:
        sending = UrlopenCall.current()
        if sending is None:
            return original(self, *args, **kwargs)
        try:
            connection = original(self, *args, **kwargs)
        except BaseException as error:
            sending.step_failed(error)
            raise
        sending.acquired(connection)
        return connection

    return get_conn


def _make_request_of(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def make_request(self: Any, conn: Any, *args: Any, **kwargs: Any) -> Any:
        sending = UrlopenCall.current()
        if sending is None:
            return original(self, conn, *args, **kwargs)
        # A pool that gets its connections from elsewhere did not call the hooked `_get_conn`.
        sending.acquired(conn)
        try:
            return original(self, conn, *args, **kwargs)
        except BaseException as error:
            sending.step_failed(error)
            raise

    return make_request


def _connecting(original: Callable[..., Any]) -> Callable[..., Any]:
    """Replace a method of a pool that connects the given connection if it is not open."""

    @functools.wraps(original)
    def connecting(self: Any, conn: Any, *args: Any, **kwargs: Any) -> Any:
        sending = UrlopenCall.current()
        if sending is None or is_open(conn):
            return original(self, conn, *args, **kwargs)
        try:
            done = original(self, conn, *args, **kwargs)
        except BaseException as error:
            sending.step_failed(error)
            raise
        if is_open(conn):
            sending.connected()
        return done

    return connecting
