"""A slow resolver of names, as in a cluster with a long search list."""

from __future__ import annotations

import socket
import time
from typing import Any


def slow_names(ms: float) -> None:
    """Let each look-up of a name in this process take longer."""
    resolve = socket.getaddrinfo

    def slowly(*args: Any, **options: Any) -> Any:
        time.sleep(ms / 1000)
        return resolve(*args, **options)

    socket.getaddrinfo = slowly
