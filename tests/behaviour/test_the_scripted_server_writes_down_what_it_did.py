"""The scripted server's records agree with the observations of a real client."""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from latspan.errors import ConfigError, ServerStartError
from latspan.testing import Ending, PayloadPart, Script, ScriptedServer

openai = pytest.importorskip("openai", reason="the openai client is not installed")

MS = 1_000_000
HELLO: Any = [{"role": "user", "content": "hello"}]


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    """A server with 20 ms of queue and 30 ms of prefill per response."""
    with ScriptedServer(Script.chat(tokens=5, queue_ms=20, prefill_ms=30, gap_ms=10)) as running:
        yield running


@pytest.fixture
def client(server: ScriptedServer) -> Iterator[Any]:
    """The real client without retries."""
    with openai.OpenAI(base_url=server.base_url, api_key="none", max_retries=0) as connected:
        yield connected


def _stream(client: Any, **ask: Any) -> list[Any]:
    return list(client.chat.completions.create(model="m", messages=HELLO, stream=True, **ask))


def test_nothing_is_written_before_it_is_due(server: ScriptedServer, client: Any) -> None:
    """Deadlines are relative to the acceptance of the request."""
    _stream(client)

    (served,) = server.served_requests()
    due_ns = [50 * MS + at * 10 * MS for at in range(5)]
    assert served.slot_ns is not None
    assert served.headers_ns is not None
    assert served.end_ns is not None
    assert served.slot_ns - served.accepted_ns >= 20 * MS
    assert served.headers_ns >= served.slot_ns
    assert all(
        instant_ns - served.accepted_ns >= due
        for instant_ns, due in zip(served.token_ns, due_ns, strict=True)
    )
    assert served.end_ns >= served.token_ns[-1]


def test_a_client_receives_each_chunk_after_it_was_written(
    server: ScriptedServer, client: Any
) -> None:
    """Two processes on one machine share the clock."""
    before_ns = time.perf_counter_ns()
    seen = [
        time.perf_counter_ns()
        for chunk in client.chat.completions.create(model="m", messages=HELLO, stream=True)
        if chunk.choices[0].delta.content
    ]

    (served,) = server.served_requests()
    assert before_ns < served.accepted_ns
    assert all(written < read for written, read in zip(served.token_ns, seen, strict=True))


def test_a_real_client_reads_every_kind_of_chunk(server: ScriptedServer, client: Any) -> None:
    """Reasoning, text, a tool call, usage and timings are parsed into the client's types."""
    server.use(
        Script.chat(tokens=2, reasoning_tokens=1, tool_call_tokens=1, prefill_ms=1, gap_ms=0)
    )
    chunks = _stream(client, stream_options={"include_usage": True})

    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    assert deltas[0].role == "assistant"
    assert [d.model_extra["reasoning_content"] for d in deltas if d.model_extra] == ["reasoning0 "]
    assert [d.content for d in deltas if d.content] == ["text0 ", "text1 "]
    (call,) = [d.tool_calls[0] for d in deltas if d.tool_calls]
    assert (call.function.name, call.function.arguments) == ("look_up", '{"words": "tool_call0 "}')
    assert chunks[-2].choices[0].finish_reason == "tool_calls"
    assert chunks[-1].usage.completion_tokens == 4
    (served,) = server.served_requests()
    timings = chunks[-1].model_extra["timings"]
    assert timings["prompt_ms"] == (served.token_ns[0] - (served.slot_ns or 0)) / MS
    assert timings["predicted_ms"] == (served.token_ns[-1] - served.token_ns[0]) / MS


def test_an_unstreamed_response_takes_as_long_as_a_stream(
    server: ScriptedServer, client: Any
) -> None:
    """It has one body, with usage."""
    completion = client.chat.completions.create(model="m", messages=HELLO)

    (served,) = server.served_requests()
    assert completion.choices[0].message.content == "text0 text1 text2 text3 text4 "
    assert completion.usage.completion_tokens == 5
    assert [write.piece for write in served.writes] == [PayloadPart.HEADERS, PayloadPart.BODY]
    assert served.writes[0].instant_ns - served.accepted_ns >= 90 * MS


def test_the_request_is_recorded_unchanged(server: ScriptedServer, client: Any) -> None:
    """Its headers, for example ``traceparent``, and its body can be read."""
    _stream(client, extra_headers={"traceparent": "00-ab-cd-01"})

    (served,) = server.served_requests()
    assert served.request_headers["traceparent"] == "00-ab-cd-01"
    assert served.request_json["messages"] == HELLO
    assert served.raw.startswith(b"POST /v1/chat/completions HTTP/1.1\r\n")


