"""A stream of Google, Cohere, Ollama or Bedrock is a call, whatever HTTP client reads it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan

from latspan import Kind, Source
from latspan._base.nanoseconds import NS_PER_MS
from latspan.integrations import Outcome
from latspan.testing import (
    Captured,
    Ending,
    ManualClock,
    RequestRecord,
    Script,
    ScriptedServer,
    ServedRequest,
    capture,
)
from support.answers import play
from support.apis import Api, api_named, with_every_api
from tests.clients.conftest import asked_for
from tests.clients.truth.site import SharedClock
from tests.support.road import Conditions, road_to

pytestmark = pytest.mark.any_client

SCRIPT = Script.chat(
    tokens=3,
    reasoning_tokens=2,
    tool_call_tokens=1,
    prefill_ms=8,
    gap_ms=3,
    queue_ms=4,
    cached_tokens=3,
)

Ask = Callable[[str, Api], None]


def _body(api: Api) -> bytes:
    return json.dumps(api.body).encode()


def _httpx(url: str, api: Api) -> None:
    with (
        import_module("httpx").Client() as client,
        client.stream("POST", url + api.path, content=_body(api)) as response,
    ):
        for _ in response.iter_bytes():
            pass


def _requests(url: str, api: Api) -> None:
    import requests

    with requests.post(url + api.path, data=_body(api), stream=True, timeout=30) as response:
        for _ in response.iter_content(chunk_size=None):
            pass


def _aiohttp(url: str, api: Api) -> None:
    aiohttp: Any = import_module("aiohttp")
    yarl: Any = import_module("yarl")

    async def ask() -> None:
        async with (
            aiohttp.ClientSession() as session,
            # aiohttp would decode a part of the path, which names the model.
            session.post(yarl.URL(url + api.path, encoded=True), data=_body(api)) as response,
        ):
            async for _ in response.content.iter_any():
                pass

    asyncio.run(ask())


with_every_client = pytest.mark.parametrize("ask", [_httpx, _aiohttp, _requests])


@pytest.fixture(scope="module")
def server() -> Iterator[ScriptedServer]:
    """One server for all tests."""
    with ScriptedServer() as running:
        yield running


@pytest.fixture
def here() -> Iterator[Captured]:
    """What latspan records, on the clock of the server."""
    with capture(clock=SharedClock()) as captured:
        yield captured


def _only(here: Captured) -> tuple[RequestRecord, ReadableSpan, dict[str, Any]]:
    (record,) = here.records
    (span,) = (span for span in here.spans if span.parent is None)
    return record, span, dict(span.attributes or {})


def _last(server: ScriptedServer) -> ServedRequest:
    return server.served_requests()[-1]


@with_every_api
@with_every_client
def test_a_stream_is_one_call(api: Api, ask: Ask, server: ScriptedServer, here: Captured) -> None:
    """With the model, the counts, the finish reason, and the first token in time."""
    server.use(SCRIPT)
    ask(server.url, api)

    record, span, attributes = _only(here)
    served = _last(server)
    assert (record.kind, record.outcome) == (Kind.CALL, Outcome.COMPLETED)
    assert span.name == record.name == f"{api.operation} {api.model}"
    assert attributes["gen_ai.operation.name"] == api.operation
    assert attributes["gen_ai.provider.name"] == api.provider
    assert attributes["gen_ai.request.model"] == api.model
    assert attributes["gen_ai.request.stream"] is True
    assert attributes["gen_ai.response.finish_reasons"] == (api.reasons[2],)
    assert (record.tokens.input, record.tokens.output) == (12, 6)
    assert record.tokens.cached == (3 if api.cached else None)
    assert record.tokens.reasoning == (2 if api.counts_reasoning else None)
    assert sum(segment.duration_ns for segment in record.segments) == record.duration_ns
    first, visible = (
        record.start_epoch_ns + record.metrics[name].value
        for name in ("time_to_first_token", "time_to_first_visible_token")
    )
    assert served.token_ns[0] <= first <= visible
    assert served.token_ns[2] <= visible


@with_every_api
@with_every_client
def test_every_byte_may_be_a_read_of_its_own(
    api: Api, ask: Ask, server: ScriptedServer, here: Captured
) -> None:
    """A network may cut a stream anywhere."""
    server.use(Script.chat(tokens=2, prefill_ms=1, gap_ms=1, flavor="plain"))
    with road_to(server.url, Conditions(piece_bytes=7)) as road:
        ask(road.url, api)

    record, _, _ = _only(here)
    assert (record.kind, record.outcome) == (Kind.CALL, Outcome.COMPLETED)
    assert (record.tokens.input, record.tokens.output) == (12, 2)
    assert "time_to_first_token" in record.metrics


ENDINGS = {
    Ending.TRUNCATED: Outcome.TRUNCATED,
    Ending.CUT: Outcome.ERROR,
    Ending.ERROR: Outcome.ERROR,
}


@with_every_api
@pytest.mark.parametrize(("ending", "outcome"), ENDINGS.items(), ids=list(ENDINGS))
def test_a_stream_may_end_before_its_finish_reason(
    api: Api, ending: Ending, outcome: Outcome, server: ScriptedServer, here: Captured
) -> None:
    """It is truncated, or an error; its output was not counted."""
    server.use(Script.chat(tokens=2, prefill_ms=1, gap_ms=1, ending=ending))
    try:
        _httpx(server.url, api)
    except import_module("httpx").HTTPError:
        assert ending is Ending.CUT

    record, _, attributes = _only(here)
    assert (record.kind, record.outcome) == (Kind.CALL, outcome)
    assert record.tokens.output is None
    assert "time_to_first_token" in record.metrics
    assert attributes.get("gen_ai.response.finish_reasons", ("error",)) in {
        ("error",),
        ("ERROR",),
    }
    assert attributes["error.type"]


@with_every_api
def test_a_finish_reason_may_be_a_limit(api: Api, server: ScriptedServer, here: Captured) -> None:
    """That is a complete response."""
    server.use(Script(steps=Script.chat(tokens=1, prefill_ms=0).steps, finish_reason="length"))
    _httpx(server.url, api)

    record, _, attributes = _only(here)
    assert record.outcome is Outcome.COMPLETED
    assert attributes["gen_ai.response.finish_reasons"] == (api.reasons[1],)


def _pieces(script: Script, api: Api) -> list[bytes]:
    """Return the body of a stream, one item per write of the server."""
    played = play(script, path=api.path.partition("?")[0], **api.body)
    chunks = [frame for frame in played.frames if not frame.startswith(b"HTTP/1.1")]
    return [
        chunk.partition(b"\r\n")[2].removesuffix(b"\r\n")
        for chunk in chunks
        if chunk not in {b"", b"0\r\n\r\n"}
    ]


def _read(
    api: Api, clock: ManualClock, pieces: list[bytes], reads: int, *, url: str | None = None
) -> None:
    """Read as many pieces as given, of which each arrives 10 ms after the last, and leave."""
    httpx: Any = import_module("httpx")
    (media_type,) = (
        line.partition(b": ")[2].decode()
        for line in play(SCRIPT, path=api.path.partition("?")[0], **api.body).written.split(b"\r\n")
        if line.startswith(b"content-type")
    )

    def arriving() -> Iterator[bytes]:
        for piece in pieces:
            clock.advance(10 * NS_PER_MS)
            yield piece

    def respond(_request: Any) -> Any:
        return httpx.Response(200, headers={"content-type": media_type}, content=arriving())

    with (
        httpx.Client(transport=httpx.MockTransport(respond)) as client,
        client.stream(
            "POST", url or f"https://model.test{api.path}", content=_body(api)
        ) as response,
    ):
        body = response.iter_raw()
        for _ in range(reads):
            next(body)


@pytest.fixture
def clock() -> ManualClock:
    """A clock that only the tested stream moves."""
    return ManualClock()


@pytest.fixture
def on_clock(clock: ManualClock) -> Iterator[Captured]:
    """What latspan records on that clock."""
    with capture(clock=clock) as captured:
        yield captured


@with_every_api
def test_segments_are_exact(api: Api, clock: ManualClock, on_clock: Captured) -> None:
    """The pieces arrive 10 ms apart: two with reasoning, three with text, one with a call."""
    pieces = _pieces(SCRIPT, api)
    _read(api, clock, pieces, len(pieces))

    (record,) = on_clock.records
    durations = {each.name: each.duration_ns // NS_PER_MS for each in record.segments}
    assert (durations["reasoning"], durations["decode"]) == (20, 30)
    for name, value in (
        ("time_to_first_token", 10),
        ("time_to_first_visible_token", 30),
        ("time_per_output_token", 10),
    ):
        assert record.metrics[name].value == value * NS_PER_MS
    assert [gap.value for gap in record.chunk_gaps] == [10 * NS_PER_MS] * 5


@with_every_api
def test_a_caller_that_stops_at_the_end_has_the_whole_response(
    api: Api, clock: ManualClock, on_clock: Captured
) -> None:
    """Even if it does not read the end of the body; before that, it closed the stream early."""
    pieces = _pieces(Script.chat(tokens=2, prefill_ms=1, gap_ms=1, ending=Ending.UNMARKED), api)
    outcomes = list[tuple[Outcome, int | None]]()
    for reads in range(1, len(pieces) + 1):
        _read(api, clock, pieces, reads)
        record = on_clock.records[-1]
        assert record.kind is Kind.CALL
        assert record.metrics["time_to_first_token"].value == 10 * NS_PER_MS
        assert record.duration_ns == reads * 10 * NS_PER_MS
        outcomes.append((record.outcome, record.tokens.output))
    early, whole = (Outcome.CLOSED_EARLY, None), (Outcome.COMPLETED, 2)
    assert outcomes == [early] * (len(pieces) - 1) + [whole]


@with_every_api
def test_content_is_captured(api: Api, server: ScriptedServer, here: Captured) -> None:
    """If that is configured: the question, the reasoning, the answer and the call of a tool."""
    server.use(SCRIPT)
    with asked_for(captures_content=True):
        _httpx(server.url, api)

    _, _, attributes = _only(here)
    (question,) = json.loads(attributes["gen_ai.input.messages"])
    (answer,) = json.loads(attributes["gen_ai.output.messages"])
    assert question == {
        "role": "user",
        "parts": [{"type": "text", "content": "Where is it?"}],
    }
    parts = {part["type"]: part for part in answer["parts"]}
    assert parts["reasoning"]["content"] == "reasoning0 reasoning1 "
    if api.name == "ollama-generate":
        assert parts["text"]["content"].startswith("text0 text1 text2 ")
    else:
        assert parts["text"]["content"] == "text0 text1 text2 "
        assert parts["tool_call"]["name"] == "look_up"
        assert parts["tool_call"]["arguments"] == {"words": "tool_call0 "}


@with_every_api
def test_content_is_not_captured_by_default(
    api: Api, server: ScriptedServer, here: Captured
) -> None:
    """Nothing of the prompt or the response is on the span."""
    server.use(SCRIPT)
    _httpx(server.url, api)
    _, span, _ = _only(here)
    assert "Where is it" not in span.to_json()
    assert "text0" not in span.to_json()


@with_every_api
def test_a_response_that_is_not_streamed_is_an_exchange(
    api: Api, server: ScriptedServer, here: Captured
) -> None:
    """As for every other API."""
    server.use(Script.chat(tokens=1, prefill_ms=1))
    path = (
        api.path.replace("streamGenerate", "generate")
        .replace("converse-stream", "converse")
        .replace("invoke-with-response-stream", "invoke")
    )
    response = import_module("httpx").post(server.url + path, json={**api.body, "stream": False})

    record, _, _ = _only(here)
    assert response.headers["content-type"] == "application/json"
    assert (response.status_code, record.kind) == (200, Kind.HTTP)


def test_ollamas_durations_split_the_wait(server: ScriptedServer, here: Captured) -> None:
    """The model's load and the prefill are what the server wrote down."""
    server.use(SCRIPT)
    _httpx(server.url, api_named("ollama"))

    record, _, attributes = _only(here)
    served = _last(server)
    assert served.slot_ns is not None
    assert (
        attributes["latspan.reported.ollama.load_duration"] == served.slot_ns - served.accepted_ns
    )
    prefill_ns = served.token_ns[0] - served.slot_ns
    assert attributes["latspan.reported.ollama.prompt_eval_duration"] == prefill_ns
    sources = {each.name: each.source for each in record.segments}
    assert sources["model_load"] is sources["prefill"] is Source.SERVER_REPORTED


