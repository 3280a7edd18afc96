"""The clients of the Google Gen AI SDK, over each HTTP client that it has, pass the contract."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import latspan
from latspan.testing.contract import IntegrationContract
from latspan_instrumentation.google_genai import GoogleGenAIInstrumentor
from support.google_genai import COMPLETE, MODEL, STREAMED, make_client

genai = pytest.importorskip("google.genai", reason="google-genai is not installed")


@pytest.fixture(autouse=True, params=["alone", "with-transports"])
def _transports(request: pytest.FixtureRequest) -> Iterator[None]:
    """Switch the integrations of HTTP clients on or off; the contract switches the SDK's."""
    latspan.auto_instrument()
    if request.param == "alone":
        latspan.uninstrument()
    else:
        latspan.uninstrument("latspan_google.genai")
    yield
    latspan.auto_instrument()


class _Contract(IntegrationContract):
    """What all clients have in common."""

    instrumentor = GoogleGenAIInstrumentor
    model = MODEL
    complete = COMPLETE
    streamed = STREAMED
    input_tokens = 7
    output_tokens = 5
    finish_reason = "STOP"
    token_chunks = 4
    over = "httpx"

    def make_client(self, url: str) -> Any:
        """Return a client; both of its halves send to the same server."""
        return make_client(url, self.over)

    def ask(self, client: Any) -> Any:
        """Request content."""
        return self._half(client).models.generate_content(model=MODEL, contents="hello")

    def ask_stream(self, client: Any) -> Any:
        """Request content as a stream."""
        return self._half(client).models.generate_content_stream(model=MODEL, contents="hello")

    def close_client(self, client: Any) -> Any:
        """Close the half that was used."""
        return client.aio.aclose() if self.asynchronous else client.close()

    def _half(self, client: Any) -> Any:
        return client.aio if self.asynchronous else client


class TestSync(_Contract):
    """The synchronous client, over httpx or httpx2."""


class TestAsync(_Contract):
    """The asynchronous client, over httpx or httpx2."""

    asynchronous = True


# A class of the SDK derives from the session, which aiohttp warns about.
@pytest.mark.filterwarnings("ignore:Inheritance class:DeprecationWarning")
class TestAsyncOverAiohttp(_Contract):
    """The asynchronous client over aiohttp, which it prefers where aiohttp is installed."""

    asynchronous = True
    over = "aiohttp"


class TestChat(_Contract):
    """A chat, which calls the methods of the client's models."""

    def ask(self, client: Any) -> Any:
        """Send a message."""
        return client.chats.create(model=MODEL).send_message("hello")

    def ask_stream(self, client: Any) -> Any:
        """Send a message and receive a stream."""
        return client.chats.create(model=MODEL).send_message_stream("hello")
