"""A web application that tells who answers, and goes on when the test opens a named pipe."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import latspan

latspan.configure()


def application(
    environ: dict[str, object], start_response: Callable[[str, list[tuple[str, str]]], object]
) -> Iterator[bytes]:
    """Answer with the worker's id, wait, and end."""
    with latspan.stage("retrieve"):
        start_response("200 OK", [("content-type", "text/plain")])
        yield f"{os.getpid()}\n".encode()
        Path(str(environ["PATH_INFO"])).read_bytes()
