"""What an application does with a stream: reads it, leaves it, or is stopped while it reads."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from opentelemetry import trace

from _openai import MESSAGES, async_client_over, client_over
from _timed import Answer, AsyncTimed, Timed

if TYPE_CHECKING:
    from openai import AsyncOpenAI, OpenAI

__all__ = [
    "AROUND",
    "BETWEEN",
    "WORK_S",
    "Scene",
    "breaks",
    "closes",
    "is_cancelled",
    "leaves_with",
    "makes_a_span",
    "parses_a_raw_response",
    "reads_a_response",
    "reads_events",
    "reads_lines",
    "reads_to_the_end",
    "takes_its_time",
]

AROUND: Final = "application, around the call"
"""The name of the span that the application makes around a call."""
BETWEEN: Final = "application, between chunks"
"""The name of the span that the application makes while it reads."""

_READ: Final = 6
"""Chunks that are read of a stream that is left early: the role and five tokens."""
WORK_S: Final = 0.05
"""How long a slow caller works on each chunk, in seconds."""


@dataclass(slots=True)
class Scene:
    """
    One call, as its caller sees it.

    Args:
        answers: What the server will answer.
        headers_came: To be called as soon as the client has returned.
        held: What the application still holds when it is done.
        read: How many chunks, events or lines it read.
        raised: The name of the exception that it got, if it got one.
        around: The id of the span that it made around the call, if it made one.
        parent: The id of the parent of the span that it made between chunks, if it has one.
    """

    answers: Sequence[Answer]
    headers_came: Callable[[], None]
    held: list[object] = field(default_factory=list[object])
    read: int = 0
    raised: str | None = None
    around: int | None = None
    parent: int | None = None

    def client(self) -> OpenAI:
        """Return a client that is answered as planned, and tries again."""
        return client_over(Timed(self.answers), retries=2)

    def async_client(self) -> AsyncOpenAI:
        """Return the same, asynchronous; it does not try again."""
        return async_client_over(AsyncTimed(self.answers))

    def chat(self) -> Any:
        """Return a streamed chat that the application holds on to."""
        return self.hold(self.client().chat.completions.create(**_CHAT))

    def hold(self, stream: Any) -> Any:
        """Hold on to what the client has just returned."""
        self.held.append(stream)
        self.headers_came()
        return stream

    def read_all(self, chunks: Iterable[object]) -> None:
        """Read what there is, and note what is raised."""
        try:
            for _ in chunks:
                self.read += 1
        except Exception as error:  # noqa: BLE001 - what comes is what is asked
            self.raised = type(error).__name__


_CHAT: Final[dict[str, Any]] = {"model": "gpt-4o-mini", "messages": MESSAGES, "stream": True}


def reads_to_the_end(scene: Scene) -> None:
    """Read every chunk."""
    scene.read_all(scene.chat())


def takes_its_time(scene: Scene) -> None:
    """Read every chunk, and work on each."""
    for _ in scene.chat():
        scene.read += 1
        time.sleep(WORK_S)


def breaks(scene: Scene) -> None:
    """Leave the loop early, still holding the stream."""
    for _ in scene.chat():
        scene.read += 1
        if scene.read == _READ:
            break


def closes(scene: Scene) -> None:
    """Read with ``next`` and close the stream early."""
    stream = scene.chat()
    scene.read_all(islice(stream, _READ))
    stream.close()


def leaves_with(scene: Scene) -> None:
    """Leave loop and ``with`` early, still holding the stream."""
    with scene.chat() as stream:
        for _ in stream:
            scene.read += 1
            if scene.read == _READ:
                break


def is_cancelled(scene: Scene) -> None:
    """Be cancelled while waiting for a chunk."""
    asyncio.run(_cancelled(scene))


async def _cancelled(scene: Scene) -> None:
    async def read() -> None:
        stream = scene.hold(await scene.async_client().chat.completions.create(**_CHAT))
        async for _ in stream:
            scene.read += 1
            if scene.read == _READ:
                # Comes at the next wait, which is for a chunk.
                task.cancel()

    task = asyncio.create_task(read())
    try:
        await task
    except asyncio.CancelledError as error:
        scene.raised = type(error).__name__


def parses_a_raw_response(scene: Scene) -> None:
    """Ask for the raw response, then for its stream, and read every chunk."""
    raw = scene.hold(scene.client().chat.completions.with_raw_response.create(**_CHAT))
    scene.read_all(scene.hold(raw.parse()))


def reads_lines(scene: Scene) -> None:
    """Ask for the response unread, and read every line."""
    completions: Any = scene.client().chat.completions
    with completions.with_streaming_response.create(**_CHAT) as response:
        scene.read_all(scene.hold(response).iter_lines())


def reads_events(scene: Scene) -> None:
    """Read every event of the client's own accumulating stream."""
    completions: Any = scene.client().chat.completions
    with completions.stream(model="gpt-4o-mini", messages=MESSAGES) as stream:
        scene.read_all(scene.hold(stream))


def makes_a_span(scene: Scene) -> None:
    """Make a span between two chunks, in one around the call."""
    tracer = trace.get_tracer("application")
    with tracer.start_as_current_span(AROUND) as around:
        scene.around = around.get_span_context().span_id
        for _ in scene.chat():
            scene.read += 1
            if scene.read == _READ:
                between = tracer.start_span(BETWEEN)
                between.end()
                # Without a provider there is none.
                parent = getattr(between, "parent", None)
                scene.parent = parent and parent.span_id


def reads_a_response(scene: Scene) -> None:
    """Read every event of a response."""
    responses: Any = scene.client().responses
    scene.read_all(scene.hold(responses.create(model="gpt-4o-mini", input="hello", stream=True)))
