"""The scripted transport is exact to the nanosecond, with every supported client library."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from latspan.errors import MissingExtraError
from latspan.testing import Ending, ManualClock, PayloadPart, Script, ScriptStep, ServedRequest
from latspan.testing import scripted_transport as _scripted_transport

MS = 1_000_000
NET: Mapping[str, int] = {
    "connect_ns": 3 * MS,
    "tls_ns": 5 * MS,
    "send_ns": 7,
    "network_ns": 2 * MS,
}
BODY: dict[str, Any] = {"messages": [], "stream": True}

# The overload that applies is only known when a test runs.
make_transport: Any = _scripted_transport


@dataclass
class Client:
    """
    A client of one of four kinds over a scripted transport, with one interface.

    Args:
        name: The client library.
        asynchronous: Whether its asynchronous client is used.
    """

    name: str
    asynchronous: bool
    clock: ManualClock = field(default_factory=lambda: ManualClock(1_000))
    events: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    reads: list[tuple[int, bytes]] = field(default_factory=list[tuple[int, bytes]])
    served_requests: Callable[[], list[ServedRequest]] = list
    library: Any = None

    def __post_init__(self) -> None:
        self.library = importlib.import_module(self.name)

    async def post(
        self,
        scripts: Script | Iterable[Script],
        *,
        url: str = "http://model/v1/chat/completions",
        requests: int = 1,
        body: dict[str, Any] | None = None,
        think_ns: int = 0,
        leave_after: int | None = None,
        timeout_s: float | None = None,
        net: Mapping[str, int] | None = None,
    ) -> list[int]:
        """Send requests in sequence and record the time of every read; return the statuses."""
        transport = make_transport(
            scripts, self.clock, library=self.name, asynchronous=self.asynchronous, **(net or {})
        )
        self.served_requests = transport.served_requests
        statuses: list[int] = []
        extensions = {"trace": self._trace_async if self.asynchronous else self._trace}
        ask = {"json": body or BODY, "extensions": extensions}
        if self.asynchronous:
            async with self.library.AsyncClient(transport=transport, timeout=timeout_s) as client:
                for _ in range(requests):
                    async with client.stream("POST", url, **ask) as response:
                        statuses.append(response.status_code)
                        parts = response.aiter_raw()
                        async for part in parts:
                            if self._left(part, think_ns, leave_after):
                                break
                        await parts.aclose()
        else:
            with self.library.Client(transport=transport, timeout=timeout_s) as client:
                for _ in range(requests):
                    with client.stream("POST", url, **ask) as response:
                        statuses.append(response.status_code)
                        for part in response.iter_raw():
                            if self._left(part, think_ns, leave_after):
                                break
        return statuses

    def _left(self, part: bytes, think_ns: int, leave_after: int | None) -> bool:
        self.reads.append((self.clock.monotonic_ns(), part))
        self.clock.advance(think_ns)
        return len(self.reads) == leave_after

    def _trace(self, event: str, _info: dict[str, Any]) -> None:
        self.events.append((self.clock.monotonic_ns(), event))

    async def _trace_async(self, event: str, info: dict[str, Any]) -> None:
        self._trace(event, info)

    def took(self, event: str) -> int:
        """Return the duration of the phase ``event``, in nanoseconds."""
        stamps = {name: instant_ns for instant_ns, name in self.events}
        return stamps[f"{event}.complete"] - stamps[f"{event}.started"]


@pytest.fixture(params=["httpx-sync", "httpx-async", "httpx2-sync", "httpx2-async"])
def client(request: pytest.FixtureRequest) -> Client:
    """A client of each kind whose library is installed."""
    name, _, kind = str(request.param).partition("-")
    pytest.importorskip(name, reason=f"{name} is not installed")
    return Client(name, kind == "async")


async def test_every_chunk_arrives_at_its_scripted_time(client: Client) -> None:
    """Connection, sending, queue, prefill, gaps and both directions of the network are exact."""
    script = Script.chat(tokens=3, queue_ms=11, prefill_ms=30, gap_ms=10)
    await client.post(script, net=NET)

    sent_ns = 1_000 + 3 * MS + 7
    first_ns = sent_ns + 2 * MS + 41 * MS + 2 * MS
    stamps = [instant_ns for instant_ns, _ in client.reads]
    # Bytes that arrive together are returned chunk by chunk, at one instant.
    assert list(dict.fromkeys(stamps)) == [first_ns, first_ns + 10 * MS, first_ns + 20 * MS]


async def test_served_requests_record_the_servers_times(client: Client) -> None:
    """They differ from the client's times by one network delay."""
    script = Script.chat(tokens=2, queue_ms=11, prefill_ms=30, gap_ms=10)
    await client.post(script, net=NET)

    (served,) = client.served_requests()
    accepted_ns = 1_000 + 3 * MS + 7 + 2 * MS
    slot_ns = accepted_ns + 11 * MS
    assert served.status == 200
    assert served.request_json == BODY
    assert served.accepted_ns == accepted_ns
    assert served.slot_ns == slot_ns
    assert served.headers_ns == slot_ns
    assert served.token_ns == (slot_ns + 30 * MS, slot_ns + 40 * MS)
    assert served.end_ns == slot_ns + 40 * MS
    assert client.reads[0][0] == served.token_ns[0] + 2 * MS


