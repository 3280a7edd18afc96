"""The OpenAI client reads streams from a scripted transport of its own HTTP library."""

from __future__ import annotations

from typing import Any

import pytest

from latspan.testing import ManualClock, Script
from latspan.testing import scripted_transport as _scripted_transport

openai = pytest.importorskip("openai", reason="the openai client is not installed")

MS = 1_000_000
HELLO: Any = [{"role": "user", "content": "hello"}]

# The overload that applies depends on the client's major version.
make_transport: Any = _scripted_transport


def _library() -> str:
    return "httpx" if openai.__version__.startswith(("1.", "2.")) else "httpx2"


def _http(kind: str, clock: ManualClock, script: Script) -> Any:
    library = pytest.importorskip(_library())
    transport = make_transport(
        script, clock, library=_library(), asynchronous=kind == "AsyncClient", network_ns=MS
    )
    return getattr(library, kind)(transport=transport)


def test_the_client_receives_each_token_when_it_arrives() -> None:
    """The client's own work between two reads takes no time on a manual clock."""
    clock = ManualClock()
    script = Script.chat(tokens=3, prefill_ms=30, gap_ms=10)
    with openai.OpenAI(
        base_url="https://model/v1", api_key="none", http_client=_http("Client", clock, script)
    ) as client:
        seen = [
            clock.monotonic_ns()
            for chunk in client.chat.completions.create(model="m", messages=HELLO, stream=True)
            if chunk.choices[0].delta.content
        ]

    assert seen == [32 * MS, 42 * MS, 52 * MS]


async def test_the_asynchronous_client_receives_each_token_when_it_arrives() -> None:
    """At the same instants as with the synchronous client."""
    clock = ManualClock()
    script = Script.chat(tokens=3, prefill_ms=30, gap_ms=10)
    async with openai.AsyncOpenAI(
        base_url="https://model/v1", api_key="none", http_client=_http("AsyncClient", clock, script)
    ) as client:
        stream = await client.chat.completions.create(model="m", messages=HELLO, stream=True)
        seen = [clock.monotonic_ns() async for chunk in stream if chunk.choices[0].delta.content]

    assert seen == [32 * MS, 42 * MS, 52 * MS]
