"""Servers are scraped with backoff, and their responses cannot do harm."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from http.client import responses

import pytest

from latspan import semconv
from latspan._live.scraping._server import ScrapeTarget, Server
from latspan.testing import ManualClock
from support.backends import eventually
from support.loopback import ConnectionEnding, Loopback, Reply, chunked, whole
from support.otlp import free_port

S = 1_000_000_000
RUNNING, WAITING = semconv.LATSPAN_REQUESTS_RUNNING, semconv.LATSPAN_REQUESTS_WAITING
METRICS = b"llamacpp:requests_processing 2\nllamacpp:requests_deferred 1\n"
LONG_INTERVAL_S = 20.0
"""Timeout that is long enough for any response, even on a busy machine, in seconds."""


def page_of(
    server: Loopback, clock: ManualClock, interval_s: float = LONG_INTERVAL_S
) -> ScrapeTarget:
    return ScrapeTarget(
        f"{server.url}/metrics?key=secret", interval_s=interval_s, now=clock.monotonic_ns
    )


def asked_at(replies: Iterable[Reply], *, polls: int) -> list[int]:
    """Return the polls, one per second, at which a server with these replies is scraped."""
    clock = ManualClock()
    with Loopback(replies) as server:
        page = page_of(server, clock, interval_s=1.0)
        asked: list[int] = []
        for second in range(polls):
            before = len(server.visits)
            page.poll()
            if len(server.visits) > before:
                asked.append(second)
            clock.advance(S)
        return asked


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (whole(METRICS), {RUNNING: 2, WAITING: 1}),
        (chunked(METRICS[:40], METRICS[40:]), {RUNNING: 2, WAITING: 1}),
        (whole(b'[{"is_processing": true}]'), {RUNNING: 1}),
        (whole(b"\xff\xfe\n" + METRICS), {RUNNING: 2, WAITING: 1}),
        (whole(b"go_threads 7\n"), {}),
        (whole(b""), {}),
    ],
    ids=["metrics", "in chunks", "slots", "not UTF-8", "of another", "empty"],
)
def test_a_response_is_stored_with_its_time(reply: Reply, expected: dict[str, float]) -> None:
    clock = ManualClock(start_ns=7 * S)
    with Loopback([reply]) as server:
        page = page_of(server, clock)
        page.poll()

    assert page.history.during(7 * S, 7 * S) == expected
    assert page.trouble is None


CUT = Reply(
    (b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n" + METRICS,), ending=ConnectionEnding.CLOSE
)


@pytest.mark.parametrize(
    "reply",
    [
        whole(METRICS, status=503),
        whole(METRICS, status=302, location="/elsewhere"),
        whole(b"x" * (4 * 1024 * 1024 + 1)),
        whole(b"llamacpp:requests_processing {{{\n"),
        whole(b"[[[["),
        CUT,
        chunked(METRICS, cut=True, ending=ConnectionEnding.CLOSE),
        Reply((b"SSH-2.0-OpenSSH_9.2\r\n",), ending=ConnectionEnding.CLOSE),
        Reply((b"",), ending=ConnectionEnding.RESET),
    ],
    ids=[
        "an error",
        "a redirect",
        "too long",
        "nonsense",
        "half of JSON",
        "cut",
        "chunks cut",
        "no HTTP",
        "a reset",
    ],
)
def test_an_invalid_response_is_not_stored(reply: Reply) -> None:
    """The reason is recorded, without the key in the address."""
    clock = ManualClock()
    with Loopback([reply, whole(METRICS)]) as server:
        page = page_of(server, clock)
        page.poll()
        assert len(server.visits) == 1

    assert page.history.during(0, S) == {}
    assert page.trouble is not None
    assert "secret" not in page.trouble


def test_a_late_response_times_out() -> None:
    """The server is scraped again at the next interval."""
    never = threading.Semaphore(0)
    head, body = whole(METRICS).parts
    clock = ManualClock()
    with Loopback([Reply((head, body), turns=never), whole(METRICS)]) as server:
        page = page_of(server, clock, interval_s=0.05)
        page.poll()
        assert page.trouble is not None
        assert page.trouble.endswith("/metrics did not answer in time")
        clock.advance(S)
        page.poll()
        # On a busy machine, the server may see a request after its client has given up.
        visits = eventually(lambda: len(server.visits), lambda number: number == 2)

    assert visits == 2


def test_a_failing_server_is_scraped_less_and_less_often() -> None:
    """The pause doubles up to 30 s."""
    refusals = [whole(status=code) for code in (500, 501, 404, 503, 500, 502, 500)]

    assert asked_at(refusals, polls=64) == [0, 1, 3, 7, 15, 31, 61]


def test_a_server_that_recovers_is_scraped_at_every_interval() -> None:
    replies = [whole(status=500), whole(status=500), whole(METRICS), whole(METRICS)]

    assert asked_at(replies, polls=5) == [0, 1, 3, 4]


def test_an_unreachable_server_yields_no_sample_and_no_error() -> None:
    """No process listens on the port."""
    page = ScrapeTarget(
        f"http://127.0.0.1:{free_port()}/", interval_s=1.0, now=ManualClock().monotonic_ns
    )
    page.poll()

    assert page.trouble is not None
    assert "Connection refused" in page.trouble


@pytest.mark.parametrize(
    ("replies", "warnings"),
    [
        ([whole(METRICS), whole(status=404), whole(METRICS), whole(METRICS)], 0),
        ([whole(status=501), whole(b"[]"), whole(b"[]"), whole(b"[]")], 0),
        ([whole(status=501), whole(status=501)], 1),
    ],
    ids=["no slots", "no metrics", "neither"],
)
def test_a_warning_is_logged_only_if_all_pages_fail(
    replies: list[Reply], warnings: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Not every server has both pages; the warning is logged once."""
    clock = ManualClock()
    with Loopback(replies) as loopback:
        server = Server(interval_s=LONG_INTERVAL_S, now=clock.monotonic_ns)
        server.add([f"{loopback.url}/metrics", f"{loopback.url}/slots"])
        for _ in range(3):
            server.poll()

    assert len(caplog.records) == warnings
    assert all(responses[501] in record.message for record in caplog.records)


