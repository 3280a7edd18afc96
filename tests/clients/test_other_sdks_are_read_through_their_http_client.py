"""The clients of Google, Ollama, Cohere and AWS parse the scripted server's responses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

from latspan import Kind
from latspan._model.tokens import counted_by_provider
from latspan._model.wire import ApiFormat, as_data, output_messages
from latspan._model.wire.bedrock_converse import BEDROCK_CONVERSE
from latspan._model.wire.bedrock_invoke import BEDROCK_INVOKE
from latspan._model.wire.cohere_chat import COHERE_CHAT
from latspan._model.wire.gemini_generate import GEMINI_GENERATE_CONTENT
from latspan._model.wire.ollama_chat import OLLAMA_CHAT
from latspan.integrations import Outcome
from latspan.testing import Captured, Ending, Script, ScriptedServer, capture

SCRIPT = Script.chat(
    tokens=2,
    reasoning_tokens=1,
    tool_call_tokens=1,
    prefill_ms=1,
    gap_ms=0,
    cached_tokens=3,
)
HELLO: Any = [{"role": "user", "content": "hello"}]
CONVERSED: Any = [{"role": "user", "content": [{"text": "hello"}]}]
MODEL = "anthropic.claude-x-v1:0"
INVOKED = json.dumps({"anthropic_version": "a", "max_tokens": 9, "messages": HELLO})


@pytest.fixture(scope="module")
def running() -> Iterator[ScriptedServer]:
    """One server for all tests."""
    with ScriptedServer(SCRIPT) as server:
        yield server


@pytest.fixture
def server(running: ScriptedServer) -> ScriptedServer:
    """The server with the usual script."""
    running.use(SCRIPT)
    return running


@pytest.fixture
def seen() -> Iterator[Captured]:
    """What latspan records of the clients' requests."""
    with capture() as captured:
        yield captured


@pytest.fixture
def gemini(server: ScriptedServer) -> Iterator[Any]:
    """Google's client."""
    genai = pytest.importorskip("google.genai", reason="the google-genai client is not installed")
    with genai.Client(api_key="none", http_options={"base_url": server.url}) as client:
        yield client


@pytest.fixture
def ollama(server: ScriptedServer) -> Iterator[Any]:
    """Ollama's client."""
    module = pytest.importorskip("ollama", reason="the ollama client is not installed")
    with module.Client(host=server.url) as client:
        yield client


@pytest.fixture
def cohere(server: ScriptedServer) -> Iterator[Any]:
    """Cohere's client of the second version of the API."""
    module = pytest.importorskip("cohere", reason="the cohere client is not installed")
    with import_module("httpx").Client() as http_client:
        yield module.ClientV2(api_key="none", base_url=server.url, httpx_client=http_client)


@pytest.fixture
def bedrock(server: ScriptedServer) -> Iterator[Any]:
    """AWS's client of Bedrock, without retries."""
    boto3 = pytest.importorskip("boto3", reason="boto3 is not installed")
    config = import_module("botocore.config").Config(retries={"total_max_attempts": 1})
    client = boto3.client(
        "bedrock-runtime",
        region_name="eu-west-1",
        endpoint_url=server.url,
        aws_access_key_id="none",
        aws_secret_access_key="none",
        config=config,
    )
    yield client
    client.close()


def _is_one_call(seen: Captured, name: str, *, output: int = 4) -> None:
    """Check what latspan records of a stream that an HTTP client reads for the SDK."""
    (record,) = seen.records
    assert (record.kind, record.name, record.outcome) == (Kind.CALL, name, Outcome.COMPLETED)
    assert (record.tokens.input, record.tokens.output) == (12, output)
    assert "time_to_first_token" in record.metrics


