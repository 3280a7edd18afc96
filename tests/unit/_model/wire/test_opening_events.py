"""The first event of a stream is recognised in time linear in its length."""

from __future__ import annotations

import pytest

from latspan._live.instrument._promotion import formats_of
from latspan._model.wire import ApiFormat, Framing
from latspan._model.wire.anthropic_messages import ANTHROPIC_MESSAGES
from latspan._model.wire.bedrock_converse import BEDROCK_CONVERSE
from latspan._model.wire.bedrock_invoke import BEDROCK_INVOKE
from latspan._model.wire.cohere_chat import COHERE_CHAT
from latspan._model.wire.gemini_generate import GEMINI_GENERATE_CONTENT
from latspan._model.wire.ollama_chat import OLLAMA_CHAT, OLLAMA_GENERATE
from latspan._model.wire.openai_chat import OPENAI_CHAT
from latspan._model.wire.openai_completions import OPENAI_COMPLETIONS
from latspan._model.wire.openai_responses import OPENAI_RESPONSES

DIALECTS = (
    ANTHROPIC_MESSAGES,
    OPENAI_RESPONSES,
    OPENAI_COMPLETIONS,
    OPENAI_CHAT,
    GEMINI_GENERATE_CONTENT,
    COHERE_CHAT,
    OLLAMA_CHAT,
    OLLAMA_GENERATE,
    BEDROCK_CONVERSE,
    BEDROCK_INVOKE,
)


@pytest.mark.parametrize(
    "event",
    [
        b'{"choices":[{"index":0,"delta":{}}]}',
        b'{"choices": [ {"content_filter_results": {"hate": {}}, "delta": {"content": "a"}}]}',
        b'{"note":"choices", "choices":[{"delta":{}}]}',
        b'{"choices":[{"finish_reason":null,\n"delta":{"role":"assistant"}}]}',
    ],
)
def test_a_chat_chunk_is_recognised_by_its_choices(event: bytes) -> None:
    """Some servers omit ``object``."""
    opens = {dialect.name for dialect in DIALECTS if _opens(dialect, event)}
    assert opens == {"openai.chat"}


@pytest.mark.parametrize(
    ("event", "name"),
    [
        (
            b'data: {"candidates":[{"content":{"parts":[{"functionCall":{"type":"error"}}]}}]}',
            "gemini.generate_content",
        ),
        (b'data: {"candidates":[{"finishReason":"STOP"}]}', "gemini.generate_content"),
        (b'data: {"usageMetadata":{"promptTokenCount":3}}', "gemini.generate_content"),
        (b'data: {"promptFeedback":{"blockReason":"SAFETY"}}', "gemini.generate_content"),
        (b'data: {"candidates":[{"name":"Ada"}]}', None),
        (b'data: {"id":"m","type":"message-start","delta":{"message":{}}}', "cohere.chat"),
    ],
)
def test_a_stream_of_events_is_of_one_api(event: bytes, name: str | None) -> None:
    """The first format that matches is used."""
    known = formats_of("POST", Framing.EVENTS)
    found = next((each.name for each in known if _opens(each, event)), None)
    assert found == name


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
@pytest.mark.parametrize(
    "unit",
    [
        b'"choices":[{',
        b'"choices":[{"',
        b'"choices" ',
        b'"object" : ',
        b'"type" : ',
        b'{"error" ',
        b'"usageMetadata":{',
        b'"usageMetadata":{"promptTokenCoun',
        b'"candidates":[{',
        b'"candidates":[{"conten',
        b'"promptFeedback":{',
        b'{"created_at":"',
        b'"created_at" : "don" "message"',
        b'{"chunk":{',
        b'{"chunk":{"outputText" ',
    ],
)
def test_a_hostile_event_is_searched_in_linear_time(dialect: ApiFormat, unit: bytes) -> None:
    """Searching from each beginning to the end of the event would take many minutes."""
    assert not _opens(dialect, unit * (1_000_000 // len(unit)))


def _opens(dialect: ApiFormat, event: bytes) -> bool:
    assert dialect.stream is not None
    return dialect.stream.opens.search(event) is not None
