"""
Registries of open operations and of open scopes.

Operations are calls of models, and HTTP exchanges outside any call. Scopes are requests and stages.

At a shutdown and at a reconfiguration, everything that is still open ends as ``abandoned``. The
operations end first, and of the scopes the latest first: recordings require that the calls and
stages inside a request are recorded before it. The code of the application goes on. What it does
with an abandoned operation or scope later has no effect.
"""

from __future__ import annotations

import os
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, NamedTuple

from latspan._base.internal_errors import handle_internal_errors
from latspan._model.segments import Outcome

if TYPE_CHECKING:
    from latspan._live.operations._operation import Operation
    from latspan._live.operations._scope import LocalScope
    from latspan._live.process.runtime import Runtime

current_operation: ContextVar[Operation | None] = ContextVar("latspan_call", default=None)
"""Operation of the current context. It may have ended, see :func:`active_operation`."""

open_operations: Final[dict[Operation, bool]] = {}
"""
Open operations, each with the value ``True``.

The references are strong: an operation that the application never ends must still exist at
shutdown. Popping is atomic: of several threads and a finalizer that end an operation, exactly one
gets ``True``.
"""

open_scopes: Final[dict[LocalScope, bool]] = {}
"""
Open requests and stages of this process, each with the value ``True``, in the order of their start.

The references are strong and popping is atomic, as for :data:`open_operations`.
"""


class TentativeEnd(NamedTuple):
    """
    End of an operation whose caller has stopped reading, valid unless reading resumes.

    Args:
        outcome: Outcome of the operation.
        done_ns: End of the operation, monotonic nanoseconds.
        error_type: Status code or name of an exception type.
        last_read: Start and end of the read that returned no chunk, if there was one.
    """

    outcome: Outcome
    done_ns: int
    error_type: str | None
    last_read: tuple[int, int] | None


def active_operation() -> Operation | None:
    """
    Return the operation that a client library performs in this context, if any.

    A task that was started inside an operation has it in its context even after its end. For
    transports an operation is over once the client library has returned, although its stream may
    still be read.
    """
    operation = current_operation.get()
    if operation is None or operation.finished or operation.returned_ns is not None:
        return None
    return operation


def abandon_open_operations(runtime: Runtime | None = None) -> None:
    """
    End open operations and scopes as ``abandoned``, the innermost first.

    An operation whose stream the caller has left ends with the outcome of that moment.

    Args:
        runtime: Runtime whose operations and scopes end; all of them if not given.
    """
    for operation in list(open_operations):
        if runtime is None or operation.runtime is runtime:
            operation.abandon()
    # A scope is opened after the scopes that it is inside of.
    for scope in reversed(list(open_scopes)):
        if runtime is None or scope.runtime is runtime:
            with handle_internal_errors("the end of an open request or stage"):
                scope.abandon()


def end_left_operations(left_for_ns: int = 0) -> None:
    """
    End the operations whose streams the callers have stopped reading; later reads are not recorded.

    Args:
        left_for_ns: Minimum time since the last read returned, in nanoseconds.
    """
    for operation in list(open_operations):
        operation.end_if_left(left_for_ns)


def _forget_the_parents() -> None:
    """Drop the parent process's operations and scopes in a forked child; the parent ends them."""
    for operation in open_operations:
        operation.finished = True
    open_operations.clear()
    for scope in open_scopes:
        scope.finished = True
        scope.on_abandon = None
    open_scopes.clear()


os.register_at_fork(after_in_child=_forget_the_parents)
