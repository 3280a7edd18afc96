"""
Gateways and network paths between a client and a server, each a process of its own.

``through`` starts one in front of one or more addresses. A ``Link`` relays bytes and knows nothing
about HTTP; a ``Gateway`` relays HTTP/1.1 requests and their responses. They can be chained. The
process prints ``{"port": N}`` when it accepts connections, and runs until it is ended.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import json
import math
import os
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import urlsplit

CERTIFICATE: Final = Path(__file__).parents[3] / "tests" / "data" / "loopback.pem"
"""Key and self-signed certificate for ``127.0.0.1``; a client trusts it by ``SSL_CERT_FILE``."""

_PIECE: Final = 16_384
"""Number of bytes that are read at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """
    A network path: it relays bytes, late and in order.

    Args:
        one_way_ms: Delay of every packet, in each direction.
        up_kb_per_s: Bandwidth towards the server, shared by all connections; 0 for no limit.
        down_kb_per_s: Bandwidth towards the client.
        late_share: Share of the packets that are late, as after a retransmission. The packets
            behind a late one wait for it.
        late_ms: Range of that delay.
        late_up: Whether packets towards the server can be late.
        late_down: Whether packets towards the client can be late.
        weather_every_ms: Period of a disturbance that meets all connections; 0 for none.
        weather_lasts_ms: How long the disturbance lasts.
        weather_ms: Further one-way delay in the disturbance; 0: packets wait until its end.
        clump_ms: Packets towards the client leave only at multiples of this time; 0: at once.
        far_share: Share of the connections that take a longer way.
        far_ms: Further one-way delay of the longer way.
        handshake_ms: Time until a new connection carries its first packet, as after a TCP handshake
            over a long way; the client's own handshake ends at the relay, at once.
        accept_ms: Time until a new connection is served, one after another.
        asleep_after_ms: Idle time after which the path falls asleep; 0 for never.
        wake_ms: Delay of the packet that wakes the path.
        is_dead: Whether the path swallows what it gets and never answers.
        seed: Seed of the random choices.
    """

    one_way_ms: float = 0.0
    up_kb_per_s: float = 0.0
    down_kb_per_s: float = 0.0
    late_share: float = 0.0
    late_ms: tuple[float, float] = (0.0, 0.0)
    late_up: bool = True
    late_down: bool = True
    weather_every_ms: float = 0.0
    weather_lasts_ms: float = 0.0
    weather_ms: float = 0.0
    clump_ms: float = 0.0
    far_share: float = 0.0
    far_ms: float = 0.0
    handshake_ms: float = 0.0
    accept_ms: float = 0.0
    asleep_after_ms: float = 0.0
    wake_ms: float = 0.0
    is_dead: bool = False
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """
    An HTTP gateway: it holds, refuses, distributes and buffers ``POST`` requests.

    Other requests are relayed at once.

    Args:
        tls: Whether clients connect over TLS.
        at_once: Number of requests that may be at the servers at once; 0 for no limit.
        reports: How the gateway reports the time for which it held a request: not at all, as the
            entry ``gateway`` of ``Server-Timing``, or as LiteLLM's overhead. ``envoy`` reports the
            time behind the gateway instead.
        others_per_s: Rate of other users' requests, which the client does not see; each takes one
            of the ``at_once`` places.
        others_ms: Mean time of such a request.
        last_model: Model whose requests get a place only if no other request waits.
        rate_per_s: Rate of a token bucket; 0 for none.
        burst: Number of requests that may pass the bucket at once.
        refuses: Whether the bucket refuses requests with the status 429 instead of holding them.
        refused_share: Share of the requests that are refused with the status 503.
        lookup_ms: Time of a lookup before each request, for example of its key.
        lookup_ms_per_kb: The same for each kilobyte of the request, for example of a filter.
        lookup_model: Model whose requests alone need the lookup; empty for all.
        lookups_at_once: Number of lookups at once; 0 for no limit.
        refresh_every_ms: How long a credential of the gateway is valid; 0 for always.
        refresh_ms: Time of a renewal, for which all requests wait.
        asleep_after_ms: Idle time after which the server is switched off; 0 for never.
        wake_ms: Time until it is on again.
        upstream_connect_ms: Time of the handshake with the server; each request opens a new
            connection if it is positive.
        try_timeout_ms: Time after which the gateway sends a request to the next server; 0 for
            never.
        server_of_model: Server of each model, by its place in the list; other requests take turns.
        buffers_kb: Amount of a response that is collected and released together; infinite for the
            whole response, 0 for none.
        flush_ms: Interval at which the collected part of a response is released; 0: at once.
        pace_ms: Least time between two parts of a response.
        blocks_every_ms: Mean interval at which the gateway does nothing else; 0 for never.
        blocks_ms: Range of the time for which it does nothing.
        responses_per_connection: Number of responses after which a connection is closed; 0 for
            no limit.
        idle_ms: Idle time after which a connection is closed; 0 for no limit.
        seed: Seed of the random choices.
    """

    tls: bool = False
    at_once: int = 0
    reports: Literal["", "server_timing", "litellm", "envoy"] = ""
    others_per_s: float = 0.0
    others_ms: float = 0.0
    last_model: str = ""
    rate_per_s: float = 0.0
    burst: int = 1
    refuses: bool = False
    refused_share: float = 0.0
    lookup_ms: float = 0.0
    lookup_ms_per_kb: float = 0.0
    lookup_model: str = ""
    lookups_at_once: int = 0
    refresh_every_ms: float = 0.0
    refresh_ms: float = 0.0
    asleep_after_ms: float = 0.0
    wake_ms: float = 0.0
    upstream_connect_ms: float = 0.0
    try_timeout_ms: float = 0.0
    server_of_model: Mapping[str, int] = field(default_factory=dict[str, int])
    buffers_kb: float = 0.0
    flush_ms: float = 0.0
    pace_ms: float = 0.0
    blocks_every_ms: float = 0.0
    blocks_ms: tuple[float, float] = (0.0, 0.0)
    responses_per_connection: int = 0
    idle_ms: float = 0.0
    seed: int = 0


