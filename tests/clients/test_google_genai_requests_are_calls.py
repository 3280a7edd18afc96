"""Each request of the Google Gen AI SDK to a model is one call, with what the API reported."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import pytest

import latspan
from latspan import Kind
from latspan.integrations import Outcome
from latspan.testing import Captured, ManualClock, RequestRecord, Script, capture
from latspan.testing import scripted_transport as _scripted_transport
from latspan.testing.contract import Reply, json_reply, stream_reply
from support.google_genai import (
    COMPLETE,
    HTTPX,
    MODEL,
    STREAMED,
    event,
    http_library,
    make_client,
    response,
)
from support.loopback import Loopback
from tests.clients.conftest import asked_for

genai = pytest.importorskip("google.genai", reason="google-genai is not installed")

MS = 1_000_000
WAYS = ("sync", "async", "aiohttp")

scripted_transport: Any = _scripted_transport

# A class of the SDK derives from the session, which aiohttp warns about.
pytestmark = pytest.mark.filterwarnings("ignore:Inheritance class:DeprecationWarning")

every_way = pytest.mark.parametrize("way", WAYS)
"""Marks a test of the synchronous and the asynchronous client, over each HTTP client."""


@contextmanager
def without_integrations_of_transports() -> Generator[None]:
    """Switch every integration off except that of the SDK."""
    others = [name for name in latspan.auto_instrument() if name != "latspan_google.genai"]
    latspan.uninstrument(*others)
    try:
        yield
    finally:
        latspan.auto_instrument()


def run(way: str, server: Loopback, ask: Callable[[Any], Any], **options: Any) -> Any:
    """Return the result of a request, read to its end if it is streamed."""
    client = make_client(server.url, "aiohttp" if way == "aiohttp" else "httpx", **options)
    if way == "sync":
        try:
            return _listed(ask(client))
        finally:
            client.close()

    async def visit() -> Any:
        try:
            result = await ask(client.aio)
            return [chunk async for chunk in result] if hasattr(result, "__aiter__") else result
        finally:
            await client.aio.aclose()

    return asyncio.run(visit())


def _listed(result: Any) -> Any:
    return list(result) if hasattr(result, "__next__") else result


def asking(**config: Any) -> Callable[[Any], Any]:
    """Return a function that requests a complete response."""
    return lambda client: client.models.generate_content(
        model=MODEL, contents="hello", config=config or None
    )


def asking_stream(**config: Any) -> Callable[[Any], Any]:
    """Return a function that requests a streamed response."""
    return lambda client: client.models.generate_content_stream(
        model=MODEL, contents="hello", config=config or None
    )


def calls(seen: Captured) -> list[dict[str, Any]]:
    """Return the attributes of each span of a call."""
    spans = [dict(span.attributes or {}) for span in seen.spans]
    return [each for each in spans if each.get("latspan.kind") == "call"]


def only_record(seen: Captured) -> RequestRecord:
    """Return the record of the call; there is no other record."""
    (record,) = seen.records
    assert record.kind is Kind.CALL
    return record


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("library", ["httpx", "httpx2"])
def test_a_stream_has_the_times_of_the_server(library: str, asynchronous: bool) -> None:
    """To the nanosecond: each segment, the time to the first token, and the chunk gaps."""
    http_library(library)
    clock = ManualClock()
    transport = scripted_transport(
        Script.chat(tokens=3, queue_ms=20, prefill_ms=300, gap_ms=10, flavor="plain"),
        clock,
        library=library,
        asynchronous=asynchronous,
        connect_ns=5 * MS,
        send_ns=1 * MS,
        network_ns=1 * MS,
    )
    arguments = "async_client_args" if asynchronous else "client_args"

    with capture(clock=clock) as seen, Loopback([]) as server:
        way = "async" if asynchronous else "sync"
        chunks = run(way, server, asking_stream(), **{arguments: {"transport": transport}})

    assert [chunk.text for chunk in chunks if chunk.text] == ["text0 ", "text1 ", "text2 "]
    record = only_record(seen)
    segments = [(each.name, each.duration_ns) for each in record.segments]
    assert segments == [
        ("connect", 5 * MS),
        ("send", 1 * MS),
        ("server_wait", 322 * MS),
        ("decode", 20 * MS),
    ]
    assert record.metrics["time_to_first_token"].value == 328 * MS
    assert [gap.value for gap in record.chunk_gaps] == [10 * MS, 10 * MS]
    assert (record.tokens.input, record.tokens.output) == (12, 3)


@every_way
@pytest.mark.parametrize(
    ("ask", "reply"), [(asking(), COMPLETE), (asking_stream(), STREAMED)], ids=["whole", "stream"]
)
def test_a_request_is_one_span_with_the_phases_of_its_transport(
    way: str, ask: Callable[[Any], Any], reply: Reply
) -> None:
    """The request is its only attempt, and carries the trace context of the call's span once."""
    with Loopback([reply]) as server, capture() as seen:
        run(way, server, ask)

    record = only_record(seen)
    # aiohttp reports the phases of a connection one by one.
    connecting = "tcp" if way == "aiohttp" else "connect"
    assert {segment.name for segment in record.segments} >= {connecting, "send", "server_wait"}
    (call,) = calls(seen)
    assert call["latspan.attempt.count"] == 1
    (span,) = [span for span in seen.spans if span.name == f"generate_content {MODEL}"]
    (visit,) = server.visits
    contexts = [
        value for name, value in visit.request.headers.items() if name.lower() == "traceparent"
    ]
    assert span.context is not None
    assert contexts == [f"00-{span.context.trace_id:032x}-{span.context.span_id:016x}-01"]


