"""Named pipes that block their readers, so that several readers are active at the same time."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

_DEADLINE_S: Final = 30.0
_POLL_S: Final = 0.005


def pipes_in(folder: Path, count: int) -> list[Path]:
    """Create named pipes in ``folder``."""
    pipes = [folder / f"pipe-{number}" for number in range(count)]
    for pipe in pipes:
        os.mkfifo(pipe)
    return pipes


@contextmanager
def all_at_once(pipes: Iterable[Path], begin: Callable[[Path], None]) -> Generator[None]:
    """
    Start a reader at every pipe, and block all readers until the end of the block.

    Args:
        pipes: The pipes, in order.
        begin: Starts the reader of a pipe.
    """
    with ExitStack() as held:
        for pipe in pipes:
            begin(pipe)
            held.callback(os.close, _opened_with_a_reader(pipe))
        yield


def _opened_with_a_reader(pipe: Path) -> int:
    deadline = time.monotonic() + _DEADLINE_S
    while True:
        try:
            return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
        assert time.monotonic() < deadline, f"nobody reads {pipe}"
        # Without a pause, this thread takes a processor that the reader needs.
        time.sleep(_POLL_S)