@contextmanager
def through(config: Link | Gateway, *urls: str) -> Generator[str]:
    """
    Run a proxy in front of servers, and give the address that a client uses instead of theirs.

    Args:
        config: What the proxy does.
        urls: Addresses of the servers; their paths are equal, and a link has one server.
    """
    written = json.dumps({"kind": type(config).__name__, "urls": urls, "config": asdict(config)})
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "diagnosis.sockets._proxies", written],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
    )
    try:
        assert process.stdout is not None  # noqa: S101 - a pipe was asked for
        port = json.loads(process.stdout.readline())["port"]
        ends_tls = isinstance(config, Gateway)
        scheme = ("https" if config.tls else "http") if ends_tls else urlsplit(urls[0]).scheme
        yield f"{scheme}://127.0.0.1:{port}{urlsplit(urls[0]).path}"
    finally:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


class _Way:
    """One direction of a link, with the packets of all its connections."""

    def __init__(self, link: Link, kb_per_s: float, *, can_be_late: bool, clump_ms: float) -> None:
        self._link = link
        self._bytes_per_s = kb_per_s * 1000
        self._late_share = link.late_share if can_be_late else 0.0
        self._clump_s = clump_ms / 1000
        self._free_at = 0.0

    def transmitted_at(self, size: int, now: float) -> float:
        """Return the instant at which the bytes have left, and take the way until then."""
        if not self._bytes_per_s:
            return now
        self._free_at = max(self._free_at, now) + size / self._bytes_per_s
        return self._free_at

    def arrives_at(self, sent_at: float, began_at: float, random: Random) -> float:
        """Return the instant at which a packet arrives that left at an instant."""
        link = self._link
        at = sent_at + link.one_way_ms / 1000
        if random.random() < self._late_share:
            at += random.uniform(*link.late_ms) / 1000
        if link.weather_every_ms:
            # The first disturbance comes after a whole period.
            phase_ms = (sent_at - began_at) * 1000 % link.weather_every_ms
            left_ms = phase_ms - (link.weather_every_ms - link.weather_lasts_ms)
            if left_ms > 0:
                at += (link.weather_ms or link.weather_lasts_ms - left_ms) / 1000
        if self._clump_s:
            at = math.ceil(at / self._clump_s) * self._clump_s
        return at


