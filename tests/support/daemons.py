"""Third-party servers: find a program, run it in its own process, and stop it afterwards."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_POLL_S: Final = 0.02
_START_S: Final = 30.0
_STOP_S: Final = 30.0
_LAST_LINES: Final = 20


def program(name: str) -> Path | None:
    """Return the path of a program, ``None`` if it is not installed."""
    # Programs of Python packages are in the folder of this Python. Debian installs servers in sbin,
    # which is not in an ordinary user's PATH.
    folders = (str(Path(sys.executable).parent), os.environ.get("PATH", ""), "/usr/sbin")
    found = shutil.which(name, path=os.pathsep.join(folders))
    return None if found is None else Path(found)


def listens(port: int) -> bool:
    """Return whether a program listens on ``port`` of the loopback interface."""
    try:
        with socket.create_connection(("127.0.0.1", port)):
            return True
    except ConnectionRefusedError:
        return False


@contextmanager
def running(
    command: Sequence[str | Path],
    *,
    log: Path,
    ready: Callable[[], bool],
    variables: Mapping[str, str] | None = None,
    start_s: float = _START_S,
) -> Generator[subprocess.Popen[bytes]]:
    """
    Run a program inside the block, and terminate it afterwards.

    Args:
        command: The program and its arguments.
        log: File for its output.
        ready: Returns whether the program is ready.
        variables: Environment variables that replace all ``OTEL_*`` and ``LATSPAN_*`` of this
            process.
        start_s: Maximum time until the program is ready, in seconds.

    Raises:
        AssertionError: The program ended or did not become ready; with its last output. Any
            exception of the block has its last output as a note.
    """
    ours = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("OTEL_", "LATSPAN_"))
    }
    with (
        log.open("wb") as output,
        subprocess.Popen(
            command,
            env={**ours, **(variables or {})},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            process_group=0,
        ) as process,
    ):
        try:
            deadline = time.monotonic() + start_s
            while not ready():
                assert process.poll() is None, "the program ended"
                assert time.monotonic() < deadline, f"it did not serve in {start_s:g} s"
                time.sleep(_POLL_S)
            # Without this check, another program on the same port could have responded.
            assert process.poll() is None, "the program ended"
            yield process
        except Exception as error:
            error.add_note(f"the log of {command[0]} ends with:\n{_last_lines(log)}")
            raise
        finally:
            process.terminate()
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()


def _last_lines(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-_LAST_LINES:])
