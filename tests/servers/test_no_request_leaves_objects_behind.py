"""Two hundred requests for each way to end: one span each, its outcome, and nothing that stays."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from opentelemetry import trace

import latspan
from latspan import Handoff, Kind
from latspan._live.operations import LocalScope, active_scope
from latspan.integrations import Outcome
from tests.servers.conftest import MS, App, Client, Server, answering

REQUESTS = 200


def _streaming(server: Server) -> App:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for part in latspan.track_tokens(iter([b"a", b"b", b"c"])):
            server.clock.advance(1 * MS)
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    return app


def _raising(error: type[BaseException]) -> Callable[[Server], App]:
    def application(server: Server) -> App:
        async def app(scope: Any, receive: Any, send: Any) -> None:
            with latspan.stage("auth"):
                server.clock.advance(1 * MS)
                raise error

        return app

    return application


def _dropping(server: Server) -> App:
    lost: list[Handoff] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        lost.append(latspan.handoff())
        lost.clear()
        server.clock.advance(1 * MS)
        raise TimeoutError

    return app


def _in_a_thread(server: Server) -> App:
    def work(handoff: Handoff) -> None:
        with latspan.attach(handoff), latspan.stage("prefill"):
            server.clock.advance(1 * MS)
            raise ConnectionError

    async def app(scope: Any, receive: Any, send: Any) -> None:
        handoff = latspan.handoff()

        def failing() -> None:
            with pytest.raises(ConnectionError):
                work(handoff)

        thread = threading.Thread(target=failing)
        thread.start()
        thread.join()
        await answering(b"sorry", status=500)(scope, receive, send)

    return app


@pytest.mark.parametrize(
    ("application", "leaves_after", "outcome", "stages"),
    [
        pytest.param(_streaming, None, Outcome.COMPLETED, 2, id="answered"),
        pytest.param(_streaming, 1, Outcome.CLOSED_EARLY, 2, id="client leaves"),
        pytest.param(_raising(LookupError), None, Outcome.ERROR, 1, id="exception"),
        pytest.param(_raising(TimeoutError), None, Outcome.TIMEOUT, 1, id="timeout"),
        pytest.param(_raising(asyncio.CancelledError), None, Outcome.CANCELLED, 1, id="cancelled"),
        pytest.param(_dropping, None, Outcome.TIMEOUT, 1, id="item dropped"),
        pytest.param(_in_a_thread, None, Outcome.ERROR, 2, id="worker fails"),
    ],
)
def test_each_ends_in_one_span_and_is_gone(
    server: Server,
    application: Callable[[Server], App],
    leaves_after: int | None,
    outcome: Outcome,
    stages: int,
) -> None:
    """Its stages too; nothing is current afterwards, in this thread or any other."""
    app = application(server)
    gc.collect()
    before = _living()
    threads = threading.active_count()
    for _ in range(REQUESTS):
        with suppress(LookupError, OSError, asyncio.CancelledError):
            server.serve(app, Client(server.clock, leaves_after=leaves_after))
        assert active_scope() is None
        assert not trace.get_current_span().get_span_context().is_valid
    gc.collect()
    assert _living() == before
    assert threading.active_count() == threads
    records = server.seen.records
    requests = [each for each in records if each.kind is Kind.REQUEST]
    assert [each.outcome for each in requests] == [outcome] * REQUESTS
    assert len(records) == REQUESTS * (1 + stages)
    assert len({span.context.span_id for span in server.seen.spans if span.context}) == len(
        server.seen.spans
    )
    assert sum(span.name == "POST" for span in server.seen.spans) == REQUESTS


def _living() -> int:
    return sum(isinstance(each, (LocalScope, Handoff)) for each in gc.get_objects())
