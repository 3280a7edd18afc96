"""However a body is read or left, its exchange ends once, then and as it really did."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable
from typing import Any

import pytest
import requests
import urllib3

from latspan import Kind
from latspan._live.operations import abandon_open_operations
from latspan.integrations import Outcome
from latspan.testing import Captured, ManualClock, RequestRecord, Script
from tests.clients.over_urllib3.scripted import MS, URL, manager_over, network_of, session_over

BODY = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "hello"}]}
SCRIPT = Script.chat(tokens=5, prefill_ms=60, gap_ms=10, flavor="plain")

CONNECT, SEND, WAY = 7 * MS, 3 * MS, 4 * MS
TO_FIRST_TOKEN = CONNECT + SEND + WAY + 60 * MS
WHOLE = TO_FIRST_TOKEN + 40 * MS


def only(seen: Captured) -> RequestRecord:
    (record,) = seen.records
    assert sum(segment.duration_ns for segment in record.segments) == record.duration_ns
    assert len([span for span in seen.spans if span.parent is None]) == 1
    return record


def post(clock: ManualClock, script: Script = SCRIPT, **options: Any) -> requests.Response:
    """Send a chat with requests, its body unread."""
    session = session_over(network_of(script, clock))
    return session.post(URL, json=BODY, stream=True, **options)


def send(clock: ManualClock, script: Script = SCRIPT, **options: Any) -> Any:
    """Send the same with urllib3, its body unread unless that is asked for."""
    # Any: what its versions have in common is not all in the stubs of one.
    manager: Any = manager_over(network_of(script, clock))
    body = json.dumps(BODY).encode()
    return manager.request("POST", URL, **{"body": body, "preload_content": False, **options})


def until_empty(read: Callable[[], bytes | int]) -> None:
    while read():
        pass


def into(raw: Any) -> None:
    buffer = bytearray(64)
    until_empty(lambda: raw.readinto(buffer))


READERS: dict[str, Callable[[requests.Response], object]] = {
    "iter_lines": lambda response: list(response.iter_lines()),
    "iter_lines by bytes": lambda response: list(response.iter_lines(chunk_size=1)),
    "iter_content": lambda response: list(response.iter_content(None)),
    "iteration": list,
    "content": lambda response: response.content,
    "text": lambda response: response.text,
    "raw.read": lambda response: response.raw.read(),
    "raw.read some": lambda response: until_empty(lambda: response.raw.read(64)),
    "raw.readinto": lambda response: into(response.raw),
    "raw.stream": lambda response: list(response.raw.stream(64)),
    "raw.read_chunked": lambda response: list(response.raw.read_chunked()),
    "raw iteration": lambda response: list(response.raw),
    "raw.readlines": lambda response: response.raw.readlines(),
    "raw.data": lambda response: response.raw.data,
}
if hasattr(urllib3.HTTPResponse, "read1"):
    READERS["raw.read1"] = lambda response: until_empty(response.raw.read1)


@pytest.mark.parametrize("reader", READERS)
def test_every_way_to_read_it_all(clock: ManualClock, seen: Captured, reader: str) -> None:
    """It is one call, complete when the end has been read, whatever uses what beneath."""
    READERS[reader](post(clock))
    record = only(seen)
    assert record.kind is Kind.CALL
    assert record.name == "chat m"
    assert record.outcome is Outcome.COMPLETED
    assert record.duration_ns == WHOLE


@pytest.mark.parametrize(
    "reader",
    ["iter_lines", "iter_lines by bytes", "raw.stream", "raw.read_chunked", "iteration"],
)
def test_tokens_are_stamped_as_they_are_read(
    clock: ManualClock, seen: Captured, reader: str
) -> None:
    """Each token once, however many layers hand it on."""
    READERS[reader](post(clock))
    record = only(seen)
    assert record.metrics["time_to_first_token"].value == TO_FIRST_TOKEN
    assert [gap.value for gap in record.chunk_gaps] == [10 * MS] * 4
    assert {total.name: total.duration_ns for total in record.segment_totals} == {
        "connect": CONNECT,
        "send": SEND,
        "server_wait": WAY + 60 * MS,
        "decode": 40 * MS,
    }


@pytest.mark.parametrize("preload", [True, False])
def test_a_body_read_in_one_piece(clock: ManualClock, seen: Captured, preload: bool) -> None:
    """urllib3 reads it before it hands the response over, or when it is asked for."""
    response = send(clock, preload_content=preload)
    assert b"[DONE]" in response.data
    record = only(seen)
    assert (record.kind, record.outcome) == (Kind.CALL, Outcome.COMPLETED)
    assert record.duration_ns == WHOLE
    assert record.chunk_gaps == ()


def test_a_break_ends_the_call_at_once(clock: ManualClock, seen: Captured) -> None:
    """With the response still held, and without the garbage collector."""
    gc.disable()
    try:
        response = post(clock)
        for _ in response.iter_lines():
            break
        record = only(seen)
        clock.advance(500 * MS)
        assert record.outcome is Outcome.CLOSED_EARLY
        assert record.duration_ns == TO_FIRST_TOKEN
        response.close()
        assert only(seen) == record
    finally:
        gc.enable()


def test_a_body_that_is_left_and_cannot_be_read_on(clock: ManualClock, seen: Captured) -> None:
    """urllib3 closes a chunked body that is left, and another iteration finds nothing."""
    response = post(clock)
    for _ in response.iter_content(None):
        break
    clock.advance(3 * MS)
    assert list(response.iter_content(None)) == []
    record = only(seen)
    assert record.outcome is Outcome.CLOSED_EARLY
    assert record.duration_ns == TO_FIRST_TOKEN


def test_inside_with_the_exit_is_the_end(clock: ManualClock, seen: Captured) -> None:
    """What the caller does after a break is its own time, and part of the call."""
    with post(clock) as response:
        for _ in response.iter_lines():
            break
        assert seen.records == ()
        clock.advance(500 * MS)
    record = only(seen)
    assert record.outcome is Outcome.CLOSED_EARLY
    assert record.duration_ns == TO_FIRST_TOKEN + 500 * MS
    assert {t.name: t.duration_ns for t in record.segment_totals}["consumer"] == 500 * MS


def test_inside_with_of_urllib3(clock: ManualClock, seen: Captured) -> None:
    """Its response is a file, which can be entered as well."""
    with send(clock) as response:
        for _ in response.stream():
            break
        assert seen.records == ()
        clock.advance(500 * MS)
    assert only(seen).duration_ns == TO_FIRST_TOKEN + 500 * MS


def test_the_callers_own_error_inside_with(clock: ManualClock, seen: Captured) -> None:
    """The call did not fail; it was left."""

    def fail() -> None:
        with post(clock) as response:
            for _ in response.iter_lines():
                raise LookupError

    with pytest.raises(LookupError):
        fail()
    assert only(seen).outcome is Outcome.CLOSED_EARLY


LEAVERS: dict[str, Callable[[Any], object]] = {
    "close": lambda raw: raw.close(),
    "release_conn": lambda raw: raw.release_conn(),
    "drain_conn": lambda raw: raw.drain_conn(),
}


@pytest.mark.parametrize("leaver", ["close", "release_conn"])
@pytest.mark.parametrize("read", [True, False])
def test_every_way_to_leave_it(clock: ManualClock, seen: Captured, leaver: str, read: bool) -> None:
    """Unread or half read, it is over then, and no error."""
    response = send(clock)
    if read:
        response.read(256)
    LEAVERS[leaver](response)
    record = only(seen)
    clock.advance(500 * MS)
    response.close()
    assert record.outcome is Outcome.CLOSED_EARLY
    assert record.kind is (Kind.CALL if read else Kind.HTTP)
    assert record.duration_ns == (TO_FIRST_TOKEN if read else CONNECT + SEND + WAY)


def test_what_is_drained_was_left(clock: ManualClock, seen: Captured) -> None:
    """Reading the rest to throw it away is not to want it."""
    response = send(clock)
    response.read(256)
    response.drain_conn()
    record = only(seen)
    assert record.outcome is Outcome.CLOSED_EARLY
    assert record.duration_ns == WHOLE


def test_what_was_read_to_the_end_stays_so(clock: ManualClock, seen: Captured) -> None:
    """Closed, released and dropped afterwards, as careful programs do."""
    response = send(clock)
    list(response.stream())
    record = only(seen)
    clock.advance(500 * MS)
    for leave in LEAVERS.values():
        leave(response)
    assert only(seen) == record
    assert record.outcome is Outcome.COMPLETED


@pytest.mark.parametrize("client", [post, send])
def test_a_response_that_is_not_read(
    clock: ManualClock, seen: Captured, client: Callable[..., Any]
) -> None:
    """For its caller it was over with the headers; the garbage collector only says so later."""
    response = client(clock)
    clock.advance(500 * MS)
    del response
    record = only(seen)
    assert record.outcome is Outcome.ABANDONED
    assert record.duration_ns == CONNECT + SEND + WAY


def test_a_response_that_is_dropped_half_read(clock: ManualClock, seen: Captured) -> None:
    """The last read was the end."""
    response = send(clock)
    response.read(256)
    clock.advance(500 * MS)
    del response
    record = only(seen)
    assert record.outcome is Outcome.CLOSED_EARLY
    assert record.duration_ns == TO_FIRST_TOKEN


def test_a_response_that_is_open_at_shutdown(clock: ManualClock, seen: Captured) -> None:
    """Nothing that was begun is lost."""
    response = post(clock)
    abandon_open_operations()
    assert only(seen).outcome is Outcome.ABANDONED
    response.close()
    assert only(seen).outcome is Outcome.ABANDONED


@pytest.mark.parametrize(
    ("ending", "outcome"),
    [("cut", Outcome.ERROR), ("reset", Outcome.ERROR), ("error", Outcome.ERROR)],
)
def test_a_body_that_breaks_off(
    clock: ManualClock, seen: Captured, ending: str, outcome: Outcome
) -> None:
    """The client raises what it raises without latspan; an error's payload it does not see."""
    script = Script.chat(tokens=5, prefill_ms=60, ending=ending, flavor="plain")
    response = post(clock, script)
    if ending == "error":
        response.content  # noqa: B018 - a property that reads
    else:
        with pytest.raises(requests.exceptions.ChunkedEncodingError):
            response.content  # noqa: B018 - a property that reads
    record = only(seen)
    assert record.outcome is outcome
    assert len(record.chunk_gaps) == 4