@every_way
def test_without_the_integration_of_its_transport_a_request_is_one_call_too(way: str) -> None:
    with without_integrations_of_transports():
        with Loopback([STREAMED]) as server, capture() as seen:
            run(way, server, asking_stream())

        record = only_record(seen)
    assert record.outcome is Outcome.COMPLETED
    assert "connect" not in {segment.name for segment in record.segments}
    assert "time_to_first_token" in record.metrics
    (visit,) = server.visits
    assert "traceparent" not in visit.request.headers


def test_a_stream_has_the_attributes_of_the_conventions() -> None:
    """Reasoning is a part of the output, and ends at the first chunk with other text."""
    ask = asking_stream(
        temperature=0.5,
        top_p=0.9,
        top_k=20,
        max_output_tokens=99,
        seed=3,
        frequency_penalty=0.1,
        presence_penalty=0.2,
        stop_sequences=["END"],
        response_mime_type="application/json",
    )
    with Loopback([STREAMED]) as server, capture() as seen:
        run("sync", server, ask)

    (call,) = calls(seen)
    assert isinstance(call.pop("gen_ai.response.time_to_first_chunk"), float)
    assert {name: value for name, value in call.items() if not name.startswith("latspan.")} == {
        "gen_ai.operation.name": "generate_content",
        "gen_ai.provider.name": "gcp.gemini",
        "gen_ai.request.model": MODEL,
        "gen_ai.request.stream": True,
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.top_p": 0.9,
        "gen_ai.request.top_k": 20,
        "gen_ai.request.max_tokens": 99,
        "gen_ai.request.seed": 3,
        "gen_ai.request.frequency_penalty": 0.1,
        "gen_ai.request.presence_penalty": 0.2,
        "gen_ai.request.stop_sequences": ("END",),
        "gen_ai.output.type": "json",
        "gen_ai.response.id": "r1",
        "gen_ai.response.model": f"{MODEL}-001",
        "gen_ai.response.finish_reasons": ("STOP",),
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.usage.cache_read.input_tokens": 4,
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.usage.reasoning.output_tokens": 2,
        "server.address": "127.0.0.1",
        "server.port": server.port,
    }
    assert call["latspan.time_to_first_token"] < call["latspan.time_to_first_visible_token"]
    assert "reasoning" in {segment.name for segment in only_record(seen).segments}


@pytest.mark.parametrize(
    ("config", "attribute", "value"),
    [
        ({"thinking_config": {"thinking_budget": 9}}, "gen_ai.request.reasoning.level", None),
        ({"maxOutputTokens": 7}, "gen_ai.request.max_tokens", 7),
        ({"candidate_count": 2}, "gen_ai.request.choice.count", 2),
        ({"candidate_count": 1}, "gen_ai.request.choice.count", None),
        ({"response_modalities": ["IMAGE"]}, "gen_ai.output.type", "image"),
        ({"response_modalities": ["TEXT", "IMAGE"]}, "gen_ai.output.type", None),
        ({"response_schema": {"type": "STRING"}}, "gen_ai.output.type", "json"),
        ({"response_mime_type": "text/plain"}, "gen_ai.output.type", "text"),
    ],
)
@pytest.mark.parametrize("as_object", [False, True], ids=["dict", "object"])
def test_a_setting_is_an_attribute(
    config: dict[str, Any], attribute: str, value: object, as_object: bool
) -> None:
    """Whether the application passes a ``dict`` or an object, with names of either kind."""
    given: Any = genai.types.GenerateContentConfig(**config) if as_object else config
    with Loopback([COMPLETE]) as server, capture() as seen:
        run(
            "sync",
            server,
            lambda client: client.models._generate_content(
                model=MODEL, contents="hello", config=given
            ),
        )

    (call,) = calls(seen)
    assert call.get(attribute) == value


