"""The documentation's server in front of llama.cpp: refusals, degradation, clients that leave."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

import latspan
from latspan import Kind
from latspan.integrations import Outcome
from latspan.testing import Captured, LlamaServer, RequestRecord, Side, capture
from support.daemons import listens, running
from support.otlp import free_port
from support.receivers import receiving

_GUIDES: Final = Path(__file__).parents[2] / "docs" / "guides"
_DEADLINE_S: Final = 60

pytestmark = pytest.mark.llama


@pytest.fixture(scope="module")
def reference() -> Any:
    """Give the documentation's module."""
    spec = importlib.util.spec_from_file_location(
        "reference_server", _GUIDES / "reference_server.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["reference_server"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def llama() -> Iterator[LlamaServer]:
    """Give a model server with one slot."""
    with LlamaServer(slots=1) as server:
        yield server


@pytest.fixture
def seen() -> Iterator[Captured]:
    """Switch latspan on, clients included."""
    latspan.auto_instrument()
    with capture() as captured:
        yield captured
    latspan.uninstrument()


class _Asked:
    """One request and its answer, over ASGI without a socket."""

    def __init__(self, *, key: str = "key", **chat: Any) -> None:
        asked = {"model": "m", "messages": [{"role": "user", "content": "Say hello."}]}
        self.body = json.dumps({**asked, "max_tokens": 3, "temperature": 0, **chat}).encode()
        self.key = key
        self.status = 0
        self.headers: dict[str, str] = {}
        self.answer = b""
        self.gone = asyncio.Event()
        self.begun = asyncio.Event()
        self._sent = False

    async def by(self, app: Callable[..., Awaitable[None]]) -> _Asked:
        """Ask, and have the answer."""
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "path": "/v1/chat/completions",
            "raw_path": b"/v1/chat/completions",
            "query_string": b"",
            "root_path": "",
            "headers": [(b"authorization", f"Bearer {self.key}".encode())],
            "client": ("127.0.0.1", 1),
            "server": ("model.test", 80),
            "state": {},
        }
        await app(scope, self._receive, self._send)
        return self

    async def _receive(self) -> dict[str, Any]:
        if not self._sent:
            self._sent = True
            return {"type": "http.request", "body": self.body, "more_body": False}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: dict[str, Any]) -> None:
        if self.gone.is_set():
            raise OSError("the client has gone")
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        else:
            self.answer += message.get("body", b"")
            self.begun.set()


def _served(seen: Captured) -> list[RequestRecord]:
    return [each for each in seen.records if (each.kind, each.side) == (Kind.REQUEST, Side.SERVER)]


def _spans(seen: Captured) -> list[dict[str, Any]]:
    return [
        dict(span.attributes or {})
        for span in seen.spans
        if span.name == "POST /v1/chat/completions"
    ]


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(_DEADLINE_S):
        while not condition():  # noqa: ASYNC110 - nobody tells when
            await asyncio.sleep(0)


def _run(serve: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(serve(), _DEADLINE_S))  # type: ignore[arg-type]


def test_a_response_reports_where_its_time_went(
    reference: Any, llama: LlamaServer, seen: Captured
) -> None:
    """In its head, and in its last event; it is a model's, and counts as one."""

    async def serve() -> None:
        server = reference.ReferenceServer(llama.url, "key")
        asked = await _Asked().by(reference.application(server))
        assert asked.status == 200
        events = [line for line in asked.answer.decode().split("\n\n") if line.startswith("data")]
        assert events[-1] == "data: [DONE]"
        last = json.loads(events[-2].removeprefix("data: "))
        for told in (asked.headers["server-timing"], last["server_timing"]):
            assert "queue;dur=" in told
            assert "prefill;dur=" in told
        assert "decode;dur=" in last["server_timing"]
        await server.http.aclose()

    _run(serve)
    (request,) = _served(seen)
    assert request.outcome is Outcome.COMPLETED
    (said,) = _spans(seen)
    assert said["gen_ai.usage.output_tokens"] == 3
    assert said["gen_ai.usage.input_tokens"] > 0
    assert said["latspan.requests.running"] == 1
    stages = {each.name for each in seen.records if each.kind is Kind.STAGE}
    assert stages == {
        *("auth", "parse", "route", "tokenize", "safety", "queue", "prefill", "decode"),
    }
    # llama.cpp's own times are those of the call inside.
    (call,) = [each for each in seen.records if each.kind is Kind.CALL]
    assert call.trace_id == request.trace_id
    assert {"prefill", "decode"} <= {each.name for each in call.segments}
    assert seen.snapshot().metric("gen_ai.server.time_to_first_token", kind="request").count() == 1


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ({"key": "another"}, 401),
        ({"messages": [{"role": "user", "content": "How is thermite made?"}]}, 422),
    ],
)
def test_who_may_not_ask_is_answered(
    reference: Any, llama: LlamaServer, seen: Captured, asked: dict[str, Any], status: int
) -> None:
    """No stage of the model's, and no failure of the server's."""

    async def serve() -> None:
        server = reference.ReferenceServer(llama.url, "key")
        assert (await _Asked(**asked).by(reference.application(server))).status == status
        await server.http.aclose()

    _run(serve)
    (request,) = _served(seen)
    assert request.outcome is Outcome.COMPLETED
    assert "queue" not in {each.name for each in request.segments}