def _reads_objects(api_format: ApiFormat, chunks: list[Any]) -> None:
    """Check that the format reads the SDK's own objects as it reads their bytes."""
    kinds = [api_format.classify_chunk(chunk) for chunk in chunks]
    assert [kind for kind in kinds if kind] == [1, 2, 2, 2]
    only_text = api_format.only_text
    if only_text is not None:
        assert [kind for kind in map(only_text, chunks) if kind] == [1, 2, 2, 2]
    bodies = [api_format.to_mapping(chunk) for chunk in chunks]
    tokens = counted_by_provider(api_format.usage(bodies))
    assert (tokens.input, tokens.output) == (12, 4)
    assert api_format.is_finished(bodies)
    assert not api_format.is_finished(bodies[:-2])
    content = api_format.content
    assert content is not None
    fragments = [each for chunk in chunks for each in content.fragments(chunk)]
    reasons = {0: str(api_format.finish_reasons(bodies)[0])}
    (message,) = output_messages(fragments, reasons)
    parts = {part["type"]: part for part in as_data([message], media=False)[0]["parts"]}
    assert parts["reasoning"]["content"] == "reasoning0 "
    assert parts["text"]["content"] == "text0 text1 "
    assert parts["tool_call"]["arguments"] == {"words": "tool_call0 "}


def test_googles_client_reads_a_stream(gemini: Any, seen: Captured) -> None:
    """Thoughts, text, the call of a tool, the finish reason and the counts."""
    chunks = list(gemini.models.generate_content_stream(model="gemini-x", contents="hello"))
    parts = [part for chunk in chunks for part in chunk.candidates[0].content.parts]

    assert "".join(part.text for part in parts if part.thought) == "reasoning0 "
    text = "".join(part.text or "" for part in parts if not part.thought)
    assert text == "text0 text1 "
    (call,) = (part.function_call for part in parts if part.function_call)
    assert (call.name, call.args) == ("look_up", {"words": "tool_call0 "})
    assert chunks[-1].candidates[0].finish_reason == "STOP"
    assert chunks[-1].usage_metadata.total_token_count == 16
    _reads_objects(GEMINI_GENERATE_CONTENT, chunks)
    _is_one_call(seen, "generate_content gemini-x")


def test_googles_client_reads_a_whole_response(gemini: Any) -> None:
    whole = gemini.models.generate_content(model="gemini-x", contents="hello")
    assert whole.text == "text0 text1 "
    assert whole.model_version == "gemini-x"


def test_ollamas_client_reads_a_chat(ollama: Any, server: ScriptedServer, seen: Captured) -> None:
    """Line by line; the last one has the durations."""
    lines = list(ollama.chat(model="m", messages=HELLO, stream=True))

    assert "".join(line.message.thinking or "" for line in lines) == "reasoning0 "
    assert "".join(line.message.content for line in lines) == "text0 text1 "
    (call,) = (call for line in lines for call in line.message.tool_calls or ())
    assert call.function.arguments == {"words": "tool_call0 "}
    assert (lines[-1].done, lines[-1].done_reason, lines[-1].eval_count) == (True, "stop", 4)
    served = server.served_requests()[-1]
    assert served.slot_ns is not None
    assert lines[-1].prompt_eval_duration == served.token_ns[0] - served.slot_ns
    _reads_objects(OLLAMA_CHAT, lines)
    _is_one_call(seen, "chat m")


def test_ollamas_client_reads_a_completion(ollama: Any, seen: Captured) -> None:
    """In lines, and whole."""
    lines = list(ollama.generate(model="m", prompt="hello", stream=True))
    assert "".join(line.response for line in lines).startswith("text0 text1 ")
    _is_one_call(seen, "text_completion m")
    whole = ollama.generate(model="m", prompt="hello")
    assert whole.response.startswith("text0 text1 ")


def test_ollamas_client_reads_a_whole_chat(ollama: Any) -> None:
    assert ollama.chat(model="m", messages=HELLO).message.content == "text0 text1 "


def test_coheres_client_reads_a_stream(cohere: Any, seen: Captured) -> None:
    """Thinking, text, the call of a tool, the finish reason and the counts."""
    events = list(cohere.chat_stream(model="m", messages=HELLO))

    deltas = [event.delta.message.content for event in events if event.type == "content-delta"]
    assert "".join(delta.thinking or "" for delta in deltas) == "reasoning0 "
    assert "".join(delta.text or "" for delta in deltas) == "text0 text1 "
    (call,) = (event.delta.message for event in events if event.type == "tool-call-start")
    assert call.tool_calls.function.name == "look_up"
    assert events[-1].delta.finish_reason == "TOOL_CALL"
    assert events[-1].delta.usage.billed_units.output_tokens == 4
    _reads_objects(COHERE_CHAT, events)
    _is_one_call(seen, "chat m")


