"""boto3's client of Bedrock passes the contract, with and without the hooks of urllib3."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import latspan
from latspan.testing.contract import IntegrationContract
from latspan_instrumentation.botocore import BotocoreInstrumentor
from latspan_instrumentation.requests import URLLib3Instrumentor
from support.bedrock import (
    COMPLETE,
    CONVERSE,
    INVOKED,
    INVOKED_STREAM,
    MODEL,
    STREAMED,
    ask,
    body_of,
    invoke,
    knows,
    make_client,
)

# botocore does not close the connection of a stream that the application drops.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")


@pytest.fixture(autouse=True, params=["alone", "with-transports"])
def _transports(request: pytest.FixtureRequest) -> Iterator[None]:
    """Switch the integrations of HTTP clients on or off; the contract switches the SDK's."""
    latspan.auto_instrument()
    if request.param == "alone":
        latspan.uninstrument()
    else:
        latspan.uninstrument("latspan_botocore")
    yield
    latspan.auto_instrument()


class _Contract(IntegrationContract):
    instrumentor = BotocoreInstrumentor
    model = MODEL
    input_tokens = 7
    output_tokens = 5
    finish_reason = "end_turn"

    def make_client(self, url: str) -> Any:
        """Return a client without retries."""
        return make_client(url)


class TestConverse(_Contract):
    """
    The operations whose format does not depend on the model.

    An old version of botocore drops the count of cached tokens, which are part of the input.
    """

    input_tokens = 7 if knows("TokenUsage", "cacheReadInputTokens") else 3

    complete = COMPLETE
    streamed = STREAMED
    token_chunks = 3 if knows("ContentBlockDelta", "reasoningContent") else 2

    def ask(self, client: Any) -> Any:
        """Request a whole response."""
        return ask(client)

    def ask_stream(self, client: Any) -> Any:
        """Request a streamed response."""
        return client.converse_stream(**CONVERSE)

    def stream_in(self, result: Any) -> Any:
        """Return the stream in the result."""
        return result["stream"]


class TestInvoke(_Contract):
    """
    The operations in the format of the model.

    If the integration of urllib3 is off, the body of a whole response is not read: the token counts
    are those in the headers, and the finish reason is unknown.
    """

    complete = INVOKED
    streamed = INVOKED_STREAM
    token_chunks = 2

    def test_a_complete_response_is_one_call(self) -> None:
        """Its model, its tokens and its outcome are recorded, and its segments sum up."""
        if not URLLib3Instrumentor().is_instrumented_by_opentelemetry:
            with pytest.MonkeyPatch.context() as patching:
                patching.setattr(type(self), "finish_reason", None)
                super().test_a_complete_response_is_one_call()
        else:
            super().test_a_complete_response_is_one_call()

    def ask(self, client: Any) -> Any:
        """Request a whole response."""
        return invoke(client)

    def ask_stream(self, client: Any) -> Any:
        """Request a streamed response."""
        return client.invoke_model_with_response_stream(modelId=MODEL, body=body_of(max_tokens=9))

    def stream_in(self, result: Any) -> Any:
        """Return the stream in the result."""
        return result["body"]
