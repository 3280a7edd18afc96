"""urllib3's own pools over a scripted network: connections without sockets, exact to the ns."""

from __future__ import annotations

import io
import socket
from typing import Any, Final

import requests
import urllib3
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection
from urllib3.connectionpool import HTTPConnectionPool
from urllib3.exceptions import ConnectTimeoutError, NewConnectionError

from latspan.testing import ManualClock, Script
from latspan.testing._network import Failure, Network, NetworkFailureError, Pipe

MS: Final = 1_000_000

URL: Final = "http://model.test/v1/chat/completions"

PHASES: Final = {"connect_ns": 7 * MS, "tls_ns": 0, "send_ns": 3 * MS, "network_ns": 2 * MS}
"""What connection, sending and the way there and back take."""


def network_of(scripts: Script | list[Script], clock: ManualClock) -> Network:
    """Return the far end of every connection."""
    return Network(scripts, clock, **PHASES)


def manager_over(network: Network, **options: Any) -> urllib3.PoolManager:
    """Return urllib3's manager with pools that connect to ``network``."""

    class Connection(HTTPConnection):
        """Of a kind of its own, as an application may have one: it opens no socket."""

        def connect(self) -> None:
            self.sock: Any = _Line(network, _connected(self, network))

    class Pool(HTTPConnectionPool):
        # The stubs speak of a protocol that not even urllib3's own class fits.
        ConnectionCls: Any = Connection

    manager = urllib3.PoolManager(**options)
    manager.pool_classes_by_scheme = {**manager.pool_classes_by_scheme, "http": Pool}
    return manager


def session_over(network: Network, **options: Any) -> requests.Session:
    """
    Return a session of requests over ``network``.

    Args:
        network: The far end.
        options: Of the adapter.
    """

    class Adapter(HTTPAdapter):
        def init_poolmanager(self, *_: Any, **__: Any) -> None:
            self.poolmanager = manager_over(network)

    session = requests.Session()
    session.trust_env = False
    session.mount("http://", Adapter(**options))
    return session


def _connected(connection: HTTPConnection, network: Network) -> Pipe:
    timeout: object = connection.timeout
    try:
        # In urllib3 1.26 what is not said is an object of its own.
        return network.connect(timeout if isinstance(timeout, int | float) else None)
    except NetworkFailureError as failure:
        if failure.failure is Failure.CONNECT_TIMEOUT:
            raise ConnectTimeoutError(connection, str(failure)) from failure
        raise NewConnectionError(connection, str(failure)) from failure


class _Line:
    """
    As much of a socket as urllib3 and http.client use.

    Args:
        network: The network.
        pipe: The connection.
    """

    def __init__(self, network: Network, pipe: Pipe) -> None:
        self._network = network
        self._pipe = pipe
        self._timeout: float | None = None
        # What waits for data asks the operating system about a descriptor.
        self._silent = socket.socketpair()

    def settimeout(self, timeout: object) -> None:
        self._timeout = timeout if isinstance(timeout, int | float) else None

    def sendall(self, data: bytes) -> None:
        self._pipe.write(data)

    def read(self, size: int) -> bytes:
        try:
            return self._pipe.read(size, self._timeout)
        except NetworkFailureError as failure:
            if failure.failure is Failure.READ_TIMEOUT:
                raise TimeoutError(str(failure)) from failure
            raise ConnectionResetError(str(failure)) from failure

    def makefile(self, mode: str, buffering: int = -1) -> io.BufferedReader:
        assert (mode, buffering) in {("rb", -1), ("rb", 0)}
        return io.BufferedReader(_Incoming(self))

    def fileno(self) -> int:
        return self._silent[0].fileno()

    def shutdown(self, how: int) -> None:
        pass

    def close(self) -> None:
        for end in self._silent:
            end.close()
        self._pipe.close()

    def __del__(self) -> None:
        # urllib3 1.26 leaves it to the collector to close what a pool still has.
        for end in self._silent:
            end.close()


class _Incoming(io.RawIOBase):
    def __init__(self, line: _Line) -> None:
        self._line = line

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._line.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)
