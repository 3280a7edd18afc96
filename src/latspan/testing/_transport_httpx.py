"""
The scripted transports for httpx; imported only if httpx is installed.
"""

from __future__ import annotations

from typing import Any, Final, cast

import httpcore
import httpx

from latspan.testing._network import Failure, Network
from latspan.testing._served import ServedRequest
from latspan.testing._sockets import AsyncBackend, Backend, Errors, bare_ssl_context

_ERRORS: Final[Errors] = {
    Failure.CONNECT_ERROR: httpcore.ConnectError,
    Failure.CONNECT_TIMEOUT: httpcore.ConnectTimeout,
    Failure.READ_ERROR: httpcore.ReadError,
    Failure.READ_TIMEOUT: httpcore.ReadTimeout,
}


class ScriptedTransport(httpx.HTTPTransport):
    """
    httpx's own transport over a scripted network.

    Args:
        network: Network of its connections.
    """

    def __init__(self, network: Network) -> None:
        context = bare_ssl_context()
        super().__init__(verify=context)
        self._network = network
        backend = cast("Any", Backend(network, _ERRORS))
        self._pool = httpcore.ConnectionPool(ssl_context=context, network_backend=backend)

    def served_requests(self) -> list[ServedRequest]:
        """Return what the server did for every request so far, in order."""
        return self._network.served_requests()


class AsyncScriptedTransport(httpx.AsyncHTTPTransport):
    """
    httpx's own asynchronous transport over a scripted network.

    Args:
        network: Network of its connections.
    """

    def __init__(self, network: Network) -> None:
        context = bare_ssl_context()
        super().__init__(verify=context)
        self._network = network
        backend = cast("Any", AsyncBackend(network, _ERRORS))
        self._pool = httpcore.AsyncConnectionPool(ssl_context=context, network_backend=backend)

    def served_requests(self) -> list[ServedRequest]:
        """Return what the server did for every request so far, in order."""
        return self._network.served_requests()