@pytest.mark.parametrize(
    ("name", "field"),
    [("bedrock-converse", "latencyMs"), ("bedrock-invoke", "invocationLatency")],
)
def test_bedrocks_latency_is_recorded(
    name: str, field: str, server: ScriptedServer, here: Captured
) -> None:
    """It is the time from the request to the event that has it."""
    server.use(SCRIPT)
    _httpx(server.url, api_named(name))

    _, _, attributes = _only(here)
    served = _last(server)
    (finish_ns,) = (write.instant_ns for write in served.writes if write.piece == "finish")
    expected_ms = (finish_ns - served.accepted_ns) // NS_PER_MS
    assert attributes[f"latspan.reported.bedrock.{field}"] == expected_ms


@with_every_api
def test_an_error_is_the_end_even_if_the_caller_leaves(
    api: Api, clock: ManualClock, on_clock: Captured
) -> None:
    """A client raises its exception there, and does not read the end of the body."""
    pieces = _pieces(Script.chat(tokens=1, prefill_ms=1, gap_ms=1, ending=Ending.ERROR), api)
    _read(api, clock, pieces, len(pieces))
    (record,) = on_clock.records
    assert (record.kind, record.outcome) == (Kind.CALL, Outcome.ERROR)


VERTEX = "europe-west1-aiplatform.googleapis.com"


