"""The OpenAI and Anthropic clients parse the scripted server's responses without errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from latspan.testing import Ending, Script, ScriptedServer

openai = pytest.importorskip("openai", reason="the openai client is not installed")
anthropic = pytest.importorskip("anthropic", reason="the anthropic client is not installed")

HELLO: Any = [{"role": "user", "content": "hello"}]
SCRIPT = Script.chat(
    tokens=2,
    reasoning_tokens=1,
    tool_call_tokens=2,
    prefill_ms=1,
    gap_ms=0,
    cached_tokens=3,
    cache_write_tokens=2,
)


@pytest.fixture(scope="module")
def server() -> Iterator[ScriptedServer]:
    """One server for all tests."""
    with ScriptedServer(SCRIPT) as running:
        yield running


@pytest.fixture
def client(server: ScriptedServer) -> Iterator[Any]:
    """OpenAI's client without retries."""
    server.use(SCRIPT)
    with openai.OpenAI(base_url=server.base_url, api_key="none", max_retries=0) as connected:
        yield connected


@pytest.fixture
def claude(server: ScriptedServer) -> Iterator[Any]:
    """Anthropic's client without retries, with strict validation."""
    server.use(SCRIPT)
    with anthropic.Anthropic(
        base_url=server.url, api_key="none", max_retries=0, _strict_response_validation=True
    ) as connected:
        yield connected


def test_a_response_is_accumulated_by_the_clients_helper(client: Any) -> None:
    """The helper asserts the order of the events and the kind of each item."""
    with client.responses.stream(model="m", input="hello") as stream:
        for _ in stream:
            pass
        response = stream.get_final_response()

    reasoning, message, call = response.output
    assert reasoning.summary[0].text == "reasoning0 "
    assert message.content[0].text == "text0 text1 "
    assert call.arguments == '{"words": "tool_call0 tool_call1 "}'
    assert response.usage.input_tokens_details.cached_tokens == 3
    assert response.usage.output_tokens_details.reasoning_tokens == 1


def test_every_event_of_a_response_has_its_own_type(client: Any) -> None:
    """No event falls back to the first type of the union; ``model_dump`` would warn about that."""
    for event in client.responses.create(model="m", input="hello", stream=True):
        assert event.model_dump(warnings="error")["type"] == event.type


def test_an_unstreamed_response_is_read(client: Any) -> None:
    assert client.responses.create(model="m", input="hello").output_text == "text0 text1 "


def test_a_completion_is_read(client: Any) -> None:
    """As a whole, and chunk by chunk."""
    words = "reasoning0 text0 text1 "
    whole = client.completions.create(model="m", prompt="hello")
    chunks = list(client.completions.create(model="m", prompt="hello", stream=True))

    assert whole.choices[0].text.startswith(words)
    assert "".join(chunk.choices[0].text for chunk in chunks).startswith(words)


def test_embeddings_are_read(client: Any) -> None:
    """The client requests base64 and decodes it."""
    answer = client.embeddings.create(model="m", input=["one", "two"])

    assert [each.embedding for each in answer.data] == [[0.5, -0.25, 0.125, 0.0]] * 2


def test_both_clients_list_models(client: Any, claude: Any, server: ScriptedServer) -> None:
    """Immediately, and without using one of the scripts."""
    server.use([SCRIPT, Script.refused()])
    assert [model.id for model in client.models.list()] == ["scripted"]
    assert [model.id for model in claude.models.list()] == ["scripted"]
    assert client.completions.create(model="m", prompt="hello").id
    assert [served.slot_ns for served in server.served_requests()[-3:-1]] == [None, None]


def test_a_message_is_accumulated_by_the_clients_helper(claude: Any) -> None:
    """The helper asserts the order of the events and parses arguments as they arrive."""
    with claude.messages.stream(model="m", max_tokens=9, messages=HELLO) as stream:
        assert list(stream.text_stream) == ["text0 ", "text1 "]
        message = stream.get_final_message()

    thinking, text, call = message.content
    assert (thinking.thinking, text.text) == ("reasoning0 ", "text0 text1 ")
    assert call.input == {"words": "tool_call0 tool_call1 "}
    assert message.stop_reason == "tool_use"
    assert message.usage.output_tokens == 5
    assert (message.usage.cache_read_input_tokens, message.usage.input_tokens) == (3, 7)


def test_an_unstreamed_message_is_read(claude: Any) -> None:
    """With the standard and the beta API."""
    for messages in (claude.messages, claude.beta.messages):
        message = messages.create(model="m", max_tokens=9, messages=HELLO)
        assert [block.type for block in message.content] == ["thinking", "text", "tool_use"]


def test_errors_raise_the_clients_exceptions(
    client: Any, claude: Any, server: ScriptedServer
) -> None:
    """By status, and inside a stream with status 200."""
    ask: Any = {"model": "m", "max_tokens": 9, "messages": HELLO}
    server.use(Script.refused(429, error="slow down"))
    with pytest.raises(anthropic.RateLimitError, match="slow down"):
        claude.messages.create(**ask)
    with pytest.raises(openai.RateLimitError, match="slow down"):
        client.responses.create(model="m", input="hello")

    server.use(Script.chat(tokens=1, prefill_ms=1, ending=Ending.ERROR))
    with pytest.raises(anthropic.APIStatusError, match="overloaded_error"):
        list(claude.messages.create(stream=True, **ask))
    assert list(client.responses.create(model="m", input="hello", stream=True))[-1].type == "error"
