"""One way to drive the clients of SDKs, synchronous and asynchronous, over httpx and httpx2."""

from __future__ import annotations

import asyncio
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
)
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

import pytest

import latspan
from latspan._base.nanoseconds import NS_PER_MS
from latspan._live.process.runtime import current_runtime, override_runtime
from latspan.testing import Captured, ManualClock, Script, capture
from latspan.testing import scripted_transport as _scripted_transport

openai = pytest.importorskip("openai", reason="the openai client is not installed")

MESSAGES: Any = [{"role": "user", "content": "hello"}]

# Which overload applies depends on the client's major version.
_make_transport: Any = _scripted_transport


_NO_SIGNATURE: Final = Path(__file__).parents[1] / "data" / "no-signature.pem"


@pytest.fixture(scope="session", autouse=True)
def authorities() -> Generator[None]:
    """
    Let the clients trust only an authority that has signed nothing.

    No test here verifies a certificate by default, but each client loads the usual authorities
    again, which takes 15 ms: a fifth of the time of these tests.
    """
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("SSL_CERT_FILE", str(_NO_SIGNATURE))
        yield


@dataclass(frozen=True)
class Sdk:
    """
    One SDK, and how it is asked for a chat.

    Args:
        name: The package.
        first_on_httpx2: The first major version that sits on httpx2.
        client: The client's class; the asynchronous one's begins with ``Async``.
        base_url: What a client takes.
        resource: Where its ``create`` is.
        asks: What every call says.
    """

    name: str
    first_on_httpx2: int
    client: str
    base_url: str
    resource: str
    asks: Mapping[str, Any] = field(default_factory=dict[str, Any], hash=False)

    @property
    def module(self) -> Any:
        """The package itself."""
        return import_module(self.name)

    @property
    def library(self) -> str:
        """The HTTP library beneath, in this environment."""
        major = int(self.module.__version__.partition(".")[0])
        return "httpx" if major < self.first_on_httpx2 else "httpx2"

    def resource_of(self, client: Any) -> Any:
        """Return what has ``create``."""
        return attrgetter(self.resource)(client)


OPENAI = Sdk(
    "openai",
    first_on_httpx2=3,
    client="OpenAI",
    base_url="https://model.test/v1",
    resource="chat.completions",
    asks={"model": "m", "messages": MESSAGES},
)
ANTHROPIC = Sdk(
    "anthropic",
    first_on_httpx2=1,
    client="Anthropic",
    base_url="https://model.test",
    resource="messages",
    asks={"model": "m", "messages": MESSAGES, "max_tokens": 9},
)

LIBRARY = OPENAI.library
HAS_NEWEST_CLIENTS: Final = LIBRARY == "httpx2"
"""Whether this environment has the newest clients, and no other instrumentation."""

http = pytest.importorskip(LIBRARY)


def pytest_configure(config: pytest.Config) -> None:
    """Let pass what aiohttp before 3.10 warns of: it leaves TLS connections to be collected."""
    if find_spec("aiohttp") is not None and version("aiohttp").startswith("3.9."):
        for what in ("unclosed transport", "unclosed <socket"):
            config.addinivalue_line("filterwarnings", f"ignore:{what}:ResourceWarning")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what does not depend on a client's release, unless the clients are the newest."""
    if HAS_NEWEST_CLIENTS:
        return
    left_out = [item for item in items if item.get_closest_marker("any_client") is not None]
    items[:] = [item for item in items if item.get_closest_marker("any_client") is None]
    config.hook.pytest_deselected(items=left_out)


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
        sdk: Whose client it is.
        clock: The clock that latspan reads and the scripted network moves.
    """

    asynchronous: bool
    sdk: Sdk = OPENAI
    clock: ManualClock = field(default_factory=ManualClock)

    @property
    def errors(self) -> Any:
        """Where the SDK's errors are; these two call theirs alike."""
        return self.sdk.module

    @property
    def http(self) -> Any:
        """The HTTP library that this client sits on."""
        return import_module(self.sdk.library)

    def transport(self, scripts: Script | list[Script], **times: int) -> Any:
        """Return a scripted transport of the library that this client sits on."""
        return _make_transport(
            scripts, self.clock, library=self.sdk.library, asynchronous=self.asynchronous, **times
        )

    def sending(self, pieces: Iterable[bytes], gap_ms: int = 10, **fields: str) -> Any:
        """Return a transport that answers with an event stream, a piece every ``gap_ms``."""
        headers = {"content-type": "text/event-stream", **fields}

        def one_by_one() -> Iterator[bytes]:
            for piece in pieces:
                self.clock.advance(gap_ms * NS_PER_MS)
                yield piece

        async def one_by_one_async() -> AsyncGenerator[bytes]:
            for piece in one_by_one():
                yield piece

        def respond(_request: Any) -> Any:
            content = one_by_one_async() if self.asynchronous else one_by_one()
            return self.http.Response(200, headers=headers, content=content)

        return self.http.MockTransport(respond)

    def run(
        self,
        transport: Any,
        program: Callable[[Any], Awaitable[Any]],
        *,
        max_retries: int = 0,
        base_url: str | None = None,
    ) -> Any:
        """Run ``program`` with a client over ``transport``; a synchronous one just never waits."""
        kind = "Async" if self.asynchronous else ""
        http_client = getattr(self.http, f"{kind}Client")(transport=transport)
        client = getattr(self.sdk.module, f"{kind}{self.sdk.client}")(
            base_url=base_url or self.sdk.base_url,
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
        """Call ``chat.completions.create``, or what the SDK has for it."""
        answer = self.sdk.resource_of(client).create(**self.sdk.asks, **more)
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


def _kinds(sdk: Sdk) -> list[Any]:
    return [
        pytest.param((sdk, kind == "async"), id=f"{sdk.name}-{kind}") for kind in ("sync", "async")
    ]


with_anthropic = pytest.mark.parametrize("driver", _kinds(ANTHROPIC), indirect=True)
"""Marks a test that is Anthropic's alone."""

with_every_sdk = pytest.mark.parametrize(
    "driver", _kinds(OPENAI) + _kinds(ANTHROPIC), indirect=True
)
"""Marks a test of what holds whatever the SDK."""


@pytest.fixture(params=_kinds(OPENAI))
def driver(request: pytest.FixtureRequest) -> Driver:
    """Each kind of program in turn, on a manual clock; OpenAI's, unless a test is marked."""
    sdk, asynchronous = request.param
    if find_spec(sdk.name) is None:
        pytest.skip(f"the {sdk.name} client is not installed")
    return Driver(asynchronous=asynchronous, sdk=sdk)


@pytest.fixture
def seen(driver: Driver) -> Iterator[Captured]:
    """What latspan records on the driver's clock."""
    with capture(clock=driver.clock) as captured:
        yield captured


@contextmanager
def asked_for(**settings: Any) -> Generator[None]:
    """Let some fields of the runtime be others inside the block."""
    runtime = current_runtime()
    assert runtime is not None
    with override_runtime(replace(runtime, **settings)):
        yield