def test_a_thinking_level_is_an_attribute_in_lower_case() -> None:
    if not hasattr(genai.types, "ThinkingLevel"):
        pytest.skip("this version of the SDK has no thinking levels")
    with Loopback([COMPLETE]) as server, capture() as seen:
        run("sync", server, asking(thinking_config={"thinking_level": "HIGH"}))

    assert calls(seen)[0]["gen_ai.request.reasoning.level"] == "high"


@pytest.mark.parametrize(
    "model",
    [
        "gemini-x",
        "models/gemini-x",
        "google/gemini-x",
        "projects/p/locations/l/publishers/google/models/gemini-x",
    ],
)
def test_a_client_of_vertex_ai_is_another_provider(model: str) -> None:
    """The model has its own name, without the resource that it belongs to."""
    with Loopback([COMPLETE]) as server, capture() as seen:
        run(
            "sync",
            server,
            lambda client: client.models.generate_content(model=model, contents="hello"),
            vertex=True,
        )

    (call,) = calls(seen)
    assert call["gen_ai.provider.name"] == "gcp.vertex_ai"
    assert call["gen_ai.request.model"] == "gemini-x"
    assert call["server.port"] == server.port


def test_the_base_url_of_a_request_replaces_that_of_the_client() -> None:
    with Loopback([]) as other, Loopback([COMPLETE]) as server, capture() as seen:
        run("sync", other, asking(http_options={"base_url": server.url}))

    (call,) = calls(seen)
    assert call["server.port"] == server.port
    assert call["latspan.attempt.count"] == 1


_STATISTICS = [{"embeddings": {"values": [1.0], "statistics": {"token_count": n}}} for n in (3, 4)]


@pytest.mark.parametrize("way", ["sync", "async"])
@pytest.mark.parametrize(
    ("vertex", "body", "tokens"),
    [
        (False, {"embeddings": [{"values": [1.0]}, {"values": [2.0]}]}, None),
        (True, {"predictions": _STATISTICS}, 7),
        (True, {"predictions": [*_STATISTICS, {"embeddings": {"values": [2.0]}}]}, None),
    ],
    ids=["gemini", "vertex", "incomplete"],
)
def test_embeddings_are_one_call(way: str, vertex: bool, body: Any, tokens: int | None) -> None:
    """They have input tokens only, and only if every text has a count."""
    with Loopback([json_reply(body)]) as server, capture() as seen:
        run(
            way,
            server,
            lambda client: client.models.embed_content(
                model="text-embedding-005",
                contents=["a", "b"],
                config={"output_dimensionality": 1},
            ),
            vertex=vertex,
        )

    record = only_record(seen)
    assert record.outcome is Outcome.COMPLETED
    assert (record.name, record.tokens.input) == ("embeddings text-embedding-005", tokens)
    assert record.tokens.output is None
    assert calls(seen)[0]["gen_ai.embeddings.dimension.count"] == 1


def test_the_count_of_embeddings_for_the_whole_request_is_used() -> None:
    if "usage_metadata" not in genai.types.EmbedContentResponse.model_fields:
        pytest.skip("this version of the SDK does not read it")
    reply = json_reply({"embeddings": [], "usageMetadata": {"promptTokenCount": 9}})
    with Loopback([reply]) as server, capture() as seen:
        run("sync", server, lambda client: client.models.embed_content(model="m", contents="a"))

    assert only_record(seen).tokens.input == 9


def look_up(city: str) -> str:
    """Return the weather in a city."""
    return f"sun in {city}"


