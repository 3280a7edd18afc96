"""
A program that runs as a child of a command, which prints something after the program has ended.

The program must not notice its parent: it has the standard streams of the command, and it receives
the signals that the command receives. A terminal sends Ctrl-C to every process in the foreground,
so the command ignores it there and waits; otherwise the command passes it on.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Final

__all__ = ["run_supervised"]

_PASSED_ON: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
_FROM_TERMINALS: Final = frozenset({signal.SIGINT, signal.SIGHUP, signal.SIGQUIT})


def run_supervised(replace: Callable[[], int]) -> int:
    """
    Run a program as a child process, and wait for its end.

    Args:
        replace: Called in the child; replaces the process with the program. If it returns, its
            result is the exit code.

    Returns:
        Exit code of the program; negative if a signal ended it, as in ``subprocess``.
    """
    running: list[int] = []

    def pass_on(number: int, frame: FrameType | None) -> None:
        del frame
        if number not in _FROM_TERMINALS or not _is_in_foreground():
            for pid in running:
                # Until it is waited for, the process exists, and no other has its number.
                os.kill(pid, number)

    # A signal between the fork and the first line of `pass_on` would end only one of the two.
    previous = signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON)
    handlers = {number: signal.getsignal(number) for number in _PASSED_ON}
    try:
        pid = os.fork()
        if pid == 0:
            _become(replace, previous)
        running.append(pid)
        for number, handler in handlers.items():
            # A shell makes the programs that it starts in the background ignore interrupts.
            if handler is not signal.SIG_IGN:
                signal.signal(number, pass_on)
        signal.pthread_sigmask(signal.SIG_SETMASK, previous)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        running.clear()
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous)
        for number, handler in handlers.items():
            if handler is not None:
                signal.signal(number, handler)


def _become(replace: Callable[[], int], mask: Iterable[int]) -> None:
    code = 1
    try:
        for number in _PASSED_ON:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        code = replace()
    finally:
        # Not `sys.exit`: the parent's exit handlers and output buffers are the parent's.
        os._exit(code)


def _is_in_foreground() -> bool:
    """Return whether this process is in the foreground of a terminal."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)
