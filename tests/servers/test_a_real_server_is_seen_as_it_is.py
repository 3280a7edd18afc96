"""FastAPI on uvicorn, sixteen clients at once: both sides against what the server wrote down."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

import pytest
import uvicorn
from fastapi import BackgroundTasks, FastAPI
from fastapi.responses import JSONResponse, StreamingResponse
from openai import AsyncOpenAI
from opentelemetry import trace

import latspan
from latspan import Kind, Source
from latspan.integrations import Outcome
from latspan.testing import Captured, RequestRecord, Side, capture
from latspan_instrumentation.asgi import LatspanMiddleware
from tests.conftest import Measured
from tests.support.stillness import when_still

_MS: Final = 1_000_000
_LIMIT_MS: Final = 3.0
_CLIENTS: Final = 16
_CHATS_EACH: Final = 4
_STAGES: Final = {"auth": 2, "queue": 15, "prefill": 10}
_DECODE_MS: Final = 12
_BACKGROUND_S: Final = 1.0
_DEADLINE_S: Final = 30.0


@dataclass
class _Truth:
    """What the server's own clock said, by the trace; latspan never sees it."""

    stages_ns: dict[int, dict[str, int]] = field(default_factory=dict[int, dict[str, int]])

    def note(self, stage: str, begun_ns: int) -> None:
        trace_id = trace.get_current_span().get_span_context().trace_id
        self.stages_ns.setdefault(trace_id, {})[stage] = time.perf_counter_ns() - begun_ns


def _event(delta: dict[str, str], finish: str | None = None) -> str:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return f"data: {json.dumps({**chunk, 'choices': [choice]})}\n\n"


def _application(truth: _Truth) -> FastAPI:
    app = FastAPI()
    app.add_middleware(LatspanMiddleware, server_timing=True, hold_headers=True)

    @app.post("/v1/chat/{rest:path}")
    async def chat(rest: str) -> StreamingResponse:
        assert rest == "completions"
        for stage, takes_ms in _STAGES.items():
            begun_ns = time.perf_counter_ns()
            with latspan.stage(stage):
                await asyncio.sleep(takes_ms / 1000)
            truth.note(stage, begun_ns)

        async def events() -> AsyncIterator[str]:
            begun_ns = time.perf_counter_ns()
            with latspan.stage("decode"):
                for word in ("a", "b", "c"):
                    yield _event({"content": word})
                    await asyncio.sleep(_DECODE_MS / 3 / 1000)
            truth.note("decode", begun_ns)
            yield _event({}, "stop")
            yield "data: [DONE]\n\n"

        return StreamingResponse(events(), media_type="text/event-stream")

    @app.get("/items/{item}")
    async def item(item: int, tasks: BackgroundTasks) -> JSONResponse:
        tasks.add_task(asyncio.sleep, _BACKGROUND_S)
        if item == 0:
            raise LookupError("secret")
        return JSONResponse({"item": item}, status_code=200 if item < 9 else 404)

    return app