_FUNCTION_CALL = {
    "candidates": [
        {
            "content": {
                "parts": [{"functionCall": {"name": "look_up", "args": {"city": "here"}}}],
                "role": "model",
            },
            "finishReason": "STOP",
        }
    ]
}


@every_way
@pytest.mark.parametrize(
    ("ask", "replies"),
    [
        (asking(tools=[look_up]), [json_reply(_FUNCTION_CALL), COMPLETE]),
        (asking_stream(tools=[look_up]), [stream_reply(event(_FUNCTION_CALL)), STREAMED]),
    ],
    ids=["whole", "stream"],
)
def test_each_request_of_automatic_function_calls_is_one_call(
    way: str, ask: Callable[[Any], Any], replies: list[Reply]
) -> None:
    """The function of the application runs between two calls, and belongs to neither."""
    with Loopback(replies) as server, capture() as seen:
        run(way, server, ask)

    assert len(server.visits) == 2
    assert [record.outcome for record in seen.records] == [Outcome.COMPLETED] * 2
    assert [call["latspan.attempt.count"] for call in calls(seen)] == [1, 1]
    assert [call.get("gen_ai.usage.output_tokens") for call in calls(seen)] == [None, 5]


def test_retries_are_attempts_of_one_call() -> None:
    """The SDK retries if its options say so."""
    replies = [json_reply({"error": {}}, status=503), COMPLETE]
    options = {"attempts": 2, "initial_delay": 0.001, "max_delay": 0.001, "jitter": 0}
    with Loopback(replies) as server, capture() as seen:
        run("sync", server, asking(), retry_options=options)

    record = only_record(seen)
    assert record.outcome is Outcome.COMPLETED
    assert calls(seen)[0]["latspan.attempt.count"] == 2
    assert "retry" in {segment.name for segment in record.segments}


@every_way
@pytest.mark.parametrize(
    ("status", "outcome"), [(429, Outcome.REJECTED), (404, Outcome.ERROR), (500, Outcome.ERROR)]
)
def test_an_exception_of_the_sdk_has_the_status_of_the_response(
    way: str, status: int, outcome: Outcome
) -> None:
    """With and without the integration of the transport."""
    reply = json_reply({"error": {"message": "refused"}}, status=status)
    for ask in (asking(), asking_stream()):
        raises = pytest.raises(genai.errors.APIError)
        with Loopback([reply]) as server, capture() as seen, raises:
            run(way, server, ask)
        record = only_record(seen)
        assert (record.outcome, calls(seen)[0]["error.type"]) == (outcome, str(status))


@every_way
@pytest.mark.parametrize(("code", "outcome"), [(429, Outcome.REJECTED), (500, Outcome.ERROR)])
def test_an_error_inside_a_stream_ends_the_call(way: str, code: int, outcome: Outcome) -> None:
    """The status of the response is 200; that of the error is in its event."""
    failure = {"error": {"code": code, "message": "m", "status": "INTERNAL"}}
    reply = stream_reply(event(response("a")), event(failure))
    with Loopback([reply]) as server, capture() as seen, pytest.raises(genai.errors.APIError):
        run(way, server, asking_stream())

    record = only_record(seen)
    assert (record.outcome, calls(seen)[0]["error.type"]) == (outcome, str(code))


@every_way
def test_a_timeout_of_the_sdk_is_one(way: str) -> None:
    """The timeout is an exception of the HTTP client, which the SDK passes on."""
    raises = pytest.raises(Exception, match=r"(?i)time|^$")
    with Loopback([Reply((), after_s=60)]) as server, capture() as seen, raises as caught:
        run(way, server, asking(http_options={"timeout": 20}))

    assert "Timeout" in type(caught.value).__name__
    assert only_record(seen).outcome is Outcome.TIMEOUT


def test_a_blocked_prompt_is_a_finish_reason() -> None:
    body = {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 4}}
    with Loopback([json_reply(body)]) as server, capture() as seen:
        run("sync", server, asking())

    (call,) = calls(seen)
    assert call["gen_ai.response.finish_reasons"] == ("SAFETY",)
    assert call["gen_ai.usage.input_tokens"] == 4


def test_a_raw_response_has_its_tokens() -> None:
    """The SDK does not parse it, if its caller wants the HTTP response."""
    with Loopback([COMPLETE]) as server, capture() as seen:
        result = run("sync", server, asking(should_return_http_response=True))

    assert result.candidates is None
    (call,) = calls(seen)
    assert call["gen_ai.usage.output_tokens"] == 5
    assert call["gen_ai.response.finish_reasons"] == ("STOP",)


