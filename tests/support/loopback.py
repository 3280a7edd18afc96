"""The server on the loopback interface, with the certificate of the tests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from latspan.testing import _loopback
from latspan.testing._loopback import ConnectionEnding, Reply, Visit, chunked, whole
from tests.support.tls import server_context

__all__ = ["ConnectionEnding", "Loopback", "Reply", "Visit", "chunked", "whole"]


class Loopback(_loopback.Loopback):
    """
    The server.

    Args:
        replies: The replies, in order.
        secure: Whether it uses TLS.
        options: Further options of the server.
    """

    def __init__(self, replies: Iterable[Reply], *, secure: bool = False, **options: Any) -> None:
        super().__init__(replies, tls=server_context() if secure else None, **options)
