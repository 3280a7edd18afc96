"""A web application that returns its process ID, and waits until the test opens a named pipe."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import latspan

latspan.configure()


def application(
    environ: dict[str, object], start_response: Callable[[str, list[tuple[str, str]]], object]
) -> Iterator[bytes]:
    """Respond with the worker's process ID, wait, and end."""
    with latspan.stage("retrieve"):
        start_response("200 OK", [("content-type", "text/plain")])
        yield f"{os.getpid()}\n".encode()
        Path(str(environ["PATH_INFO"])).read_bytes()