@pytest.mark.parametrize(
    "arguments", [{"model": MODEL}, {"model": MODEL, "contents": "hello", "of": 1}]
)
@pytest.mark.parametrize("method", ["_generate_content", "_generate_content_stream"])
def test_wrong_arguments_raise_where_they_did(method: str, arguments: dict[str, Any]) -> None:
    """At the call, and not at the first read."""
    client = make_client("http://127.0.0.1:1")
    with capture():
        for models in (client.models, client.aio.models):
            with pytest.raises(TypeError):
                getattr(models, method)(**arguments)
    client.close()
    asyncio.run(client.aio.aclose())


@pytest.mark.parametrize(
    ("contents", "said"),
    [
        ("hello", "hello"),
        (["hello"], "hello"),
        ([{"role": "user", "parts": [{"text": "hello"}]}], "hello"),
        ("object", "hello"),
    ],
    ids=["text", "list", "dict", "object"],
)
def test_content_is_captured_if_configured(contents: Any, said: str) -> None:
    """Prompt, instructions and response; a tool that is a function has no definition to copy."""
    if contents == "object":
        contents = [genai.types.UserContent(parts=[genai.types.Part(text="hello")])]
    with Loopback([STREAMED]) as server, capture() as seen, asked_for(captures_content=True):
        run(
            "sync",
            server,
            lambda client: client.models.generate_content_stream(
                model=MODEL,
                contents=contents,
                config={"system_instruction": "be brief", "tools": [look_up]},
            ),
        )

    (call,) = calls(seen)
    assert said in call["gen_ai.input.messages"]
    assert "be brief" in call["gen_ai.system_instructions"]
    assert "Hello world!" in call["gen_ai.output.messages"]
    assert "Let me think" in call["gen_ai.output.messages"]


AWAITED = """
import sys
import latspan
print("latspan_google.genai" in latspan.auto_instrument(), "google.genai" in sys.modules)
from google.genai import models
print(hasattr(models.Models._generate_content, "__wrapped__"))
latspan.uninstrument("latspan_google.genai")
print(hasattr(models.Models._generate_content, "__wrapped__"))
"""


def test_the_sdk_is_instrumented_when_it_is_imported() -> None:
    """Its package is inside a namespace package, whose import is not enough."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", AWAITED], capture_output=True, text=True, check=True
    )

    assert done.stdout.split() == ["True", "False", "True", "False"], done.stderr


@pytest.mark.skipif(HTTPX != "httpx2", reason="this version of the SDK has one HTTP client")
@pytest.mark.parametrize("library", ["httpx", "httpx2"])
def test_a_request_is_one_call_over_either_http_client(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    http_library(library)
    monkeypatch.setenv("GOOGLE_GENAI_HTTP_CLIENT", library)
    with Loopback([STREAMED]) as server, capture() as seen:
        client = genai.Client(api_key="none", http_options={"base_url": server.url})
        assert type(client._api_client._httpx_client).__mro__[1].__module__ == library
        list(asking_stream()(client))
        client.close()

    segments = {segment.name for segment in only_record(seen).segments}
    assert segments >= {"connect", "send", "server_wait"}


@pytest.mark.parametrize(
    ("ask", "reply"), [(asking(), COMPLETE), (asking_stream(), STREAMED)], ids=["whole", "stream"]
)
def test_a_request_is_one_call_over_requests(
    ask: Callable[[Any], Any], reply: Reply, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client of Vertex AI with a certificate of its own sends through google-auth's session."""
    from google.auth.credentials import AnonymousCredentials
    from google.auth.transport.requests import AuthorizedSession

    session: Any = AuthorizedSession(AnonymousCredentials())
    with Loopback([reply]) as server, capture() as seen:
        client = make_client(server.url, vertex=True)
        monkeypatch.setattr(client._api_client, "_use_google_auth_sync", lambda: True)
        monkeypatch.setattr(client._api_client, "_authorized_session", session)
        _listed(ask(client))
        client.close()

    record = only_record(seen)
    assert (record.outcome, record.tokens.output) == (Outcome.COMPLETED, 5)
    assert {segment.name for segment in record.segments} >= {"send", "server_wait"}
    (visit,) = server.visits
    assert "traceparent" in {name.lower() for name in visit.request.headers}
