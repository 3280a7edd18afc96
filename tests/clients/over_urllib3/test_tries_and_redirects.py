"""Another try is another attempt of the same exchange, a redirect an exchange of its own."""

from __future__ import annotations

from queue import Empty, LifoQueue
from typing import Any

import pytest
import requests
import urllib3
from urllib3.exceptions import EmptyPoolError, MaxRetryError
from urllib3.util.retry import Retry

from latspan import Kind
from latspan._live.operations import ModelCall
from latspan.integrations import Outcome, open_call
from latspan.integrations.formats import OPENAI_CHAT
from latspan.testing import Captured, ManualClock, RequestRecord, Script
from latspan.testing._network import Network
from tests.clients.over_urllib3.scripted import MS, URL, manager_over, network_of, session_over
from tests.support.loopback import Loopback, whole

BODY = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
BACK_OFF = 250 * MS


def retrying(clock: ManualClock, total: int = 3, **options: Any) -> Retry:
    """Return a policy whose back-off passes on ``clock``."""

    class Policy(Retry):
        def sleep(self, response: Any = None) -> None:  # noqa: ARG002 - urllib3's signature
            clock.advance(BACK_OFF)

    return Policy(
        total=total, status_forcelist=[503], allowed_methods=None, raise_on_status=True, **options
    )


def totals(record: RequestRecord) -> dict[str, int]:
    assert sum(segment.duration_ns for segment in record.segments) == record.duration_ns
    return {total.name: total.duration_ns for total in record.segment_totals}


def attempts(seen: Captured) -> list[dict[str, Any]]:
    """Return what the spans of the attempts say."""
    roots = {span.context.span_id for span in seen.spans if span.parent is None and span.context}
    return [
        dict(span.attributes or {})
        for span in seen.spans
        if span.parent is not None
        and span.parent.span_id in roots
        and "latspan.segment" not in (span.attributes or {})
    ]


def answers(network: Network) -> list[str]:
    return [served.request_headers["traceparent"] for served in network.served_requests()]


def test_a_refusal_that_is_tried_again(clock: ManualClock, seen: Captured) -> None:
    """The failed try and the back-off are `retry`, and the child spans say why."""
    network = network_of([Script.refused(503, after_ms=20), Script.chat(tokens=2)], clock)
    session = session_over(network, max_retries=retrying(clock))
    assert session.post(URL, json=BODY).status_code == 200

    (record,) = seen.records
    assert record.outcome is Outcome.COMPLETED
    assert totals(record)["retry"] == (7 + 3 + 4 + 20) * MS + BACK_OFF
    assert attempts(seen) == [
        {
            "http.response.status_code": 503,
            "error.type": "503",
            "latspan.connection.reused": False,
        },
        {
            "http.request.resend_count": 1,
            "http.response.status_code": 200,
            "latspan.connection.reused": True,
        },
    ]
    (span,) = [span for span in seen.spans if span.parent is None]
    assert (span.attributes or {})["latspan.attempt.count"] == 2
    # The span is the same for both, and so is what the server is told of it.
    assert len(set(answers(network))) == 1
    assert f"{record.span_id:016x}" in answers(network)[0]


def test_a_refused_connection_that_is_tried_again(clock: ManualClock, seen: Captured) -> None:
    """Here it is urllib3 that says why."""
    network = network_of([Script.unreachable_server(), Script.chat(tokens=2)], clock)
    session = session_over(network, max_retries=retrying(clock))
    assert session.post(URL, json=BODY).status_code == 200
    (record,) = seen.records
    assert totals(record)["retry"] == 7 * MS + BACK_OFF
    assert attempts(seen)[0]["error.type"] == "urllib3.exceptions.NewConnectionError"


@pytest.mark.parametrize(
    ("retry_after_s", "outcome"), [(None, Outcome.ERROR), (1.0, Outcome.REJECTED)]
)
def test_refused_as_often_as_it_may_be_tried(
    clock: ManualClock, seen: Captured, retry_after_s: float | None, outcome: Outcome
) -> None:
    """The last answer decides, though what is raised speaks of too many."""
    script = Script.refused(503, after_ms=20, retry_after_s=retry_after_s)
    session = session_over(network_of(script, clock), max_retries=retrying(clock, total=2))
    with pytest.raises(requests.exceptions.RetryError):
        session.post(URL, json=BODY)
    (record,) = seen.records
    assert record.outcome is outcome
    (span,) = [span for span in seen.spans if span.parent is None]
    assert (span.attributes or {})["error.type"] == "503"
    assert (span.attributes or {})["latspan.attempt.count"] == 3


def test_a_connection_that_is_never_made(clock: ManualClock, seen: Captured) -> None:
    """The time is where it was spent, and the error is what happened, not that it did so often."""
    network = network_of(Script.unreachable_server(), clock)
    with pytest.raises(requests.exceptions.ConnectionError) as raised:
        session_over(network).post(URL, json=BODY)
    assert isinstance(raised.value.args[0], MaxRetryError)
    (record,) = seen.records
    assert record.outcome is Outcome.ERROR
    assert totals(record) == {"connect": 7 * MS}
    (span,) = [span for span in seen.spans if span.parent is None]
    assert (span.attributes or {})["error.type"] == "urllib3.exceptions.NewConnectionError"


def test_a_connection_that_takes_too_long(clock: ManualClock, seen: Captured) -> None:
    """A timeout, although what is raised is none by its name."""
    manager = manager_over(network_of(Script.chat(), clock))
    with pytest.raises(MaxRetryError):
        manager.request("POST", URL, timeout=0.005, retries=0)
    (record,) = seen.records
    assert record.outcome is Outcome.TIMEOUT
    assert totals(record) == {"connect": 5 * MS}


