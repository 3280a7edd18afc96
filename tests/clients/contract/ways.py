"""What a program does with an answer, and what it sees of it: the ways that end well."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest

from latspan.integrations import Outcome
from tests.clients.contract.clients import Client, settled
from tests.clients.contract.conftest import Here, Program, Runs, answer_of, run, without_places


def shown(here: Here, answer: Any) -> list[Any]:
    """Return what a program can tell of an answer that comes in chunks."""
    response = here.client.response(answer)
    return [
        type(answer),
        answer.__class__,
        without_places(repr(answer)),
        type(response),
        response.headers.__class__,
        sorted(response.headers.items()),
    ]


async def asks(here: Here) -> list[Any]:
    """Ask for an answer in one piece."""
    answer = await here.ask(stream=False)
    content = await settled(here.client.whole(answer))
    return [type(answer), answer.__class__, without_places(repr(answer)), content]


async def reads(here: Here) -> list[Any]:
    """Read an answer to its end."""
    answer = await here.ask()
    pieces = await here.read(answer)
    assert len(pieces) == len(answer_of(here.client, stream=True).parts)
    return [*shown(here, answer), pieces]


async def leaves(here: Here) -> list[Any]:
    """Have enough after the first piece."""
    answer = await here.ask()
    pieces: Any = here.client.pieces(answer)
    first = await anext(pieces) if here.client.asynchronous else next(pieces)
    await here.close(answer)
    return [*shown(here, answer), type(pieces), first]


async def never_reads(here: Here) -> list[Any]:
    """Close an answer unread."""
    answer = await here.ask()
    await here.close(answer)
    return shown(here, answer)


WAYS: Final[list[tuple[Program, Outcome]]] = [
    (asks, Outcome.COMPLETED),
    (reads, Outcome.COMPLETED),
    (leaves, Outcome.CLOSED_EARLY),
    (never_reads, Outcome.CLOSED_EARLY),
]
EACH_WAY: Final = pytest.mark.parametrize(
    ("program", "outcome"), WAYS, ids=[way.__name__ for way, _ in WAYS]
)


def went(client: Client, program: Program, runs: Runs = asyncio.run) -> tuple[Any, list[bytes]]:
    """Run one of the ways; return what it saw and what it sent."""
    return run(client, program, answer_of(client, stream=program is not asks), runs=runs)
