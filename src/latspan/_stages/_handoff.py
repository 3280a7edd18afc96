"""Handoff of a request to the thread, task or process that continues it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from latspan._instrument import ScopeManager, scope_entering
from latspan._operations import Handoff, attached, handoff_here

__all__ = ["Handoff", "attach", "handoff"]


def handoff(*, waits: str | None = "queue") -> Handoff:
    """
    Return a handoff of the open request: ``queue.put((latspan.handoff(), prompt))``.

    The thread, task or process that continues the request passes it to :func:`attach`. Tasks, and
    functions passed to ``asyncio.to_thread``, do not need a handoff, because they inherit the
    context. A handoff can be pickled; ``handoff().headers()`` returns it as text.

    Args:
        waits: Name of the stage that lasts from now until the handoff is attached. Pass ``None`` to
            record no such stage, if the code that creates the handoff also continues the request.
    """
    return handoff_here(waits)


def attach(handoff_or_headers: Handoff | Mapping[str, str]) -> ScopeManager[Handoff]:
    """
    Continue a request that was handed over: ``with latspan.attach(handoff):``.

    Inside the block, stages and calls belong to the request, and its attributes apply. The first
    attachment ends the stage that the argument ``waits`` of :func:`handoff` names. A handoff can be
    attached more than once, and by several threads or tasks at the same time.

    Args:
        handoff_or_headers: Result of :func:`handoff`, from this or another process, or its headers.

    Returns:
        A context manager and decorator; the value of the ``with`` statement is the handoff. If
        another process created it, send that process the result of :meth:`Handoff.server_timing`:
        it contains the stages that ended here.
    """
    if not isinstance(handoff_or_headers, Handoff):
        handoff_or_headers = Handoff(handoff_or_headers)
    return scope_entering(partial(attached, handoff_or_headers))