class _LinkRelay:
    """Relays the connections of a link."""

    def __init__(self, link: Link, url: str) -> None:
        address = urlsplit(url)
        self._link = link
        self._host, self._port = address.hostname or "", address.port or 0
        self._random = Random(link.seed)  # noqa: S311 - a benchmark
        self._up = _Way(link, link.up_kb_per_s, can_be_late=link.late_up, clump_ms=0.0)
        self._down = _Way(
            link, link.down_kb_per_s, can_be_late=link.late_down, clump_ms=link.clump_ms
        )
        self._began_at = time.monotonic()
        self._active_at = -math.inf
        self._awake_at = -math.inf
        self._accepting = asyncio.Lock()

    async def connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Relay a connection until one side ends it."""
        if self._link.accept_ms:
            async with self._accepting:
                await asyncio.sleep(self._link.accept_ms / 1000)
        await asyncio.sleep(self._link.handshake_ms / 1000)
        if self._link.is_dead:
            while await reader.read(_PIECE):
                pass
            return
        is_far = self._random.random() < self._link.far_share
        far_s = self._link.far_ms / 1000 if is_far else 0.0
        back, onward = await asyncio.open_connection(self._host, self._port)
        async with _closed(onward):
            ways = [
                asyncio.create_task(self._relay(reader, onward, self._up, far_s)),
                asyncio.create_task(self._relay(back, writer, self._down, far_s)),
            ]
            await _first_of(ways)

    async def _relay(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: _Way, far_s: float
    ) -> None:
        """Relay one direction of a connection until its sender ends it."""
        on_the_way: asyncio.Queue[tuple[float, bytes] | None] = asyncio.Queue()
        arriving = asyncio.create_task(_arrive(on_the_way, writer))
        last = 0.0
        # A small piece, so that connections take turns on a slow way.
        piece = 2048 if self._link.up_kb_per_s or self._link.down_kb_per_s else _PIECE
        try:
            while data := await reader.read(piece):
                now = time.monotonic()
                sent_at = way.transmitted_at(len(data), now)
                # The sender of a slow way is held back, so that its own buffers fill.
                await asyncio.sleep(sent_at - now) if sent_at > now else None
                woken_at = self._woken_at(sent_at)
                arrives_at = way.arrives_at(woken_at, self._began_at, self._random) + far_s
                last = max(last, arrives_at)
                on_the_way.put_nowait((last, data))
            on_the_way.put_nowait(None)
            await arriving
        finally:
            arriving.cancel()

    def _woken_at(self, now: float) -> float:
        """Return when a packet of an instant leaves a path that may be asleep."""
        link = self._link
        if not link.asleep_after_ms:
            return now
        if now - self._active_at > link.asleep_after_ms / 1000:
            self._awake_at = now + link.wake_ms / 1000
        at = max(now, self._awake_at)
        self._active_at = at
        return at


async def _arrive(
    on_the_way: asyncio.Queue[tuple[float, bytes] | None], writer: asyncio.StreamWriter
) -> None:
    """Write each packet at its instant, until the end."""
    while (packet := await on_the_way.get()) is not None:
        at, data = packet
        wait_s = at - time.monotonic()
        if wait_s > 0:
            await asyncio.sleep(wait_s)
        writer.write(data)
        await writer.drain()


class _Head(NamedTuple):
    """
    The head of a request or a response.

    Args:
        start: First line.
        headers: Headers by lower-case name.
    """

    start: str
    headers: dict[str, str]

    def encoded(self) -> bytes:
        """Return the head as bytes."""
        lines = [self.start, *(f"{name}: {value}" for name, value in self.headers.items())]
        return "\r\n".join([*lines, "", ""]).encode("latin-1")


class _Request(NamedTuple):
    """
    A request that the gateway has read whole.

    Args:
        head: Head.
        body: Body.
    """

    head: _Head
    body: bytes

    @property
    def model(self) -> str:
        """Return the requested model."""
        return str(json.loads(self.body).get("model", ""))

    @property
    def is_inference(self) -> bool:
        """Return whether a model has to run."""
        return self.head.start.startswith("POST ")


class _Upstream(NamedTuple):
    """
    A connection to a server.

    Args:
        reader: What the server sends.
        writer: What the server gets.
    """

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


class _Places:
    """Places for requests at the servers, given in order of arrival within a priority."""

    def __init__(self, count: int) -> None:
        self._free = count or sys.maxsize
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._order = itertools.count()

    @asynccontextmanager
    async def taken(self, priority: int = 0) -> AsyncGenerator[None]:
        """Wait for a place, and keep it inside the block."""
        if self._free:
            self._free -= 1
        else:
            mine = asyncio.get_running_loop().create_future()
            heapq.heappush(self._waiting, (priority, next(self._order), mine))
            await mine
        try:
            yield
        finally:
            self._pass_on()

    def _pass_on(self) -> None:
        """Give a place to the next request that waits."""
        while self._waiting:
            future = heapq.heappop(self._waiting)[2]
            if not future.done():
                future.set_result(None)
                return
        self._free += 1


class _GatewayRelay:
    """Relays the requests of a gateway."""

    def __init__(self, gateway: Gateway, urls: list[str]) -> None:
        self._gateway = gateway
        addresses = [urlsplit(url) for url in urls]
        self._servers = [(each.hostname or "", each.port or 0) for each in addresses]
        self._idle: list[list[_Upstream]] = [[] for _ in urls]
        self._turn = itertools.count()
        self._random = Random(gateway.seed)  # noqa: S311 - a benchmark
        self._places = _Places(gateway.at_once)
        self._lookups = _Places(gateway.lookups_at_once)
        self._passes_at = -math.inf
        self._renewing = asyncio.Lock()
        self._valid_until = -math.inf
        self._active = 0
        self._active_at = time.monotonic()
        self._waking = asyncio.Lock()

    def background(self) -> list[Coroutine[Any, Any, None]]:
        """Return what the gateway does besides the client's requests."""
        own: list[Coroutine[Any, Any, None]] = []
        if self._gateway.others_per_s:
            own.append(self._others())
        if self._gateway.blocks_every_ms:
            own.append(self._blocks())
        return own

    async def connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of a connection until one side ends it."""
        gateway = self._gateway
        for number in itertools.count(1):
            # The first request may be late for other reasons, such as a handshake.
            idle_s = gateway.idle_ms / 1000 if gateway.idle_ms and number > 1 else None
            async with asyncio.timeout(idle_s):
                head = await _read_head(reader)
            body = b"".join([each async for each in _pieces(reader, head, until_end=False)])
            closes = number == gateway.responses_per_connection
            await self._respond(_Request(head, body), writer, closes=closes)
            if closes or head.headers.get("connection", "").lower() == "close":
                return

    async def _respond(
        self, request: _Request, writer: asyncio.StreamWriter, *, closes: bool
    ) -> None:
        """Answer a request."""
        if not request.is_inference:
            await self._exchange(request, writer, time.monotonic(), closes=closes)
            return
        arrived_at = time.monotonic()
        refusal = self._refusal(arrived_at)
        if refusal is not None:
            writer.write(refusal)
            await writer.drain()
            return
        await self._awake()
        self._active += 1
        try:
            await self._pass_bucket()
            await self._look_up(request)
            await self._renew()
            is_last = request.model == self._gateway.last_model
            async with self._places.taken(priority=int(is_last)):
                await self._exchange(request, writer, arrived_at, closes=closes)
        finally:
            self._active -= 1
            self._active_at = time.monotonic()

    def _refusal(self, now: float) -> bytes | None:
        """Return the response to a request that the gateway refuses."""
        gateway = self._gateway
        if gateway.refused_share and self._random.random() < gateway.refused_share:
            return _refusal("503 Service Unavailable", retry_after=None)
        if not gateway.refuses:
            return None
        wait_s = self._bucket_wait_s(now)
        return _refusal("429 Too Many Requests", retry_after=wait_s) if wait_s > 0 else None

    async def _pass_bucket(self) -> None:
        """Wait until the token bucket lets a request pass."""
        if self._gateway.rate_per_s and not self._gateway.refuses:
            await asyncio.sleep(max(self._bucket_wait_s(time.monotonic()), 0.0))

    def _bucket_wait_s(self, now: float) -> float:
        """Return how long a request has to wait; take its token unless the bucket refuses it."""
        gateway = self._gateway
        gap_s = 1 / gateway.rate_per_s
        earliest = max(self._passes_at, now - (gateway.burst - 1) * gap_s)
        wait_s = earliest - now
        if wait_s <= 0 or not gateway.refuses:
            self._passes_at = earliest + gap_s
        return wait_s

    async def _look_up(self, request: _Request) -> None:
        """Do the lookup of a request."""
        gateway = self._gateway
        if gateway.lookup_model and request.model != gateway.lookup_model:
            return
        wait_ms = gateway.lookup_ms + gateway.lookup_ms_per_kb * len(request.body) / 1000
        if wait_ms:
            async with self._lookups.taken():
                await asyncio.sleep(wait_ms / 1000)

    async def _renew(self) -> None:
        """Renew the gateway's credential if it has expired."""
        gateway = self._gateway
        if not gateway.refresh_every_ms:
            return
        async with self._renewing:
            if time.monotonic() > self._valid_until:
                await asyncio.sleep(gateway.refresh_ms / 1000)
                self._valid_until = time.monotonic() + gateway.refresh_every_ms / 1000

    async def _awake(self) -> None:
        """Switch the server on if it was idle for too long."""
        gateway = self._gateway
        if not gateway.asleep_after_ms:
            return
        async with self._waking:
            idle_s = time.monotonic() - self._active_at
            if not self._active and idle_s > gateway.asleep_after_ms / 1000:
                await asyncio.sleep(gateway.wake_ms / 1000)
                self._active_at = time.monotonic()

    async def _exchange(
        self, request: _Request, writer: asyncio.StreamWriter, arrived_at: float, *, closes: bool
    ) -> None:
        """Send a request to a server, and its response to the client."""
        sent_at, server, upstream, head = await self._answered(request)
        headers = {**head.headers, **self._report(head, arrived_at, sent_at)}
        headers["connection"] = "close" if closes else "keep-alive"
        has_length = "content-length" in headers
        if not has_length:
            headers["transfer-encoding"] = "chunked"
        try:
            writer.write(_Head(head.start, headers).encoded())
            pieces = _pieces(upstream.reader, head, until_end=True)
            async for data in self._released(pieces):
                writer.write(data if has_length else b"%x\r\n%b\r\n" % (len(data), data))
                await writer.drain()
            writer.write(b"" if has_length else b"0\r\n\r\n")
            await writer.drain()
        except BaseException:
            upstream.writer.close()
            raise
        if self._gateway.upstream_connect_ms or head.headers.get("connection") == "close":
            upstream.writer.close()
        else:
            self._idle[server].append(upstream)

    async def _answered(self, request: _Request) -> tuple[float, int, _Upstream, _Head]:
        """Return when and where a request was sent that got an answer, and its head."""
        server = self._server_of(request)
        while True:
            with suppress(TimeoutError):
                sent_at, upstream, head = await self._tried(request, server)
                return sent_at, server, upstream, head
            server = (server + 1) % len(self._servers)

    async def _tried(self, request: _Request, server: int) -> tuple[float, _Upstream, _Head]:
        """Send a request to a server, and read the head of its response within the time limit."""
        while True:
            is_used = bool(self._idle[server])
            upstream = self._idle[server].pop() if is_used else await self._connect(server)
            sent_at = time.monotonic()
            try:
                upstream.writer.write(request.head.encoded() + request.body)
                await upstream.writer.drain()
                async with asyncio.timeout(self._gateway.try_timeout_ms / 1000 or None):
                    return sent_at, upstream, await _read_head(upstream.reader)
            except (OSError, EOFError) as error:
                upstream.writer.close()
                # The server may have closed a connection that it had kept.
                if isinstance(error, TimeoutError) or not is_used:
                    raise

    def _server_of(self, request: _Request) -> int:
        """Return the server whose turn it is, or that of the request's model."""
        if not request.is_inference:
            return 0
        of_model = self._gateway.server_of_model.get(request.model)
        return next(self._turn) % len(self._servers) if of_model is None else of_model

    async def _connect(self, server: int) -> _Upstream:
        """Open a connection to a server."""
        await asyncio.sleep(self._gateway.upstream_connect_ms / 1000)
        return _Upstream(*await asyncio.open_connection(*self._servers[server]))

    def _report(self, head: _Head, arrived_at: float, sent_at: float) -> dict[str, str]:
        """Return the headers with which the gateway reports its time."""
        held_ms = f"{(sent_at - arrived_at) * 1000:.1f}"
        match self._gateway.reports:
            case "server_timing":
                own = f"gateway;dur={held_ms}"
                theirs = head.headers.get("server-timing")
                return {"server-timing": f"{theirs}, {own}" if theirs else own}
            case "litellm":
                return {"x-litellm-overhead-duration-ms": held_ms}
            case "envoy":
                behind_ms = (time.monotonic() - sent_at) * 1000
                return {"x-envoy-upstream-service-time": f"{behind_ms:.0f}", "server": "envoy"}
            case _:
                return {}

    async def _released(self, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Give the parts of a body when the gateway releases them."""
        gateway = self._gateway
        if gateway.flush_ms or gateway.pace_ms:
            async for data in self._at_intervals(pieces):
                yield data
            return
        collected = b""
        async for data in pieces:
            collected += data
            if len(collected) >= gateway.buffers_kb * 1000:
                yield collected
                collected = b""
        if collected:
            yield collected

    async def _at_intervals(self, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Give all collected parts, or one part, at each interval."""
        gateway = self._gateway
        arrived: asyncio.Queue[bytes] = asyncio.Queue()

        async def read() -> None:
            async for data in pieces:
                arrived.put_nowait(data)
            arrived.put_nowait(b"")

        reading = asyncio.create_task(read())
        try:
            while True:
                if gateway.flush_ms:
                    await asyncio.sleep(gateway.flush_ms / 1000)
                together = [await arrived.get()]
                while gateway.flush_ms and not arrived.empty():
                    together.append(arrived.get_nowait())
                if data := b"".join(together):
                    yield data
                if not together[-1]:
                    return
                await asyncio.sleep(gateway.pace_ms / 1000)
        finally:
            reading.cancel()

    async def _others(self) -> None:
        """Take places for other users' requests."""
        gateway = self._gateway
        running: set[asyncio.Task[None]] = set()
        while True:
            await asyncio.sleep(self._random.expovariate(gateway.others_per_s))
            task = asyncio.create_task(self._other(self._random.expovariate(1 / gateway.others_ms)))
            running.add(task)
            task.add_done_callback(running.discard)

    async def _other(self, takes_ms: float) -> None:
        """Take a place for another user's request."""
        async with self._places.taken():
            await asyncio.sleep(takes_ms / 1000)

    async def _blocks(self) -> None:
        """Stop all work of the gateway from time to time."""
        gateway = self._gateway
        while True:
            await asyncio.sleep(self._random.expovariate(1000 / gateway.blocks_every_ms))
            time.sleep(self._random.uniform(*gateway.blocks_ms) / 1000)  # noqa: ASYNC251 - a fault


async def _read_head(reader: asyncio.StreamReader) -> _Head:
    """Read the head of a request or a response."""
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers: dict[str, str] = {}
    for line in lines[1:-2]:
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    return _Head(lines[0], headers)


async def _pieces(
    reader: asyncio.StreamReader, head: _Head, *, until_end: bool
) -> AsyncIterator[bytes]:
    """
    Give the parts of a body as they arrive.

    Args:
        reader: Where the body is read.
        head: Head of the message.
        until_end: Whether a body of unknown length ends with the connection; otherwise there is
            no body.
    """
    if head.headers.get("transfer-encoding", "").lower() == "chunked":
        while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
            yield (await reader.readexactly(size + 2))[:-2]
        await reader.readuntil(b"\r\n")
        return
    left = int(head.headers.get("content-length", sys.maxsize if until_end else 0))
    while left and (data := await reader.read(min(left, _PIECE))):
        left -= len(data)
        yield data


def _refusal(status: str, retry_after: float | None) -> bytes:
    """Return a response without a result."""
    body = json.dumps({"error": {"message": status, "type": "gateway"}})
    headers = {"content-type": "application/json", "content-length": str(len(body))}
    if retry_after is not None:
        headers["retry-after"] = f"{retry_after:.2f}"
    return _Head(f"HTTP/1.1 {status}", headers).encoded() + body.encode()


async def _first_of(tasks: list[asyncio.Task[None]]) -> None:
    """Wait for the end of the first task, and end the others."""
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def _closed(writer: asyncio.StreamWriter) -> AsyncGenerator[None]:
    """Close a connection at the end of the block; a side that has gone ends the block early."""
    try:
        with suppress(OSError, EOFError, TimeoutError):
            yield
    finally:
        writer.close()


async def _serve(document: dict[str, Any]) -> None:
    """Relay until the process is ended."""
    config, urls = document["config"], document["urls"]
    relay = (
        _LinkRelay(Link(**config), urls[0])
        if document["kind"] == "Link"
        else _GatewayRelay(Gateway(**config), urls)
    )

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with _closed(writer):
            await relay.connection(reader, writer)

    server = await asyncio.start_server(
        connection, "127.0.0.1", 0, ssl=_tls() if config.get("tls") else None, backlog=512
    )
    print(json.dumps({"port": server.sockets[0].getsockname()[1]}), flush=True)
    own = relay.background() if isinstance(relay, _GatewayRelay) else []
    await asyncio.gather(server.serve_forever(), *own)


def _tls() -> ssl.SSLContext:
    """Return a TLS context of the server's side."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    return context


if __name__ == "__main__":
    asyncio.run(_serve(json.loads(sys.argv[1])))
