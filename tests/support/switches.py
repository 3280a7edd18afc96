"""Switch of a scripted server between two states, for the commands of a change."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Final

from latspan.testing import Script, ScriptedServer

_PROGRAM: Final = """
import sys
from urllib.request import urlopen

urlopen(f"http://127.0.0.1:{port}/{{sys.argv[1]}}").read()
"""


@contextmanager
def switch(server: ScriptedServer, states: Mapping[str, Script]) -> Generator[int]:
    """
    Yield the port at which ``/NAME`` puts the server into the state of that name.

    Args:
        server: The server.
        states: Response of each state, by its name.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            server.use(states[self.path.removeprefix("/")])
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    http = HTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield http.server_port
    finally:
        http.shutdown()
        thread.join()
        http.server_close()


def write_switch(folder: Path, port: int) -> None:
    """Write ``switch.py``, the command that switches: its argument is the name of a state."""
    (folder / "switch.py").write_text(_PROGRAM.format(port=port), "utf-8")