def test_coheres_client_reads_a_whole_message(cohere: Any) -> None:
    message = cohere.chat(model="m", messages=HELLO).message
    assert [block.type for block in message.content] == ["thinking", "text"]


def test_awss_client_reads_a_conversation(bedrock: Any, seen: Captured) -> None:
    """Every event passes its check of the checksums."""
    from tests.support.bedrock import knows

    if not knows("ContentBlockDelta", "reasoningContent"):
        pytest.skip("this version of botocore does not know reasoning")
    events = list(bedrock.converse_stream(modelId=MODEL, messages=CONVERSED)["stream"])

    deltas = [each["contentBlockDelta"]["delta"] for each in events if "contentBlockDelta" in each]
    assert "".join(delta.get("text", "") for delta in deltas) == "text0 text1 "
    assert deltas[0] == {"reasoningContent": {"text": "reasoning0 "}}
    assert deltas[-1] == {"toolUse": {"input": '{"words": "tool_call0 "}'}}
    assert events[-2] == {"messageStop": {"stopReason": "tool_use"}}
    assert events[-1]["metadata"]["usage"]["totalTokens"] == 16
    _reads_objects(BEDROCK_CONVERSE, events)
    _is_one_call(seen, f"chat {MODEL}")


def test_awss_client_reads_an_invoked_models_stream(bedrock: Any, seen: Captured) -> None:
    """Each chunk has one event of Anthropic's."""
    answer = bedrock.invoke_model_with_response_stream(modelId=MODEL, body=INVOKED)
    chunks = list(answer["body"])
    events = [json.loads(each["chunk"]["bytes"]) for each in chunks]

    assert events[0]["type"] == "message_start"
    assert events[-1]["amazon-bedrock-invocationMetrics"]["outputTokenCount"] == 4
    _reads_objects(BEDROCK_INVOKE, chunks)
    _is_one_call(seen, f"chat {MODEL}")


def test_awss_client_reads_whole_responses(bedrock: Any) -> None:
    whole = bedrock.converse(modelId=MODEL, messages=CONVERSED)
    assert whole["output"]["message"]["content"][1] == {"text": "text0 text1 "}
    invoked = json.loads(bedrock.invoke_model(modelId=MODEL, body=INVOKED)["body"].read())
    assert invoked["content"][1]["text"] == "text0 text1 "


def test_errors_raise_googles_exceptions(gemini: Any, server: ScriptedServer) -> None:
    """By status."""
    server.use(Script.refused(400, error="slow down"))
    errors = import_module("google.genai.errors")
    with pytest.raises(errors.ClientError, match="slow down"):
        list(gemini.models.generate_content_stream(model="m", contents="hello"))


def test_errors_raise_ollamas_exceptions(ollama: Any, server: ScriptedServer) -> None:
    """By status, and inside a stream with status 200."""
    errors = import_module("ollama")
    for script in (
        Script.refused(404, error="slow down"),
        Script(ending=Ending.ERROR, error="slow down"),
    ):
        server.use(script)
        with pytest.raises(errors.ResponseError, match="slow down"):
            list(ollama.chat(model="m", messages=HELLO, stream=True))


def test_errors_raise_coheres_exceptions(cohere: Any, server: ScriptedServer) -> None:
    """By status."""
    server.use(Script.refused(400, error="slow down"))
    errors = import_module("cohere.errors")
    with pytest.raises(errors.BadRequestError, match="slow down"):
        list(cohere.chat_stream(model="m", messages=HELLO))


def test_errors_raise_awss_exceptions(bedrock: Any, server: ScriptedServer, seen: Captured) -> None:
    """By status, and inside a stream with status 200, which is an error of the call."""
    server.use(Script.refused(429, error="slow down"))
    with pytest.raises(bedrock.exceptions.ThrottlingException, match="slow down"):
        bedrock.converse_stream(modelId=MODEL, messages=CONVERSED)
    server.use(Script.chat(tokens=1, prefill_ms=1, ending=Ending.ERROR))
    errors = import_module("botocore.exceptions")
    stream = bedrock.converse_stream(modelId=MODEL, messages=CONVERSED)["stream"]
    with pytest.raises(errors.EventStreamError, match="scripted error"):
        list(stream)
    stream.close()

    assert [record.outcome for record in seen.records] == [Outcome.REJECTED, Outcome.ERROR]
