"""What an integration says of a client whose connections are to be opened ahead."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from latspan._timeline import Attempt

__all__ = ["UnderlyingClient", "Warmer"]


class Warmer(Protocol):
    """
    Opens connections of one client; what it returns is awaited where the client is asynchronous.

    It may raise whatever the client library raises.
    """

    @property
    def server(self) -> str:
        """Host and port."""
        ...

    def open(self, attempt: Attempt, now: Callable[[], int]) -> Any:
        """
        Send one request that changes nothing, and return its answer with its connection held.

        Args:
            attempt: Where the instants are noted: ``pool_acquired_ns``, ``connected_ns`` and
                ``tls_done_ns``, as far as the library tells.
            now: The clock to read.
        """
        ...

    def release(self, answer: Any) -> Any:
        """Read and close an answer; return whether its connection stays open."""
        ...


@dataclass(frozen=True, slots=True)
class UnderlyingClient:
    """
    What a client sends through: the client of another library.

    Args:
        client: That client.
        url: Where to, if the caller of :func:`warm` does not say.
        prepare: Does what the first call would do before it sends.
    """

    client: Any
    url: str
    prepare: Callable[[], None]