@pytest.mark.parametrize(
    ("host", "name", "path", "provider", "model"),
    [
        (
            VERTEX,
            "gemini",
            "/v1/projects/p/locations/l/publishers/google/models/g:streamGenerateContent",
            "gcp.vertex_ai",
            "g",
        ),
        (
            "aiplatform.googleapis.com",
            "gemini",
            "/v1/projects/p/locations/global/endpoints/7:streamGenerateContent",
            "gcp.vertex_ai",
            "7",
        ),
        (
            "generativelanguage.googleapis.com",
            "gemini",
            "/v1beta/models/g:streamGenerateContent",
            "gcp.gemini",
            "g",
        ),
        (
            "bedrock-runtime.eu-west-1.amazonaws.com",
            "bedrock-converse",
            "/model/arn%3Aaws%3Abedrock%3Aeu%3A1%3Ainference-profile%2Fa/converse-stream",
            "aws.bedrock",
            "arn:aws:bedrock:eu:1:inference-profile/a",
        ),
        ("gateway.test", "bedrock-invoke", "/b/model/x/invoke-with-response-stream", None, "x"),
        ("gateway.test", "gemini", "/chat", "gcp.gemini", None),
    ],
)
def test_host_and_path_name_the_provider_and_the_model(
    clock: ManualClock,
    on_clock: Captured,
    host: str,
    name: str,
    path: str,
    provider: str | None,
    model: str | None,
) -> None:
    """The body of these requests does not name the model."""
    api = api_named(name)
    pieces = _pieces(SCRIPT, api)
    _read(api, clock, pieces, len(pieces), url=f"https://{host}{path}")

    (record,) = on_clock.records
    assert record.name == (api.operation if model is None else f"{api.operation} {model}")
    (span,) = (span for span in on_clock.spans if span.parent is None)
    attributes = span.attributes or {}
    assert attributes["gen_ai.provider.name"] == (provider or api.provider)
    assert attributes.get("gen_ai.request.model") == model


def test_a_download_of_ollama_is_not_a_call(clock: ManualClock, on_clock: Captured) -> None:
    """Its progress is reported in lines too."""
    lines = [b'{"status":"pulling manifest"}\n', b'{"status":"success"}\n']
    _read(api_named("ollama"), clock, lines, 2)
    assert [record.kind for record in on_clock.records] == [Kind.HTTP]


@with_every_api
def test_damage_never_reaches_the_caller(api: Api, clock: ManualClock, on_clock: Captured) -> None:
    """Whatever follows the first piece, the caller reads all of it, and the call ends."""
    first, *_ = _pieces(SCRIPT, api)
    damage = [b"\xff" * 40, b"\x00" * 40, b"}\n\n{" * 9, b"data: \xc3\n\n", first[::-1]]
    _read(api, clock, [first, *damage], 1 + len(damage))
    (record,) = on_clock.records
    assert (record.kind, record.outcome) == (Kind.CALL, Outcome.CLOSED_EARLY)
