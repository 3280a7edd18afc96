"""
Command that restarts llama.cpp with a number of slots, as a deployment script would.

``python -m verification._server FOLDER PORT SLOTS`` ends the server whose process id is in
``FOLDER/server.pid``, starts another one on the same port, and returns when it serves. With 0 slots
it only ends the server. The server has one thread, and no cache for prompts of earlier requests
besides that of a slot.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Final

from latspan.testing._llama import packaged_model
from latspan.testing._llama_process import serve

_CONTEXT: Final = 4096
_START_S: Final = 120.0
_END_S: Final = 10.0
_POLL_S: Final = 0.1
_SERVE: Final = "serve"


def restart(folder: Path, port: int, slots: int) -> None:
    """
    Replace the server.

    Args:
        folder: Folder of its process id and its log.
        port: Its port on the loopback interface.
        slots: Requests that it answers at once; 0 to end it.

    Raises:
        SystemExit: The server does not serve.
    """
    _end(folder / "server.pid")
    if not slots:
        return
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(
            [sys.executable, "-P", "-m", "verification._server", _SERVE, str(port), str(slots)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    (folder / "server.pid").write_text(str(server.pid), "utf-8")
    deadline = time.monotonic() + _START_S
    while not _is_healthy(port):
        if server.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(f"llama.cpp does not serve; see {folder / 'server.log'}")
        time.sleep(_POLL_S)


def _end(file: Path) -> None:
    with suppress(FileNotFoundError):
        process = int(file.read_text("utf-8"))
        deadline = time.monotonic() + _END_S
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
            # It may be a child of this process, or of one that has ended.
            while time.monotonic() < deadline:
                with suppress(ChildProcessError):
                    os.waitpid(process, os.WNOHANG)
                os.kill(process, 0)
                time.sleep(_POLL_S)
        file.unlink()


def _is_healthy(port: int) -> bool:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with suppress(OSError), opener.open(f"http://127.0.0.1:{port}/health", timeout=2) as answer:
        return b"ok" in answer.read()
    return False


def _serve(port: int, slots: int) -> None:
    settings = {
        "model": str(packaged_model()),
        "alias": "smollm2-135m",
        "slots": slots,
        "context": _CONTEXT,
        "cache_ram_mib": 0,
        "port": port,
    }
    # A server without a reference to it may end.
    server = serve(settings)
    print(server.listening_address, flush=True)
    signal.pause()


if __name__ == "__main__":
    if sys.argv[1] == _SERVE:
        _serve(int(sys.argv[2]), int(sys.argv[3]))
    else:
        restart(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
