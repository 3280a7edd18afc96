"""
Start a program, wait for it, and end as it ended.

The program gets standard input and output, the terminal and every signal of this process. Signals
are blocked here and received one after the other, so none interrupts the wait. A signal that a
terminal sends goes to the whole process group, so the program has it already; every other one is
passed on.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

_PASSED_ON: Final = frozenset(
    {
        signal.SIGHUP,
        signal.SIGINT,
        signal.SIGQUIT,
        signal.SIGTERM,
        signal.SIGUSR1,
        signal.SIGUSR2,
        signal.SIGCONT,
        signal.SIGWINCH,
    }
)
_FROM_THE_TERMINAL: Final = 0x80
"""``si_code`` of a signal that the kernel sent, for example because of Ctrl-C (Linux)."""


def supervise(path: str, program: list[str], environment: Mapping[str, str]) -> int:
    """
    Run a program to its end.

    Args:
        path: File to execute.
        program: Its arguments, the name of the program first.
        environment: Its environment variables.

    Returns:
        The status that ``os.waitpid`` returned.

    Raises:
        OSError: The program cannot be executed.
    """
    received = _PASSED_ON | {signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, received)
    try:
        pid = os.posix_spawn(
            path,
            program,
            environment,
            setsigmask=before,
            # Python ignores these signals, and the program would inherit that.
            setsigdef=(signal.SIGPIPE, signal.SIGXFSZ),
        )
        return _status_of(pid, received)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _status_of(pid: int, received: frozenset[signal.Signals]) -> int:
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found == pid:
            return status
        info = signal.sigwaitinfo(received)
        if info.si_signo != signal.SIGCHLD and info.si_code < _FROM_THE_TERMINAL:
            with suppress(ProcessLookupError):
                os.kill(pid, info.si_signo)


def end_as(status: int) -> int:
    """
    Return the exit code of a program; if a signal ended it, end this process by the same signal.

    Args:
        status: Status that :func:`supervise` returned.
    """
    if not os.WIFSIGNALED(status):
        return os.waitstatus_to_exitcode(status)
    number = os.WTERMSIG(status)
    # A second core dump, of this process, would be of no use.
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    return 128 + number
