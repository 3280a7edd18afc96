"""One way to drive the OpenAI client, synchronous and asynchronous, over httpx and httpx2."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

import latspan
from latspan.clock import ManualClock
from latspan.testing import Script, capture
from latspan.testing import scripted_transport as _scripted_transport
from latspan.testing._capture import Captured

openai = pytest.importorskip("openai", reason="the openai client is not installed")

OPENAI_MAJOR = int(openai.__version__.partition(".")[0])
LIBRARY = "httpx" if OPENAI_MAJOR < 3 else "httpx2"
http = pytest.importorskip(LIBRARY)

MESSAGES: Any = [{"role": "user", "content": "hello"}]

# Which overload applies depends on the client's major version.
_make_transport: Any = _scripted_transport


@pytest.fixture(autouse=True, scope="session")
def _instrumented() -> Iterator[None]:
    """Instrument whatever clients this environment has, once."""
    latspan.auto_instrument()
    yield
    latspan.uninstrument()


Visit = Callable[[Any], None]
"""What a test does with each chunk; it may raise, or :class:`Leave`."""


class Leave(Exception):  # noqa: N818 - not an error: the reader has had enough
    """Raised by a visitor to leave the loop by ``break``."""


@dataclass
class Driver:
    """
    Makes calls the way one kind of program does.

    Args:
        asynchronous: Whether it uses the asynchronous client.
        clock: The clock that latspan reads and the scripted network moves.
    """

    asynchronous: bool
    clock: ManualClock = field(default_factory=ManualClock)

    def transport(self, scripts: Script | list[Script], **times: int) -> Any:
        """Return a scripted transport of the library that this client sits on."""
        return _make_transport(
            scripts, self.clock, library=LIBRARY, asynchronous=self.asynchronous, **times
        )

    def run(
        self,
        transport: Any,
        program: Callable[[Any], Awaitable[Any]],
        *,
        max_retries: int = 0,
        base_url: str = "https://model.test/v1",
    ) -> Any:
        """Run ``program`` with a client over ``transport``; a synchronous one just never waits."""
        kind = "Async" if self.asynchronous else ""
        http_client = getattr(http, f"{kind}Client")(transport=transport)
        client = getattr(openai, f"{kind}OpenAI")(
            base_url=base_url,
            api_key="none",
            http_client=http_client,
            max_retries=max_retries,
        )

        async def body() -> Any:
            try:
                return await program(client)
            finally:
                if self.asynchronous:
                    await client.close()
                else:
                    client.close()

        return asyncio.run(body())

    async def create(self, client: Any, **more: Any) -> Any:
        """Call ``chat.completions.create``."""
        answer = client.chat.completions.create(model="m", messages=MESSAGES, **more)
        return await answer if self.asynchronous else answer

    async def read(self, stream: Any, visit: Visit | None = None) -> None:
        """Read a stream in a loop that a visitor may leave by ``break``."""
        if self.asynchronous:
            async for chunk in stream:
                if visit is not None:
                    try:
                        visit(chunk)
                    except Leave:
                        break
        else:
            for chunk in stream:
                if visit is not None:
                    try:
                        visit(chunk)
                    except Leave:
                        break

    @asynccontextmanager
    async def entered(self, stream: Any) -> AsyncGenerator[Any]:
        """Enter a stream with ``with`` or ``async with``."""
        if self.asynchronous:
            async with stream as inside:
                yield inside
        else:
            with stream as inside:
                yield inside

    async def close(self, stream: Any) -> None:
        """Close a stream."""
        if self.asynchronous:
            await stream.close()
        else:
            stream.close()


@pytest.fixture(params=["sync", "async"])
def driver(request: pytest.FixtureRequest) -> Driver:
    """Each kind of program in turn, on a manual clock."""
    return Driver(asynchronous=request.param == "async")


@pytest.fixture
def seen(driver: Driver) -> Iterator[Captured]:
    """What latspan records on the driver's clock."""
    with capture(clock=driver.clock) as captured:
        yield captured