def test_an_interrupted_back_off(clock: ManualClock, seen: Captured) -> None:
    """Whoever interrupts it has cancelled it; the try that failed is still `retry`."""

    class Impatient(Retry):
        def sleep(self, response: Any = None) -> None:  # noqa: ARG002 - urllib3's signature
            clock.advance(BACK_OFF)
            raise KeyboardInterrupt

    network = network_of(Script.unreachable_server(), clock)
    with pytest.raises(KeyboardInterrupt):
        manager_over(network).request("POST", URL, retries=Impatient(3))
    (record,) = seen.records
    assert record.outcome is Outcome.CANCELLED
    assert totals(record) == {"connect": 7 * MS, "retry": BACK_OFF}


def test_inside_a_call_each_try_is_an_attempt_of_it(clock: ManualClock, seen: Captured) -> None:
    """The call of a client library is the one span there is."""
    network = network_of([Script.refused(503, after_ms=20), Script.chat(tokens=2)], clock)
    session = session_over(network, max_retries=retrying(clock))
    call = open_call(operation="chat", provider="x", model="m", api_format=OPENAI_CHAT)
    assert isinstance(call, ModelCall)
    with call.active():
        answer = session.post(URL, json=BODY)
    call.keep_response(answer.content)
    call.returned()
    call.end(Outcome.COMPLETED)

    (record,) = seen.records
    assert record.kind is Kind.CALL
    assert totals(record)["retry"] == (7 + 3 + 4 + 20) * MS + BACK_OFF
    assert len(attempts(seen)) == 2


def test_a_pool_that_is_exhausted(clock: ManualClock, seen: Captured) -> None:
    """Waiting for a connection is `pool_wait`, and waiting in vain a timeout."""

    class Queue(LifoQueue[Any]):
        """Of connections that others hold, by latspan's clock."""

        def get(self, block: bool = True, timeout: float | None = None) -> Any:
            clock.advance(round((timeout or 0) * 1e9) if block else 0)
            raise Empty

    class Pool(urllib3.HTTPConnectionPool):
        QueueCls = Queue

    with Pool("localhost", 1, block=True) as pool, pytest.raises(EmptyPoolError):
        pool.request("GET", "/", pool_timeout=2)
    (record,) = seen.records
    assert record.outcome is Outcome.TIMEOUT
    assert totals(record) == {"pool_wait": 2_000 * MS}


def test_a_redirect_that_requests_follows(watched: Captured) -> None:
    """Two requests, two exchanges, each with an identity of its own."""
    with Loopback([whole(status=302, location="/there"), whole()]) as server:
        answer = requests.get(f"{server.url}/here", timeout=5)
        assert (answer.status_code, len(answer.history)) == (200, 1)
    check_redirected(watched, server)


def test_a_redirect_that_a_manager_follows(watched: Captured) -> None:
    """The same of urllib3."""
    replies = [whole(status=302, location="/there"), whole()]
    with Loopback(replies) as server, urllib3.PoolManager() as manager:
        assert manager.request("GET", f"{server.url}/here").status == 200
    check_redirected(watched, server)


@pytest.mark.parametrize("preload", [True, False])
def test_a_redirect_that_a_pool_follows(watched: Captured, preload: bool) -> None:
    """It calls itself for that, as it does to try again."""
    headers = {"x": "y"}
    replies = [whole(status=302, location="/there"), whole()]
    with Loopback(replies) as server, urllib3.connection_from_url(server.url) as pool:
        response = pool.request("GET", "/here", headers=headers, preload_content=preload)
        assert (response.status, response.data) == (200, b"ok")
    assert headers == {"x": "y"}
    check_redirected(watched, server)


def check_redirected(watched: Captured, server: Loopback) -> None:
    first, second = watched.records
    assert (first.outcome, second.outcome) == (Outcome.COMPLETED, Outcome.COMPLETED)
    assert first.trace_id != second.trace_id
    told = [visit.request.headers["traceparent"].split("-")[2] for visit in server.visits]
    assert told == [f"{first.span_id:016x}", f"{second.span_id:016x}"]
    roots = [span for span in watched.spans if span.parent is None]
    assert [(span.attributes or {})["url.full"] for span in roots] == [
        f"{server.url}/here",
        f"{server.url}/there",
    ]
    assert [(span.attributes or {})["http.response.status_code"] for span in roots] == [302, 200]


def test_redirected_too_often(watched: Captured) -> None:
    """The exchange that was refused its redirect is an error by urllib3's word."""
    replies = [whole(status=302, location="/")] * 2
    with (
        Loopback(replies) as server,
        urllib3.connection_from_url(server.url) as pool,
        pytest.raises(MaxRetryError),
    ):
        pool.request("GET", "/", retries=Retry(redirect=1))
    assert [record.outcome for record in watched.records] == [Outcome.COMPLETED, Outcome.ERROR]


def test_a_body_that_is_itself_sent_for(watched: Captured) -> None:
    """What a body is read from is an exchange apart, though it happens in the midst of a try."""
    with (
        Loopback([whole(b"four"), whole()]) as server,
        urllib3.connection_from_url(server.url, maxsize=2) as pool,
    ):

        def body() -> Any:
            yield pool.request("GET", "/source").data

        answer = pool.urlopen("POST", "/", body=body(), headers={"Content-Length": "4"})
        assert answer.status == 200
    inner, outer = watched.records
    assert (inner.name, outer.name) == ("GET", "POST")
    assert inner.trace_id == outer.trace_id
    assert [span.name for span in watched.spans if span.parent is None] == ["POST"]
    assert {total.name for total in outer.segment_totals} >= {"send", "server_wait"}
