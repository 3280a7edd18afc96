"""What httpx gives stays what it was: copied, sent twice, made in memory, patched by others."""

from __future__ import annotations

import asyncio
import copy
import gc
import pickle
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest
from opentelemetry import context, trace
from opentelemetry.trace import SpanContext, TraceFlags, TraceState

import latspan
from latspan import Kind
from latspan.integrations import Instrumentor, Outcome, Patches
from latspan.testing import Captured, Script, ScriptedServer, capture
from tests.clients.conftest import LIBRARY, MESSAGES, Driver, http, openai
from tests.clients.contract.conftest import switched_off

URL = "https://model.test/v1/chat/completions"


def _in_memory(**answer: Any) -> Any:
    def answered(request: Any) -> Any:
        return http.Response(200, **answer, request=request)

    return http.Client(transport=http.MockTransport(answered))


def test_a_response_is_copied_and_pickled_as_ever(seen: Captured) -> None:
    """Who follows it does not travel with it."""
    with _in_memory(json={"a": 1}) as client:
        response = client.get(URL)
    assert pickle.loads(pickle.dumps(response)).json() == {"a": 1}  # noqa: S301 - our own
    assert copy.deepcopy(response).json() == {"a": 1}


def test_an_answer_made_in_memory_has_ended_when_it_is_handed_over(seen: Captured) -> None:
    """Nobody will read it from a network, however long it is held."""
    with _in_memory(json={"a": 1}) as client:
        response = client.get(URL)
        (record,) = seen.records
    assert (record.kind, record.outcome) == (Kind.HTTP, Outcome.COMPLETED)
    assert response.json() == {"a": 1}


def test_one_request_on_its_way_twice_is_two_exchanges(driver: Driver, seen: Captured) -> None:
    """Each with an identity of its own, and the caller's request as it was."""
    transport = driver.transport(Script.refused(404, after_ms=20))

    async def program(client: Any) -> None:
        sender = client._client
        request = sender.build_request("GET", "https://tool.test/a%3Fb?c=secret")
        before = dict(request.headers), dict(request.extensions)
        if driver.asynchronous:
            await asyncio.gather(sender.send(request), sender.send(request))
        else:
            sender.send(request)
            sender.send(request)
        assert (dict(request.headers), dict(request.extensions)) == before

    driver.run(transport, program)
    assert (
        len({served.request_headers["traceparent"] for served in transport.served_requests()}) == 2
    )
    urls = [(span.attributes or {}).get("url.full") for span in seen.spans if span.name == "GET"]
    assert urls == ["https://tool.test:443/a%3Fb"] * 2


def test_what_is_sent_has_one_trace_context(seen: Captured) -> None:
    """Ours, in place of a state that belongs to no parent; the caller's, where it sends its own."""
    sent: list[list[tuple[str, str]]] = []

    def answered(request: Any) -> Any:
        sent.append([each for each in request.headers.multi_items() if each[0].startswith("trace")])
        return http.Response(200, request=request)

    parent = SpanContext(1, 2, True, TraceFlags(1), TraceState([("vendor", "ours")]))
    token = context.attach(trace.set_span_in_context(trace.NonRecordingSpan(parent)))
    theirs = [("traceparent", f"00-{3:032x}-{4:016x}-01"), ("tracestate", "vendor=theirs")]
    with http.Client(transport=http.MockTransport(answered)) as client:
        client.get(URL, headers=theirs[1:])
        client.get(URL, headers=theirs)
    context.detach(token)

    identity = seen.records[0].span_id
    ours = [("traceparent", f"00-{1:032x}-{identity:016x}-01"), ("tracestate", "vendor=ours")]
    assert sorted(sent[0]) == ours
    assert sent[1] == theirs


def _heard_of_a_stream(driver: Driver, server: ScriptedServer) -> list[str]:
    """Return the steps that were begun; how each ended depends on what came in one packet."""
    heard: list[str] = []

    def listen(name: str, _info: object) -> None:
        step, _, what = name.rpartition(".")
        if what == "started":
            heard.append(step)

    async def alisten(name: str, info: object) -> None:
        listen(name, info)

    def ask(request: Any) -> None:
        request.extensions["trace"] = listen

    async def aask(request: Any) -> None:
        request.extensions["trace"] = alisten

    async def program() -> None:
        kind, hook = ("Async", aask) if driver.asynchronous else ("", ask)
        sender = getattr(http, f"{kind}Client")(event_hooks={"request": [hook]}, trust_env=False)
        client = getattr(openai, f"{kind}OpenAI")(
            base_url=f"{server.url}/v1", api_key="none", http_client=sender
        )
        await driver.read(await driver.create(client, stream=True))
        await driver.close(client)

    asyncio.run(program())
    return heard


def test_events_of_a_streams_body_reach_an_applications_trace(driver: Driver) -> None:
    """Of which latspan wants to hear nothing: it has stamped the reads."""
    with ScriptedServer(Script.chat(tokens=3)) as server:
        before = _heard_of_a_stream(driver, server)
        with capture() as seen:
            meanwhile = _heard_of_a_stream(driver, server)
    assert meanwhile == before
    assert before[-2:] == ["http11.receive_response_body", "http11.response_closed"]
    (record,) = seen.records
    assert record.outcome is Outcome.COMPLETED
    assert "connect" in {total.name for total in record.segment_totals}


