"""The Mistral SDK keeps the contract of integrations, with and without the layer of HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

import latspan
from latspan.testing.contract import IntegrationContract, json_reply, stream_reply
from latspan_instrumentation.mistralai import MistralInstrumentor
from tests.clients.mistral.conftest import HTTP
from tests.clients.mistral.replies import DONE, MESSAGES, USAGE, chunk, completion


@pytest.fixture(autouse=True, scope="class", params=[True, False], ids=["over HTTP's", "alone"])
def _http_layer(request: pytest.FixtureRequest) -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    """Run each class with the HTTP library instrumented, and without."""
    # The tests switch the integration itself on and off.
    latspan.uninstrument("latspan_mistralai")
    if not request.param:
        latspan.uninstrument(f"latspan_{HTTP}")
    yield
    latspan.auto_instrument()


class TestChat(IntegrationContract):
    """``chat.complete`` and ``chat.stream``."""

    instrumentor = MistralInstrumentor
    model = "mistral-small"
    complete = json_reply(completion())
    streamed = stream_reply(
        chunk("", role="assistant"),
        chunk("Here"),
        chunk("."),
        chunk("", reason="stop", usage=USAGE),
        DONE,
    )
    input_tokens = 7
    output_tokens = 3
    finish_reason = "stop"
    token_chunks = 2

    def make_client(self, url: str) -> Any:
        """Make a client, which does not retry by default."""
        return import_module("mistralai.client").Mistral(api_key="none", server_url=url)

    def ask(self, client: Any) -> Any:
        """Request a chat."""
        return client.chat.complete(model=self.model, messages=MESSAGES)

    def ask_stream(self, client: Any) -> Any:
        """Request a streamed chat."""
        return client.chat.stream(model=self.model, messages=MESSAGES)

    def close_client(self, client: Any) -> Any:
        """Leave the block that a client is."""
        client.__exit__(None, None, None)


class TestAsyncChat(TestChat):
    """``chat.complete_async`` and ``chat.stream_async``."""

    asynchronous = True

    def ask(self, client: Any) -> Any:
        """Request a chat."""
        return client.chat.complete_async(model=self.model, messages=MESSAGES)

    def ask_stream(self, client: Any) -> Any:
        """Request a streamed chat."""
        return client.chat.stream_async(model=self.model, messages=MESSAGES)

    def close_client(self, client: Any) -> Any:
        """Leave the block that a client is."""
        return client.__aexit__(None, None, None)


class TestFim(TestChat):
    """``fim.complete`` and ``fim.stream``."""

    def ask(self, client: Any) -> Any:
        """Request the code between two others."""
        return client.fim.complete(model=self.model, prompt="def f(", suffix="return x")

    def ask_stream(self, client: Any) -> Any:
        """Request the same as a stream."""
        return client.fim.stream(model=self.model, prompt="def f(", suffix="return x")


class TestAsyncFim(TestAsyncChat):
    """``fim.complete_async`` and ``fim.stream_async``."""

    def ask(self, client: Any) -> Any:
        """Request the code between two others."""
        return client.fim.complete_async(model=self.model, prompt="def f(", suffix="return x")

    def ask_stream(self, client: Any) -> Any:
        """Request the same as a stream."""
        return client.fim.stream_async(model=self.model, prompt="def f(", suffix="return x")
