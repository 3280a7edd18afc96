"""Collectors that accept no data, each for a different reason."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Final

_RESET_AT_CLOSE: Final = struct.pack("ii", 1, 0)


@contextmanager
def refuses() -> Generator[str]:
    """Yield the address of a reserved port on which no program listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield _address(taken)


@contextmanager
def hangs() -> Generator[str]:
    """Yield the address of a listener that accepts connections and never responds."""
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
        yield _address(listener)


@contextmanager
def resets() -> Generator[str]:
    """Yield the address of a listener that resets a connection once it has received a byte."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_reset_all, args=[listener], daemon=True)
        thread.start()
        yield _address(listener)
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


@contextmanager
def is_absent() -> Generator[str]:
    """Yield the address of a host that cannot exist: RFC 2606 reserves ``.invalid`` for this."""
    yield "http://collector.invalid:4318"


COLLECTORS: Final[Mapping[str, Callable[[], AbstractContextManager[str]]]] = {
    "refuses": refuses,
    "hangs": hangs,
    "resets": resets,
    "is absent": is_absent,
}
"""Collectors by their behaviour, as it is named in the rows of a table."""


def _address(listener: socket.socket) -> str:
    return f"http://127.0.0.1:{listener.getsockname()[1]}"


def _reset_all(listener: socket.socket) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection:
            connection.recv(1)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_AT_CLOSE)