async def test_a_plain_server_sends_its_headers_immediately(client: Client) -> None:
    """The wait for the headers does not include the queue."""
    await client.post(
        Script.chat(tokens=1, queue_ms=11, flavor="plain"), net={"network_ns": 2 * MS}
    )

    (served,) = client.served_requests()
    assert served.headers_ns == served.accepted_ns
    assert client.took("http11.receive_response_headers") == 4 * MS


async def test_a_slow_reader_receives_waiting_chunks_together(client: Client) -> None:
    """The server keeps its schedule; chunks that have accumulated are returned at one instant."""
    script = Script.chat(tokens=5, prefill_ms=10, gap_ms=10)
    await client.post(script, think_ns=25 * MS)

    (served,) = client.served_requests()
    assert served.token_ns[-1] == served.accepted_ns + 50 * MS
    instants = [instant_ns - served.accepted_ns for instant_ns, _ in client.reads]
    # Read at 10 ms, and again at 35 ms, when the tokens of 20 and 30 ms have arrived.
    assert instants[:2] == [10 * MS, 35 * MS]


async def test_the_librarys_trace_events_time_the_phases(client: Client) -> None:
    """Its own events cover the connection, the handshake and the sending."""
    await client.post(Script.chat(tokens=1), url="https://model/v1/chat/completions", net=NET)

    assert client.took("connection.connect_tcp") == 3 * MS
    assert client.took("connection.start_tls") == 5 * MS
    assert client.took("http11.send_request_headers") == 0
    assert client.took("http11.send_request_body") == 7


async def test_a_fully_read_connection_is_reused(client: Client) -> None:
    """The second request does not connect."""
    await client.post(Script.chat(tokens=1), requests=2, net=NET)

    names = [name for _, name in client.events]
    assert names.count("connection.connect_tcp.complete") == 1
    assert [served.connection for served in client.served_requests()] == [0, 0]


async def test_scripts_are_served_in_order(client: Client) -> None:
    """A refusal, then a chat response."""
    scripts = [Script.refused(429, retry_after_s=1), Script.chat(tokens=1)]

    assert await client.post(scripts, requests=2) == [429, 200]


async def test_an_unstreamed_response_arrives_when_a_stream_would_end(client: Client) -> None:
    """Headers and body arrive together."""
    script = Script.chat(tokens=3, prefill_ms=30, gap_ms=10)
    await client.post(script, body={"messages": []}, net={"network_ns": MS})

    assert [instant_ns for instant_ns, _ in client.reads] == [1_000 + MS + 50 * MS + MS]


async def test_a_long_wait_raises_the_librarys_read_timeout(client: Client) -> None:
    """The clock is exactly at the limit afterwards."""
    script = Script.chat(tokens=2, prefill_ms=10, gap_ms=1_000)
    with pytest.raises(client.library.ReadTimeout):
        await client.post(script, timeout_s=0.5)

    assert client.clock.monotonic_ns() == 1_000 + 10 * MS + 500 * MS
    (served,) = client.served_requests()
    assert served.cancelled_ns == client.clock.monotonic_ns()
    assert served.token_ns == (served.accepted_ns + 10 * MS,)


