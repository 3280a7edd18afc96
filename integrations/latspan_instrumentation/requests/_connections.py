"""
Hooks on connections: opening the socket, a proxy's tunnel, the request and the response.

``_new_conn``, ``_tunnel`` and the function ``_set_socket_options`` are private. Only they show the
ends of DNS resolution, TCP handshake and tunnel separately. The hooks record instants. Only the
hook on ``send`` does more: it opens the connection, which ``send`` would otherwise do itself.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from urllib3.connection import HTTPConnection
from urllib3.response import HTTPResponse
from urllib3.util import connection as sockets

from latspan._live.instrument import Patches, handle_internal_errors
from latspan_instrumentation.requests._sending import UrlopenCall


def patch_connections(patches: Patches) -> None:
    """Hook urllib3's connections, the function that opens sockets, and the responses."""
    # `create_connection` calls it right after `getaddrinfo`, and it has no other caller.
    patches.replace(sockets, "_set_socket_options", _set_socket_options_of)
    patches.replace(HTTPConnection, "_new_conn", _new_conn_of)
    patches.replace(HTTPConnection, "_tunnel", _tunnel_of)
    patches.replace(HTTPConnection, "send", _send_of)
    patches.replace(HTTPConnection, "getresponse", _getresponse_of)
    patches.replace(HTTPResponse, "__init__", _response_of)


def _set_socket_options_of(original: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(original)
    def set_socket_options(*args: Any, **kwargs: Any) -> None:
        sending = UrlopenCall.current()
        if sending is not None:
            sending.resolved()
        original(*args, **kwargs)

    return set_socket_options


def _new_conn_of(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def new_conn(self: Any) -> Any:
        sending = UrlopenCall.current()
        if sending is None:
            return original(self)
        try:
            opened = original(self)
        except BaseException as error:
            sending.not_opened(error)
            raise
        sending.opened()
        return opened

    return new_conn


def _tunnel_of(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def tunnel(self: Any) -> Any:
        sending = UrlopenCall.current()
        if sending is None:
            return original(self)
        sending.tunnelling()
        done = original(self)
        sending.opened()
        return done

    return tunnel


def _send_of(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def send(self: Any, data: Any) -> Any:
        if self.sock is None and self.auto_open:
            sending = UrlopenCall.current()
            if sending is not None:
                # `send` would connect first anyway. Connecting here separates the time to connect
                # from the time to send, for every kind of connection.
                self.connect()
                sending.connected()
        return original(self, data)

    return send


def _getresponse_of(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def getresponse(self: Any, *args: Any, **kwargs: Any) -> Any:
        sending = UrlopenCall.current()
        if sending is not None:
            sending.sent()
        return original(self, *args, **kwargs)

    return getresponse


def _response_of(original: Callable[..., None]) -> Callable[..., None]:
    """Replace the constructor of a response, which may read the body at once."""

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        sending = UrlopenCall.current()
        if sending is None:
            original(self, *args, **kwargs)
            return
        sending.headers_received()
        try:
            original(self, *args, **kwargs)
        except BaseException as error:
            sending.step_failed(error)
            raise
        with handle_internal_errors("the response headers"):
            sending.attempt_response_received(self, preloaded=kwargs.get("preload_content", True))

    return init
