"""
Process of llama.cpp's server; its log goes to standard error, its address to standard output.

Runs as ``python -m latspan.testing._llama_process SETTINGS`` with the settings as JSON.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from importlib import import_module
from pathlib import Path
from typing import Any, Final

# Log level at which the server logs that a slot begins to work on a request.
_VERBOSITY: Final = 3

_THREADS: Final = Path("/proc/self/task")
_LOG_TIMEOUT_S: Final = 5.0
_POLL_S: Final = 0.001


def main() -> None:
    """Serve until standard input ends."""
    # The input is watched from the start, because the parent may end while the model is loading.
    watcher = threading.Thread(target=_exit_on_end_of_input, daemon=True)
    watcher.start()
    try:
        server = serve(json.loads(sys.argv[1]))
    except RuntimeError as error:
        wait_for_log()
        # The log shows the reason; a traceback after it would hide it.
        raise SystemExit(str(error)) from error
    sys.stdout.write(server.listening_address + "\n")
    sys.stdout.flush()
    watcher.join()


def wait_for_log() -> None:
    """
    Wait until llama.cpp has written its log.

    A thread of llama.cpp writes it, and the exit of the process does not wait for this thread. It
    sleeps when it has written everything. Systems other than Linux do not show whether it sleeps.
    """
    deadline = time.monotonic() + _LOG_TIMEOUT_S
    while _other_threads_run() and time.monotonic() < deadline:
        time.sleep(_POLL_S)


def _other_threads_run() -> bool:
    own = threading.get_native_id()
    threads = _THREADS.iterdir() if _THREADS.exists() else ()
    return any(_state_of(thread) == "R" for thread in threads if thread.name != str(own))


def _state_of(thread: Path) -> str:
    try:
        # The state comes after the name of the thread, which is in parentheses.
        return (thread / "stat").read_text().rpartition(") ")[2][:1]
    except OSError:
        # The thread has ended.
        return ""


def _exit_on_end_of_input() -> None:
    # Any input means the same as its end. Read without Python's own buffer: this thread would
    # still hold the buffer's lock if loading the model fails and the interpreter exits.
    os.read(sys.stdin.fileno(), 1)
    # Not an orderly exit: xllamacpp would first finish generating, for up to half a minute.
    os._exit(0)


def serve(settings: dict[str, Any]) -> Any:
    """
    Return a server that runs on threads of its own until the process ends.

    Args:
        settings: Path of the ``model``, its ``alias``, number of ``slots``, tokens of ``context``,
            ``cache_ram_mib`` or ``None``, and ``port``; without a port, the server chooses one.
    """
    xllamacpp = import_module("xllamacpp")
    params = xllamacpp.CommonParams()
    params.model.path = settings["model"]
    params.model_alias = {settings["alias"]}
    params.port = settings.get("port", 0)
    params.n_parallel = settings["slots"]
    params.n_ctx = settings["context"]
    # One thread: two threads that spin at ggml's barriers on busy cores are ten times slower.
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    params.endpoint_metrics = True
    params.endpoint_slots = True
    params.verbosity = _VERBOSITY
    if settings["cache_ram_mib"] is not None:
        params.cache_ram_mib = settings["cache_ram_mib"]
    return xllamacpp.Server(params)


if __name__ == "__main__":
    main()