@contextmanager
def _serving(app: FastAPI) -> Generator[str]:
    """Serve on loopback while the block lasts."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(_DEADLINE_S)
        listener.close()


def _of(seen: Captured, side: Side, kind: Kind) -> list[RequestRecord]:
    return [each for each in seen.records if each.side is side and each.kind is kind]


async def _chats(url: str) -> None:
    async def one(client: AsyncOpenAI) -> None:
        for _ in range(_CHATS_EACH):
            stream = await client.chat.completions.create(
                model="m",
                messages=[{"role": "user", "content": "?"}],
                stream=True,
            )
            assert [each.choices[0].delta.content async for each in stream] == ["a", "b", "c", None]

    async with AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        await asyncio.gather(*(one(client) for _ in range(_CLIENTS)))


def _asked_and_served() -> tuple[_Truth, Captured]:
    truth = _Truth()
    with capture() as seen, _serving(_application(truth)) as url:
        asyncio.run(_chats(url))
    return truth, seen


@pytest.fixture
def _instrumented() -> Iterator[None]:
    latspan.auto_instrument()
    yield
    latspan.uninstrument()


def _ns(record: RequestRecord, segment: str) -> int:
    return sum(each.duration_ns for each in record.segments if each.name == segment)


@pytest.mark.usefixtures("_instrumented")
def test_both_sides_agree_with_what_the_server_wrote_down(measured: Measured) -> None:
    """Every stage on the server's side; queue and prefill on the client's; sums exact on both."""
    truth, seen = when_still(_asked_and_served)
    served = _of(seen, Side.SERVER, Kind.REQUEST)
    calls = _of(seen, Side.CLIENT, Kind.CALL)
    spans = {span.context.span_id: span for span in seen.spans if span.context}
    assert len(served) == len(calls) == len(truth.stages_ns) == _CLIENTS * _CHATS_EACH

    # Which is whose is in the trace alone: the server's span hangs beneath the call's.
    by_trace = {record.trace_id: record for record in calls}
    for record in served:
        parent = spans[record.span_id].parent
        assert parent is not None
        assert parent.span_id == by_trace[record.trace_id].span_id
        assert (record.name, record.outcome) == ("POST /v1/chat/{rest:path}", Outcome.COMPLETED)
        assert sum(each.duration_ns for each in record.segments) == record.duration_ns

    for stage in (*_STAGES, "decode"):
        errors = [
            abs(_ns(record, stage) - truth.stages_ns[record.trace_id][stage]) / _MS
            for record in served
        ]
        assert measured(f"error of the server's {stage}", errors) <= _LIMIT_MS
    unnamed = [_ns(record, "application") / _MS for record in served]
    measured("the application", unnamed)

    for stage in ("queue", "prefill"):
        errors: list[float] = []
        for record in served:
            call = by_trace[record.trace_id]
            assert {each.source for each in call.segments if each.name == stage} == {
                Source.SERVER_REPORTED
            }
            errors.append(abs(_ns(call, stage) - _ns(record, stage)) / _MS)
        assert measured(f"the client's {stage} less the server's", errors) <= _LIMIT_MS
    errors = [
        abs(_ns(by_trace[record.trace_id], "decode") - _ns(record, "decode")) / _MS
        for record in served
    ]
    # The client's ends with the last token, the server's with the generator: a gap later.
    measured("the client's decode less the server's", errors)
    left_over = [(_ns(call, "server_wait") + _ns(call, "network")) / _MS for call in calls]
    measured("what no stage explains of the client's wait", left_over)


async def _ask(url: str, target: str, *, answer: bool = True) -> bytes:
    reader, writer = await asyncio.open_connection(*url.removeprefix("http://").split(":"))
    writer.write(f"{target} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n".encode())
    writer.write(b"content-length: 0\r\n\r\n")
    await writer.drain()
    had = await (reader.read() if answer else reader.readuntil(b"data:"))
    writer.close()
    await writer.wait_closed()
    return had


def test_routes_errors_background_tasks_and_clients_that_leave() -> None:
    """By real sockets, through the framework's own error handling."""
    truth = _Truth()
    with capture() as seen, _serving(_application(truth)) as url:
        for target in ("/items/7?q=secret", "/items/0", "/items/9", "/none"):
            asyncio.run(_ask(url, f"GET {target}"))
        asyncio.run(_ask(url, "POST /v1/chat/completions", answer=False))
        deadline = time.monotonic() + _DEADLINE_S
        while len(_of(seen, Side.SERVER, Kind.REQUEST)) < 5 and time.monotonic() < deadline:
            threading.Event().wait(0.01)
    ended = [(each.name, each.outcome) for each in _of(seen, Side.SERVER, Kind.REQUEST)]
    assert ended == [
        ("GET /items/{item}", Outcome.COMPLETED),
        ("GET /items/{item}", Outcome.ERROR),
        ("GET /items/{item}", Outcome.COMPLETED),
        ("GET", Outcome.COMPLETED),
        ("POST /v1/chat/{rest:path}", Outcome.CLOSED_EARLY),
    ]
    # The background task slept for longer than the answer took.
    longest_ns = max(each.duration_ns for each in _of(seen, Side.SERVER, Kind.REQUEST)[:4])
    assert longest_ns < _BACKGROUND_S * 1_000 * _MS
    assert "secret" not in "".join(span.to_json() for span in seen.spans)
