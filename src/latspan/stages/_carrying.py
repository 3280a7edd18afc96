"""A request that is carried to another thread, task or process, and gone on with there."""

from __future__ import annotations

from collections.abc import Mapping

from latspan._request import Carried
from latspan.instrument import Scope

__all__ = ["Carried", "carry", "resume"]


def carry(*, waits: str | None = "queue") -> Carried:
    """
    Take what is open here to somewhere else: ``queue.put((latspan.carry(), prompt))``.

    Tasks, and functions given to ``asyncio.to_thread``, have it anyway. What is carried can be
    pickled; where only text travels, ``carry().headers()`` is what does.

    Args:
        waits: The stage that the request is in until somebody goes on with it. ``None`` for none:
            the code here works on meanwhile.
    """
    return Carried.here(waits)


def resume(carried: Carried | Mapping[str, str]) -> Scope[Carried]:
    """
    Go on with what was carried: ``with latspan.resume(carried):``.

    Inside, stages and calls are those of the request, and what is said of it holds. That it is
    gone on with ends its wait. One can do so more than once, and in several places at a time.

    Args:
        carried: What :func:`carry` returned, here or in another process, or its headers.

    Returns:
        A context manager, whose value is what was carried, and a decorator. Of headers, what was
        carried tells the process they came from what was done here.
    """
    if not isinstance(carried, Carried):
        carried = Carried.received(carried)
    return Scope.of(carried.resumed)
