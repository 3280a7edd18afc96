"""
Simulated server in this process that sends each part of a response at a scheduled time.

The schedule counts from the request, and does not depend on the reader. A read returns everything
that is due, as a read from a socket does. If nothing is due, it waits for the next part.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import httpcore2

from _openai import HEAD, LAST, AsyncStream, Stream, client_over, event, framed

if TYPE_CHECKING:
    from openai import OpenAI

_DUE: Final = b"@@@@@@@@@@@@@@@@@"
"""
Placeholder in a part, replaced by the instant at which the part was due, in seconds of
``time.perf_counter``.

It is as long as its replacement, because the length of the part is written before the part.
"""
_WRITTEN_DUE: Final = b"%017.6f"


@dataclass(frozen=True, slots=True)
class TimedPart:
    """
    Part of a response that the server sends at once.

    Args:
        at_s: Time at which the part is due, in seconds since the request.
        data: Bytes of the part.
    """

    at_s: float
    data: bytes


@dataclass(frozen=True, slots=True)
class Answer:
    """
    One response.

    Args:
        pieces: Parts, in the order in which they are due.
        cut: Whether the connection breaks after the last part.
    """

    pieces: Sequence[TimedPart]
    cut: bool = False


class _Far:
    """Server side of one connection. It determines what is due; its methods do not wait."""

    def __init__(self, answers: Iterator[Answer]) -> None:
        self._answers = answers
        self._answer = Answer(())
        self._left: list[TimedPart] = []
        self._began_s = 0.0
        self._was_read = True

    def receive(self) -> None:
        if self._was_read:
            self._answer = next(self._answers)
            self._left = list(reversed(self._answer.pieces))
            self._was_read = False
        self._began_s = time.perf_counter()

    def wait_s(self) -> float:
        """Return the seconds until the next part is due; 0 if it is due or none is left."""
        if not self._left:
            return 0
        return max(0.0, self._began_s + self._left[-1].at_s - time.perf_counter())

    def next_read(self) -> bytes:
        """Return all parts that are due; if none is, return the next one."""
        self._was_read = True
        if not self._left and self._answer.cut:
            raise httpcore2.ReadError("the far end went away")
        since_s = time.perf_counter() - self._began_s
        due: list[bytes] = []
        # The part that the reader waited for counts as due even if the wait was slightly too short.
        while self._left and (not due or self._left[-1].at_s <= since_s):
            piece = self._left.pop()
            due.append(piece.data.replace(_DUE, _WRITTEN_DUE % (self._began_s + piece.at_s)))
        return b"".join(due)


class _Stream(Stream):
    def __init__(self, far: _Far) -> None:
        super().__init__(far)
        self._wait_s = far.wait_s

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if wait_s := self._wait_s():
            time.sleep(wait_s)
        return super().read(max_bytes, timeout)


class Timed(httpcore2.NetworkBackend):
    """
    Network backend that answers every request on a schedule.

    Args:
        answers: One response per request; the last one also answers all further requests.
    """

    def __init__(self, answers: Iterable[Answer]) -> None:
        self._answers = _for_ever(answers)

    def connect_tcp(self, *args: Any, **kwargs: Any) -> httpcore2.NetworkStream:  # noqa: ARG002
        return _Stream(_Far(self._answers))


class _AsyncStream(AsyncStream):
    def __init__(self, far: _Far) -> None:
        super().__init__(far)
        self._wait_s = far.wait_s

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        if wait_s := self._wait_s():
            await asyncio.sleep(wait_s)
        return await super().read(max_bytes, timeout)


class AsyncTimed(httpcore2.AsyncNetworkBackend):
    """
    Asynchronous variant of :class:`Timed`.

    Args:
        answers: One response per request; the last one also answers all further requests.
    """

    def __init__(self, answers: Iterable[Answer]) -> None:
        self._answers = _for_ever(answers)

    async def connect_tcp(self, *args: Any, **kwargs: Any) -> httpcore2.AsyncNetworkStream:  # noqa: ARG002
        return _AsyncStream(_Far(self._answers))


def _for_ever(answers: Iterable[Answer]) -> Iterator[Answer]:
    *first, last = answers
    return itertools.chain(first, itertools.repeat(last))


def paced(tokens: int, first_s: float, gap_s: float) -> Answer:
    """
    Return a streamed response.

    Args:
        tokens: Number of words. Each word is the instant at which it was due, in seconds of
            ``time.perf_counter``.
        first_s: Time at which the first word is due, in seconds since the request.
        gap_s: Time from one word to the next, in seconds.
    """
    words = [
        TimedPart(first_s + gap_s * number, framed(event({"content": _DUE.decode()})))
        for number in range(tokens)
    ]
    end = framed(event({}) + b"data: [DONE]\n\n") + LAST
    return Answer([TimedPart(0, HEAD), *words, TimedPart(words[-1].at_s, end)])


def slow_client() -> OpenAI:
    """Return a client whose calls receive five words and take about 8 ms."""
    return client_over(Timed([paced(5, first_s=0.003, gap_s=0.001)]))
