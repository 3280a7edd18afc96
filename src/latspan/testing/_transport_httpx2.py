"""
The scripted transports for httpx2; imported only if httpx2 is installed.
"""

from __future__ import annotations

from typing import Any, Final, cast

import httpcore2
import httpx2

from latspan.testing._network import Failure, Network
from latspan.testing._served import ServedRequest
from latspan.testing._sockets import AsyncBackend, Backend, Errors, bare_ssl_context

_ERRORS: Final[Errors] = {
    Failure.CONNECT_ERROR: httpcore2.ConnectError,
    Failure.CONNECT_TIMEOUT: httpcore2.ConnectTimeout,
    Failure.READ_ERROR: httpcore2.ReadError,
    Failure.READ_TIMEOUT: httpcore2.ReadTimeout,
}


class ScriptedTransport(httpx2.HTTPTransport):
    """
    httpx2's own transport over a scripted network.

    Args:
        network: Network of its connections.
    """

    def __init__(self, network: Network) -> None:
        context = bare_ssl_context()
        super().__init__(verify=context)
        self._network = network
        backend = cast("Any", Backend(network, _ERRORS))
        self._pool = httpcore2.ConnectionPool(ssl_context=context, network_backend=backend)

    def served_requests(self) -> list[ServedRequest]:
        """Return what the server did for every request so far, in order."""
        return self._network.served_requests()


class AsyncScriptedTransport(httpx2.AsyncHTTPTransport):
    """
    httpx2's own asynchronous transport over a scripted network.

    Args:
        network: Network of its connections.
    """

    def __init__(self, network: Network) -> None:
        context = bare_ssl_context()
        super().__init__(verify=context)
        self._network = network
        backend = cast("Any", AsyncBackend(network, _ERRORS))
        self._pool = httpcore2.AsyncConnectionPool(ssl_context=context, network_backend=backend)

    def served_requests(self) -> list[ServedRequest]:
        """Return what the server did for every request so far, in order."""
        return self._network.served_requests()
