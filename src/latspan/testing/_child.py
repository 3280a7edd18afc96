"""Child processes that run a module, exchange lines over pipes, and end with their parent."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Final

STOP: Final = "stop"
"""Line that requests a child to end; the end of its standard input has the same effect."""

_GRACE_S: Final = 5.0


class ChildProcess:
    """
    ``python -m module`` in a separate process.

    The child reads its standard input to the end and then exits, so it never outlives its parent,
    however the parent ends.

    Args:
        module: Module to run, from an installed package.
        arguments: Its command-line arguments.
        packages: Top-level packages that it imports, from where this process found them.
        capture_errors: Whether its standard error is a pipe (``errors``) or this process's own.
    """

    def __init__(
        self,
        module: str,
        arguments: Sequence[str] = (),
        *,
        packages: Sequence[str] = ("latspan",),
        capture_errors: bool = False,
    ) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - modules of ours, arguments of ours
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if capture_errors else None,
            env=_environment(packages),
            # Ctrl-C in a terminal goes to the parent, which then stops the child in an orderly way.
            process_group=0,
        )

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """Exit code; ``None`` while the process runs."""
        return self._process.poll()

    @property
    def output(self) -> IO[bytes]:
        """Standard output of the process."""
        return _pipe(self._process.stdout)

    @property
    def errors(self) -> IO[bytes]:
        """Standard error of the process, if captured."""
        return _pipe(self._process.stderr)

    def send(self, line: str) -> None:
        """
        Write ``line`` to the standard input of the process.

        Raises:
            BrokenPipeError: The process has ended.
        """
        pipe = _pipe(self._process.stdin)
        pipe.write(line.encode() + b"\n")
        pipe.flush()

    def receive(self) -> str | None:
        """Return the next line of standard output; ``None`` if the process has closed it."""
        line = self.output.readline()
        return line.decode().rstrip("\n") if line else None

    def stop(self) -> None:
        """Request the process to end, and kill it if it does not; afterwards it has ended."""
        with suppress(OSError, ValueError):
            # Closing the input is not enough: a fork of this process may hold the pipe open.
            self.send(STOP)
        with suppress(OSError):
            _pipe(self._process.stdin).close()
        for insist in (self._process.terminate, self._process.kill):
            try:
                self._process.wait(_GRACE_S)
                break
            except subprocess.TimeoutExpired:
                insist()
        self._process.wait()

    def close_pipes(self) -> None:
        """Close the output pipes; call this when the output is no longer needed."""
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()


def _environment(packages: Sequence[str]) -> dict[str, str]:
    # Replaced, not extended: a sitecustomize on this process's own path would instrument the
    # server, which must stay uninstrumented in a comparison.
    roots = dict.fromkeys(_root(package) for package in packages)
    return {**os.environ, "PYTHONPATH": os.pathsep.join(roots)}


def _root(package: str) -> str:
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"no package named '{package}'", name=package)
    return str(Path(next(iter(spec.submodule_search_locations))).parent)


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:
        raise ValueError("that pipe was not requested")
    return pipe