@pytest.mark.parametrize(
    "line", ['llamacpp:requests_processing{ ="b"} 1\n', f"tgi_queue_size 1 {'9' * 400}\n"]
)
def test_a_malformed_page_does_not_affect_the_others(
    line: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It is not logged, because it is not a bug in latspan."""
    clock = ManualClock()
    with Loopback([whole(line.encode()), whole(b'[{"is_processing": true}]')]) as loopback:
        server = Server(interval_s=LONG_INTERVAL_S, now=clock.monotonic_ns)
        server.add([f"{loopback.url}/metrics", f"{loopback.url}/slots"])
        server.poll()

    metrics, slots = server.pages
    assert slots.history.during(0, S) == {RUNNING: 1}
    assert metrics.trouble is not None
    assert "malformed" in metrics.trouble
    assert caplog.records == []


def test_an_internal_error_on_one_page_does_not_affect_the_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged as an error."""
    monkeypatch.setattr("latspan._base.internal_errors._reported", set[object]())
    clock = ManualClock()
    with Loopback([whole(METRICS)]) as loopback:
        server = Server(interval_s=LONG_INTERVAL_S, now=clock.monotonic_ns)
        server.add(["http://127.0.0.1:1/", f"{loopback.url}/metrics"])
        monkeypatch.setattr(server.pages[0], "_fetch", lambda: 1)
        server.poll()

    assert server.pages[1].history.during(0, S) == {RUNNING: 2, WAITING: 1}
    assert [record.levelname for record in caplog.records] == ["ERROR"]