def test_a_body_without_its_end_mark(clock: ManualClock, seen: Captured) -> None:
    """The client saw nothing wrong; there was no finish reason."""
    list(post(clock, Script.chat(tokens=5, ending="truncated", flavor="plain")).iter_lines())
    assert only(seen).outcome is Outcome.TRUNCATED


def test_a_timeout_before_the_answer(clock: ManualClock, seen: Captured) -> None:
    """The server took longer than the client would wait."""
    with pytest.raises(requests.exceptions.ReadTimeout):
        post(clock, Script.chat(queue_ms=60_000), timeout=2)
    record = only(seen)
    assert record.outcome is Outcome.TIMEOUT
    assert {t.name: t.duration_ns for t in record.segment_totals}["server_wait"] == 2_000 * MS


def test_a_timeout_inside_the_body(clock: ManualClock, seen: Captured) -> None:
    """To requests it is a connection error; it was a timeout."""
    response = post(clock, Script.chat(tokens=5, gap_ms=60_000, flavor="plain"), timeout=2)
    with pytest.raises(requests.exceptions.ConnectionError):
        list(response.iter_lines())
    assert only(seen).outcome is Outcome.TIMEOUT


@pytest.mark.parametrize(
    ("status", "retry_after_s", "outcome"),
    [
        (429, None, Outcome.REJECTED),
        (503, 1.0, Outcome.REJECTED),
        (503, None, Outcome.ERROR),
        (404, None, Outcome.ERROR),
    ],
)
def test_a_refusal_has_the_outcome_of_its_status(
    clock: ManualClock,
    seen: Captured,
    status: int,
    retry_after_s: float | None,
    outcome: Outcome,
) -> None:
    """Nothing is raised for it, and latspan says nothing of the message."""
    script = Script.refused(status, retry_after_s=retry_after_s, error="secret")
    response = session_over(network_of(script, clock)).post(URL, json=BODY)
    assert response.status_code == status
    record = only(seen)
    assert (record.kind, record.outcome) == (Kind.HTTP, outcome)
    (span,) = seen.spans[-1:]
    assert (span.attributes or {})["error.type"] == str(status)
    assert "secret" not in str(span.to_json())


def test_reader_bound_chunks_are_the_callers(clock: ManualClock, seen: Captured) -> None:
    """A caller who holds each chunk longer than the server takes for one is told from it."""
    for line in post(clock).iter_lines():
        if b"text" in line:
            clock.advance(25 * MS)
    record = only(seen)
    assert {t.name: t.duration_ns for t in record.segment_totals}["consumer"] == 125 * MS
