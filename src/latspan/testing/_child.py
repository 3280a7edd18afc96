"""
Child processes: started as a module, spoken to over pipes, gone when asked or when we are.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Final

__all__ = ["STOP", "ChildProcess"]

STOP: Final = "stop"
"""The line that asks a child to end; so does the end of its standard input."""

_GRACE_S: Final = 5.0


class ChildProcess:
    """
    ``python -m module`` in a process of its own.

    The child reads its standard input to the end and leaves then, so it never outlives its
    parent, however that ends.

    Args:
        module: What to run; a module of an installed package.
        arguments: Its command line.
        packages: Top-level packages that it imports, wherever this process found them.
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
            # Ctrl-C in a terminal is for the parent, which then stops the child in order.
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """How it ended; ``None`` while it runs."""
        return self._process.poll()

    @property
    def output(self) -> IO[bytes]:
        """Its standard output."""
        return _pipe(self._process.stdout)

    @property
    def errors(self) -> IO[bytes]:
        """Its standard error, if captured."""
        return _pipe(self._process.stderr)

    def send(self, line: str) -> None:
        """
        Write ``line`` to its standard input.

        Raises:
            BrokenPipeError: It is gone.
        """
        pipe = _pipe(self._process.stdin)
        pipe.write(line.encode() + b"\n")
        pipe.flush()

    def receive(self) -> str | None:
        """Return the next line of its standard output; ``None``: it has closed that."""
        line = self.output.readline()
        return line.decode().rstrip("\n") if line else None

    def stop(self) -> None:
        """Ask it to leave, and make it if it does not; afterwards it is gone."""
        with suppress(OSError, ValueError):
            # The end of the input is not enough: a fork of this process may hold the pipe open.
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
        """Let go of what it wrote; call this when nobody reads it any more."""
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()


def _environment(packages: Sequence[str]) -> dict[str, str]:
    # Replaced, not extended: a sitecustomize on this process's own path would instrument the
    # server that is to be the untouched side of a comparison.
    roots = dict.fromkeys(_root(package) for package in packages)
    return {**os.environ, "PYTHONPATH": os.pathsep.join(roots)}


def _root(package: str) -> str:
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"no package named '{package}'", name=package)
    return str(Path(next(iter(spec.submodule_search_locations))).parent)


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:
        raise ValueError("that pipe was not asked for")
    return pipe
