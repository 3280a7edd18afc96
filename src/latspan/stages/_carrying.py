"""A request that is carried to another thread, task or process, and gone on with there."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager

from latspan._request import Carried

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


@contextmanager
def resume(carried: Carried | Mapping[str, str]) -> Generator[Carried]:
    """
    Go on with what was carried: ``with latspan.resume(carried):``.

    Inside, stages and calls are those of the request, and what is said of it holds. That it is
    gone on with ends its wait. One can do so more than once, and in several places at a time.

    Args:
        carried: What :func:`carry` returned, here or in another process, or its headers.

    Yields:
        It; of headers, what tells the process they came from what was done here.
    """
    if not isinstance(carried, Carried):
        carried = Carried.received(carried)
    with carried.resumed():
        yield carried
