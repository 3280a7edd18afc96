"""Clients of the Mistral SDK, synchronous and asynchronous, over real and scripted transports."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any, cast

import pytest

from latspan._base.nanoseconds import NS_PER_MS
from latspan.testing import Captured, ManualClock, Script, capture, scripted_transport

collect_ignore_glob = [] if find_spec("mistralai") else ["test_*.py"]

HTTP = (
    "httpx2" if find_spec("mistralai") and int(version("mistralai").split(".")[0]) > 2 else "httpx"
)
"""The HTTP library of the SDK, in this environment."""


@dataclass
class MistralDriver:
    """
    Makes calls the way one kind of program does.

    Args:
        asynchronous: Whether it uses the asynchronous methods.
        clock: The clock that latspan reads and the scripted network moves.
    """

    asynchronous: bool
    clock: ManualClock = field(default_factory=ManualClock)

    def run(
        self,
        transport: Any,
        program: Callable[[Any], Awaitable[Any]],
        *,
        package: str = "mistralai.client",
        name: str = "Mistral",
        **options: Any,
    ) -> Any:
        """Run ``program`` with a client over ``transport``; a synchronous one never waits."""
        kind = "Async" if self.asynchronous else ""
        http_client = getattr(import_module(HTTP), f"{kind}Client")(transport=transport)
        used = {"async_client" if self.asynchronous else "client": http_client}
        sdk = getattr(import_module(package), name)
        client = sdk(server_url="https://model.test", **used, **(options or {"api_key": "none"}))

        async def body() -> Any:
            try:
                return await program(client)
            finally:
                if self.asynchronous:
                    await http_client.aclose()
                else:
                    http_client.close()

        return asyncio.run(body())

    def scripted(self, script: Script | list[Script], **times: int) -> Any:
        """Return a transport that plays a script."""
        make: Any = scripted_transport
        return make(script, self.clock, library=HTTP, asynchronous=self.asynchronous, **times)

    def answering(self, *replies: Any) -> Any:
        """
        Return a transport that returns bodies in turn.

        Args:
            replies: JSON bodies, lists of events, one every 10 ms, or responses of the HTTP
                library.
        """
        http = import_module(HTTP)
        left = list(replies)

        def one_by_one(events: list[bytes]) -> Iterator[bytes]:
            for each in events:
                self.clock.advance(10 * NS_PER_MS)
                yield each

        async def one_by_one_async(events: list[bytes]) -> AsyncGenerator[bytes]:
            for each in one_by_one(events):
                yield each

        def respond(_request: Any) -> Any:
            reply = left.pop(0)
            if isinstance(reply, dict):
                return http.Response(200, json=reply)
            if isinstance(reply, list):
                events = cast("list[bytes]", reply)
                headers = {"content-type": "text/event-stream"}
                content = one_by_one_async(events) if self.asynchronous else one_by_one(events)
                return http.Response(200, headers=headers, content=content)
            return reply

        return http.MockTransport(respond)

    async def call(self, resource: Any, method: str, **arguments: Any) -> Any:
        """Call a method, or its asynchronous form."""
        if self.asynchronous:
            return await getattr(resource, f"{method}_async")(**arguments)
        return getattr(resource, method)(**arguments)

    async def read(self, stream: Any) -> list[Any]:
        """Read a stream to its end."""
        if self.asynchronous:
            return [event async for event in stream]
        return list(stream)


def llm_spans(seen: Captured) -> list[dict[str, Any]]:
    """Return the attributes of latspan's spans of model calls."""
    spans = [dict(span.attributes or {}) for span in seen.spans]
    return [attributes for attributes in spans if "gen_ai.operation.name" in attributes]


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def mistral(request: pytest.FixtureRequest) -> MistralDriver:
    """Each kind of program in turn, on a manual clock."""
    return MistralDriver(asynchronous=request.param)


@pytest.fixture
def seen(mistral: MistralDriver) -> Iterator[Captured]:
    """What latspan records on the driver's clock."""
    with capture(clock=mistral.clock) as captured:
        yield captured