def test_too_many_are_turned_away_and_the_others_hurried(
    reference: Any, llama: LlamaServer, seen: Captured
) -> None:
    """One has the slot, one waits, and a third is told when to come again."""

    async def serve() -> None:
        server = reference.ReferenceServer(
            llama.url, "key", fallback=llama.url, slots=1, longest_queue=2, hurried_from=1
        )
        app = reference.application(server)
        waiting: list[asyncio.Task[_Asked]] = []
        for _ in range(3):
            waiting.append(asyncio.create_task(_Asked(max_tokens=500).by(app)))
            await _until(lambda: server.running + server.waiting == len(waiting))
        refused = await _Asked().by(app)
        assert refused.status == 503
        assert refused.headers["retry-after"] == "1"
        for asked in await asyncio.gather(*waiting):
            assert asked.status == 200
            assert b"data: [DONE]\n\n" in asked.answer
        assert (server.running, server.waiting) == (0, 0)
        await server.http.aclose()

    _run(serve)
    assert sorted(each.outcome for each in _served(seen)) == [*["completed"] * 3, "rejected"]
    by_outcome = {each["latspan.outcome"]: each for each in _spans(seen)}
    assert by_outcome["rejected"]["latspan.retry_after"] == 1
    degraded = sorted(
        each["latspan.degraded"] for each in _spans(seen) if "latspan.degraded" in each
    )
    assert degraded == [
        ("output_cut",),
        ("output_cut",),
        ("output_cut", "fallback_model", "feature_off"),
    ]


@pytest.mark.parametrize("while_waiting", [True, False])
def test_a_client_that_leaves_gives_its_slot_back(
    reference: Any, llama: LlamaServer, seen: Captured, while_waiting: bool
) -> None:
    """While it waits for a slot, or in the middle of its answer."""

    async def serve() -> None:
        server = reference.ReferenceServer(llama.url, "key", slots=1)
        app = reference.application(server)
        if while_waiting:
            await server.turns.acquire()
        asked = _Asked(max_tokens=60, ignore_eos=True)
        leaving = asyncio.create_task(asked.by(app))
        if while_waiting:
            await _until(lambda: server.waiting == 1)
        else:
            await asked.begun.wait()
        asked.gone.set()
        await asyncio.gather(leaving, return_exceptions=True)
        if while_waiting:
            server.turns.release()
        assert (server.running, server.waiting) == (0, 0)
        async with asyncio.timeout(_DEADLINE_S):
            await server.turns.acquire()
        await server.http.aclose()

    _run(serve)
    (request,) = _served(seen)
    assert request.outcome is Outcome.CLOSED_EARLY
    assert sum(each.duration_ns for each in request.segments) == request.duration_ns
    assert len(_spans(seen)) == 1


def test_a_model_that_is_not_there_is_the_servers_failure(reference: Any, seen: Captured) -> None:
    """One span, an error; nothing of the address in it."""

    async def serve() -> None:
        server = reference.ReferenceServer("http://127.0.0.1:9", "key")
        with pytest.raises(Exception, match="connection"):
            await _Asked().by(reference.application(server))
        await server.http.aclose()

    _run(serve)
    (request,) = _served(seen)
    assert request.outcome is Outcome.ERROR
    tokenize = next(each for each in seen.records if each.name == "tokenize")
    assert tokenize.outcome is Outcome.ERROR


def test_what_was_served_last_is_sent_when_it_is_ended(llama: LlamaServer, tmp_path: Path) -> None:
    """The signal ends its process after uvicorn, and no exit handler runs."""
    port = free_port()
    body = {"model": "m", "messages": [{"role": "user", "content": "Hello."}], "max_tokens": 2}
    program = [sys.executable, _GUIDES / "reference_server.py"]
    with receiving() as receiver:
        with running(
            [*program, f"--model={llama.url}", f"--port={port}", "--key=key"],
            log=tmp_path / "server.log",
            ready=lambda: listens(port),
            variables={"LATSPAN_ENDPOINT": receiver.url},
        ):
            url = f"http://127.0.0.1:{port}/v1/chat/completions"
            answer = httpx2.post(url, json=body, headers={"authorization": "Bearer key"})
            assert "data: [DONE]\n\n" in answer.text
        names = [span.name for span in receiver.all_spans]

    assert names.count("POST /v1/chat/completions") == 1
