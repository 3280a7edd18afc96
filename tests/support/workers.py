"""Requests that reach every worker of a server on loopback."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Final

from support.otlp import await_listener
from support.pipes import all_at_once, pipes_in

_AT_ONCE: Final = "/dev/null"
_DEADLINE_S: Final = 30.0

TWO_OF_UVICORN: Final = ("--workers=2", "--timeout-worker-healthcheck=60")
"""
Options of uvicorn for two workers that it does not replace.

By default it kills a worker that does not answer for 5 s. On a busy machine a worker starts more
slowly, and the requests that a killed worker has accepted are lost.
"""


def ask_every_worker(port: int, folder: Path, *, workers: int, more: int = 0) -> None:
    """
    Send one request to each worker at the same time, and some more to any worker.

    Args:
        port: Port of the server, whose application reads the file that the request's path names.
        folder: Folder for named pipes.
        workers: Number of workers.
        more: Number of further requests.
    """
    clients: list[socket.socket] = []
    await_listener(port)
    with all_at_once(pipes_in(folder, workers), lambda pipe: clients.append(_ask(port, str(pipe)))):
        pass
    clients += [_ask(port, _AT_ONCE) for _ in range(more)]
    answers = [_answer_of(client) for client in clients]
    assert [answer.split()[1] for answer in answers] == [b"200"] * (workers + more)


def _ask(port: int, path: str) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port), timeout=_DEADLINE_S)
    client.sendall(f"GET {path} HTTP/1.0\r\nhost: localhost\r\n\r\n".encode())
    return client


def _answer_of(client: socket.socket) -> bytes:
    with client, client.makefile("rb") as answer:
        return answer.read()
