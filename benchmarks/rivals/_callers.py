"""Callers of a model: they read a stream, leave it early, or are cancelled while they read."""

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

AROUND: Final = "application, around the call"
"""Name of the span that the application creates around a call."""
BETWEEN: Final = "application, between chunks"
"""Name of the span that the application creates while it reads."""

_READ: Final = 6
"""Number of chunks read from a stream that is left early: the role and five tokens."""
WORK_S: Final = 0.05
"""Time for which a slow caller processes each chunk, in seconds."""


@dataclass(slots=True)
class Scene:
    """
    One call, from the view of its caller.

    Args:
        answers: Responses of the server, one per request.
        headers_came: Function to call as soon as the client has returned the stream.
        held: Objects that the application still references after the call.
        read: Number of chunks, events or lines that it read.
        raised: Name of the exception that the application received; ``None`` if there was none.
        around: ID of the span that the application created around the call, if any.
        parent: ID of the parent of the span that it created between chunks, if any.
    """

    answers: Sequence[Answer]
    headers_came: Callable[[], None]
    held: list[object] = field(default_factory=list[object])
    read: int = 0
    raised: str | None = None
    around: int | None = None
    parent: int | None = None

    def client(self) -> OpenAI:
        """Return a client that receives the scene's responses, with up to two retries per call."""
        return client_over(Timed(self.answers), retries=2)

    def async_client(self) -> AsyncOpenAI:
        """Return an asynchronous client that receives the scene's responses, without retries."""
        return async_client_over(AsyncTimed(self.answers))

    def chat(self) -> Any:
        """Request a streamed chat, and return the stream, which the scene keeps a reference to."""
        return self.hold(self.client().chat.completions.create(**_CHAT))

    def hold(self, stream: Any) -> Any:
        """Keep a reference to the object that the client has just returned."""
        self.held.append(stream)
        self.headers_came()
        return stream

    def read_all(self, chunks: Iterable[object]) -> None:
        """Read all chunks, and record the exception if one is raised."""
        try:
            for _ in chunks:
                self.read += 1
        except Exception as error:  # noqa: BLE001 - the type of any exception is a result
            self.raised = type(error).__name__


_CHAT: Final[dict[str, Any]] = {"model": "gpt-4o-mini", "messages": MESSAGES, "stream": True}


def reads_to_the_end(scene: Scene) -> None:
    """Read every chunk."""
    scene.read_all(scene.chat())


def takes_its_time(scene: Scene) -> None:
    """Read every chunk, and spend time on each."""
    for _ in scene.chat():
        scene.read += 1
        time.sleep(WORK_S)


def breaks(scene: Scene) -> None:
    """Leave the loop early, and keep a reference to the stream."""
    for _ in scene.chat():
        scene.read += 1
        if scene.read == _READ:
            break


def closes(scene: Scene) -> None:
    """Read with ``next``, and close the stream early."""
    stream = scene.chat()
    scene.read_all(islice(stream, _READ))
    stream.close()


def leaves_with(scene: Scene) -> None:
    """Leave the loop and its ``with`` block early, and keep a reference to the stream."""
    with scene.chat() as stream:
        for _ in stream:
            scene.read += 1
            if scene.read == _READ:
                break


def is_cancelled(scene: Scene) -> None:
    """Read in a task that is cancelled while it waits for a chunk."""
    asyncio.run(_cancelled(scene))


async def _cancelled(scene: Scene) -> None:
    async def read() -> None:
        stream = scene.hold(await scene.async_client().chat.completions.create(**_CHAT))
        async for _ in stream:
            scene.read += 1
            if scene.read == _READ:
                # The cancellation arrives at the next wait, which is the wait for a chunk.
                task.cancel()

    task = asyncio.create_task(read())
    try:
        await task
    except asyncio.CancelledError as error:
        scene.raised = type(error).__name__


def parses_a_raw_response(scene: Scene) -> None:
    """Request the raw response, parse it as a stream, and read every chunk."""
    raw = scene.hold(scene.client().chat.completions.with_raw_response.create(**_CHAT))
    scene.read_all(scene.hold(raw.parse()))


def reads_lines(scene: Scene) -> None:
    """Request the response with its body unread, and read every line."""
    completions: Any = scene.client().chat.completions
    with completions.with_streaming_response.create(**_CHAT) as response:
        scene.read_all(scene.hold(response).iter_lines())


def reads_events(scene: Scene) -> None:
    """Read every event of the client's own stream that accumulates the response."""
    completions: Any = scene.client().chat.completions
    with completions.stream(model="gpt-4o-mini", messages=MESSAGES) as stream:
        scene.read_all(scene.hold(stream))


def makes_a_span(scene: Scene) -> None:
    """Create a span around the call, and another between two chunks."""
    tracer = trace.get_tracer("application")
    with tracer.start_as_current_span(AROUND) as around:
        scene.around = around.get_span_context().span_id
        for _ in scene.chat():
            scene.read += 1
            if scene.read == _READ:
                between = tracer.start_span(BETWEEN)
                between.end()
                # If no provider is set, the span has no attribute `parent`.
                parent = getattr(between, "parent", None)
                scene.parent = parent and parent.span_id


def reads_a_response(scene: Scene) -> None:
    """Read every event of a streamed response of the Responses API."""
    responses: Any = scene.client().responses
    scene.read_all(scene.hold(responses.create(model="gpt-4o-mini", input="hello", stream=True)))