async def test_a_long_connect_raises_the_librarys_connect_timeout(client: Client) -> None:
    """No request was sent."""
    with pytest.raises(client.library.ConnectTimeout):
        await client.post(Script.chat(), timeout_s=0.001, net=NET)

    assert client.clock.monotonic_ns() == 1_000 + MS
    assert client.served_requests() == []


async def test_a_refused_connection_raises_the_librarys_connect_error(client: Client) -> None:
    """The attempt takes its scripted time."""
    with pytest.raises(client.library.ConnectError):
        await client.post(Script.unreachable_server(), net={"connect_ns": 4 * MS})

    assert client.clock.monotonic_ns() == 1_000 + 4 * MS


async def test_a_reset_arrives_after_all_written_chunks(client: Client) -> None:
    """Every chunk is read, then the library's read error is raised."""
    script = Script.chat(tokens=2, gap_ms=10, ending=Ending.RESET)
    with pytest.raises(client.library.ReadError):
        await client.post(script)

    assert b"text1" in client.reads[-1][1]


async def test_a_truncated_body_raises_the_librarys_protocol_error(client: Client) -> None:
    """The connection ends inside the body."""
    with pytest.raises(client.library.RemoteProtocolError):
        await client.post(Script.chat(tokens=2, ending=Ending.CUT))


async def test_the_server_sees_a_close_after_one_network_delay(client: Client) -> None:
    """It does not write the chunks that would follow."""
    script = Script.chat(tokens=9, prefill_ms=10, gap_ms=10)
    await client.post(script, leave_after=2, net={"network_ns": 3 * MS})

    (served,) = client.served_requests()
    assert served.end_ns is None
    received_ns = client.reads[-1][0] + 3 * MS
    assert served.cancelled_ns == received_ns
    assert all(instant_ns <= received_ns for instant_ns, _ in served.chunk_ns)


async def test_comments_and_empty_deltas_arrive_during_the_prefill(client: Client) -> None:
    """The first bytes need not contain a token."""
    script = Script(
        prefill_ns=50 * MS,
        lead=(
            ScriptStep(PayloadPart.COMMENT, gap_ns=10 * MS, text="ping"),
            ScriptStep(PayloadPart.EMPTY, gap_ns=5 * MS),
        ),
        steps=(ScriptStep(PayloadPart.TEXT, text="hi", tokens=1),),
    )
    await client.post(script)

    (served,) = client.served_requests()
    assert served.first_token_ns == served.accepted_ns + 50 * MS
    assert [instant_ns - 1_000 for instant_ns, _ in client.reads[:3]] == [
        10 * MS,
        15 * MS,
        50 * MS,
    ]


async def test_an_invalid_request_gets_its_error_status(client: Client) -> None:
    """The transport is as strict as the scripted server."""
    assert await client.post(Script.chat(), url="http://model/elsewhere") == [404]


async def test_a_patched_method_of_the_librarys_class_sees_the_request(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Instrumentations patch the class, and the scripted transport inherits from it."""
    seen: list[object] = []
    kind = (
        client.library.AsyncHTTPTransport if client.asynchronous else client.library.HTTPTransport
    )
    method = "handle_async_request" if client.asynchronous else "handle_request"
    original = getattr(kind, method)

    def patched(self: object, request: object) -> object:
        seen.append(request)
        return original(self, request)

    monkeypatch.setattr(kind, method, patched)
    await client.post(Script.chat(tokens=1))

    assert len(seen) == 1


@pytest.mark.parametrize("name", ["httpx", "httpx2"])
def test_a_missing_library_raises_an_error_that_names_the_extra(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message contains the extra to install."""
    monkeypatch.delitem(sys.modules, f"latspan.testing._transport_{name}", raising=False)
    monkeypatch.setitem(sys.modules, name, None)

    with pytest.raises(MissingExtraError, match=rf"latspan\[{name}\]"):
        make_transport(Script.chat(), ManualClock(), library=name)


def test_negative_times_are_refused() -> None:
    """A network delay cannot be negative."""
    pytest.importorskip("httpx", reason="httpx is not installed")
    with pytest.raises(ValueError, match="at least 0 ns"):
        make_transport(Script.chat(), ManualClock(), library="httpx", network_ns=-1)