@pytest.mark.parametrize("padding", [0, 1 << 17], ids=["short", "long"])
def test_the_models_name_is_the_requests_and_not_its_contents(
    driver: Driver, seen: Captured, padding: int
) -> None:
    """However deep what is said lies, and wherever the name stands."""
    said = {"role": "user", "content": "x" * padding, "meta": {"model": "my account is secret"}}
    body = {"messages": [said], "stream": True, "model": "gpt-x"}

    async def program(client: Any) -> None:
        sent = client._client.post(URL, json=body)
        if driver.asynchronous:
            await sent

    driver.run(driver.transport(Script.chat(tokens=2)), program)
    (record,) = seen.records
    assert (record.name, record.attributes["model"]) == ("chat gpt-x", "gpt-x")
    assert "secret" not in "".join(span.to_json() for span in seen.spans)


def test_what_a_transport_sends_meanwhile_is_an_exchange_of_its_own(seen: Captured) -> None:
    """A token that it fetches from the same host, say."""

    class Fetching(http.BaseTransport):
        def handle_request(self, request: Any) -> Any:
            if request.url.path == "/token":
                return http.Response(503)
            with http.Client(transport=Fetching()) as client:
                client.get("https://tool.test/token")
            return http.Response(200)

    with http.Client(transport=Fetching()) as client:
        client.get("https://tool.test/data")
    assert [record.outcome for record in seen.records] == [Outcome.ERROR, Outcome.COMPLETED]


def test_a_held_answer_does_not_hold_what_was_sent(seen: Captured) -> None:
    """An upload may be large."""
    with _in_memory(text="ok") as client:
        response = client.post(URL, content=b"x" * 1000)
    watching = response._latspan_body
    assert watching._request_body is None
    assert response.text == "ok"


async def test_a_call_that_is_cancelled_before_it_starts_warns_of_nothing(seen: Captured) -> None:
    """The SDK's coroutine inside ours is closed with it."""
    client = openai.AsyncOpenAI(api_key="none", base_url="https://model.test/v1")
    task = asyncio.ensure_future(client.chat.completions.create(model="m", messages=MESSAGES))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    del task
    gc.collect()
    await client.close()
    assert seen.records == ()


class _Body(http.AsyncByteStream):
    """A body of two pieces that notes how it is left."""

    def __init__(self) -> None:
        self.left: list[str] = []

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            yield b"not compressed"
            yield b"at all"
        finally:
            self.left.append("iterated")

    async def aclose(self) -> None:
        self.left.append("closed")


async def _left_in_the_middle(headers: dict[str, str]) -> list[str]:
    """Return how a body was left whose reader failed, or went, after the first piece."""
    body = _Body()

    def answered(request: Any) -> Any:
        return http.Response(200, headers=headers, stream=body, request=request)

    async with http.AsyncClient(transport=http.MockTransport(answered)) as client:
        request = client.build_request("GET", URL)
        response = await client.send(request, stream=True)
        try:
            async with aclosing(response.aiter_bytes()) as pieces:
                await anext(pieces)
        except http.DecodingError:
            pass
        return body.left.copy()


@pytest.mark.parametrize("headers", [{"content-encoding": "gzip"}, {}])
async def test_a_body_left_in_the_middle_is_closed_as_without_us(
    seen: Captured, headers: dict[str, str]
) -> None:
    """At once, where the library closes what it reads from; not when the event loop comes to it."""
    followed = await _left_in_the_middle(headers)
    with switched_off():
        assert followed == await _left_in_the_middle(headers)
    (record,) = seen.records
    # What is said to be gzip is not, so that it ends with an error of the library's.
    assert record.outcome is (Outcome.ERROR if headers else Outcome.CLOSED_EARLY)


async def _pieces() -> AsyncIterator[bytes]:
    yield b"whole"


async def test_a_close_of_the_other_kind_leaves_the_exchange_open(seen: Captured) -> None:
    """It raises before the library closes anything."""

    def answered(_request: Any) -> Any:
        return http.Response(200, content=_pieces())

    client = http.AsyncClient(transport=http.MockTransport(answered))
    async with client, client.stream("GET", URL) as response:
        with pytest.raises(RuntimeError):
            response.close()
        assert await response.aread() == b"whole"
    (record,) = seen.records
    assert record.outcome is Outcome.COMPLETED


class _Library:
    def method(self) -> str:
        return "original"


class _Ours(Instrumentor):
    requires = (LIBRARY,)

    def patch(self, patches: Patches) -> None:
        """Patch the library's one method."""

        def ours(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> str:
            del instance, args, kwargs
            return f"ours {wrapped()}"

        patches.wrap(_Library, "method", ours)


def test_taking_ours_off_leaves_what_others_put_around_it() -> None:
    """Also what cannot be looked into; ours does nothing beneath it."""
    original = vars(_Library)["method"]
    ours = _Ours()
    ours.instrument()
    inner: Any = _Library.method

    def theirs(self: Any) -> str:
        return f"theirs {inner(self)}"

    _Library.method = theirs  # pyright: ignore[reportAttributeAccessIssue]
    assert _Library().method() == "theirs ours original"
    ours.uninstrument()
    assert _Library().method() == "theirs original"
    _Library.method = original


def test_the_library_under_test_is_instrumented() -> None:
    """Otherwise the tests above would prove nothing."""
    assert f"latspan_{LIBRARY}" in latspan.auto_instrument()