def test_a_request_can_select_its_script(server: ScriptedServer, client: Any) -> None:
    """A header contains the name of one of the server's scripts."""
    server.use(named={"short": Script.chat(tokens=1, prefill_ms=0)})

    assert len(_stream(client, extra_headers={"x-latspan-script": "short"})) == 3
    with pytest.raises(openai.BadRequestError, match="no script named 'long'"):
        _stream(client, extra_headers={"x-latspan-script": "long"})


def test_a_refusal_is_followed_by_a_response(server: ScriptedServer) -> None:
    """Scripts are served in order, so the client's retry gets the second one."""
    server.use([Script.refused(429, retry_after_s=0.01), Script.chat(tokens=1, prefill_ms=1)])
    with openai.OpenAI(base_url=server.base_url, api_key="none", max_retries=1) as client:
        _stream(client)

    refused, answered = server.served_requests()
    assert (refused.status, answered.status) == (429, 200)
    assert answered.request_headers["x-stainless-retry-count"] == "1"
    assert answered.accepted_ns - refused.accepted_ns >= 10 * MS


def test_an_error_inside_a_stream_raises_the_clients_error(
    server: ScriptedServer, client: Any
) -> None:
    """Although the status was 200."""
    server.use(Script.chat(tokens=1, prefill_ms=1, ending=Ending.ERROR))

    with pytest.raises(openai.APIError, match="scripted error"):
        _stream(client)
    assert [served.status for served in server.served_requests()] == [200]


@pytest.mark.parametrize("ending", [Ending.RESET, Ending.CUT])
def test_a_broken_connection_raises_the_clients_error(
    server: ScriptedServer, client: Any, ending: Ending
) -> None:
    """All tokens were written before the connection was broken."""
    server.use(Script.chat(tokens=2, prefill_ms=1, ending=ending))

    with pytest.raises(Exception, match=r"(?i)connection|peer|reset"):
        _stream(client)
    (served,) = server.served_requests()
    assert len(served.token_ns) == 2
    assert served.end_ns is not None


@pytest.mark.parametrize("ending", [Ending.TRUNCATED, Ending.UNMARKED])
def test_a_body_may_end_without_its_end_mark(
    server: ScriptedServer, client: Any, ending: Ending
) -> None:
    """The client raises no error for such a body."""
    server.use(Script.chat(tokens=2, prefill_ms=1, ending=ending))
    _stream(client)

    (served,) = server.served_requests()
    assert PayloadPart.DONE not in [piece for _, piece in served.chunk_ns]


def test_a_connection_is_reused(server: ScriptedServer, client: Any) -> None:
    """Responses with a content length leave the connection open."""
    for _ in range(2):
        client.chat.completions.create(model="m", messages=HELLO)

    assert [served.connection for served in server.served_requests()] == [0, 0]


@pytest.mark.parametrize("stream", [True, False])
def test_a_connection_is_closed_at_the_clients_request(
    server: ScriptedServer, client: Any, stream: bool
) -> None:
    """The response has the header too, and the next request uses another connection."""
    for _ in range(2):
        answer = client.chat.completions.with_raw_response.create(
            model="m", messages=HELLO, stream=stream, extra_headers={"connection": "close"}
        )
        assert answer.headers["connection"] == "close"
        list(answer.parse())

    assert [served.connection for served in server.served_requests()] == [0, 1]


def test_served_requests_can_be_read_from_an_index_on(server: ScriptedServer, client: Any) -> None:
    """Requests keep their index."""
    for _ in range(3):
        client.chat.completions.create(model="m", messages=HELLO)

    assert [served.index for served in server.served_requests(requests=3, since=1)] == [1, 2]


def test_bad_requests_get_an_error_status(server: ScriptedServer) -> None:
    """Unknown paths get 404; health checks get 200 and are not recorded."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"{server.url}/health", timeout=5) as response:
        assert response.status == 200
    with pytest.raises(urllib.error.HTTPError) as caught:
        opener.open(f"{server.url}/nothing", timeout=5)
    caught.value.close()

    assert caught.value.code == 404
    assert [served.status for served in server.served_requests()] == [404]


def test_impossible_settings_are_refused() -> None:
    """Before a process is started."""
    with pytest.raises(ConfigError, match="at least 1 slot"):
        ScriptedServer(slots=0)
    with pytest.raises(ConfigError, match="at least one script"):
        ScriptedServer([])
    no_script: Any = "chat"
    with pytest.raises(ConfigError, match=r"(?s)a script is a Script.*use Script\.chat\(\)"):
        ScriptedServer(no_script)
    with pytest.raises(ConfigError, match="unreachable=True cannot be served"):
        ScriptedServer(Script.unreachable_server())
    with pytest.raises(ServerStartError, match="context manager"):
        ScriptedServer().served_requests()
