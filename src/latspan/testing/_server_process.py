"""
Process of the scripted server, which sends on its own schedule and records what it did.

It runs as ``python -m latspan.testing._server_process``, receives commands as lines of JSON on its
standard input and answers each with one line on its standard output. It imports only the standard
library and latspan's simplest modules, so that nothing can instrument it.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, cast

from latspan._base.nanoseconds import NS_PER_S
from latspan.testing._child import STOP
from latspan.testing._http import HttpRequest, MalformedRequestError, RequestReader
from latspan.testing._messages import script_from_json, served_to_json
from latspan.testing._payloads import (
    InvalidRequestError,
    ModelRequest,
    error_payload,
    read_request,
)
from latspan.testing._script import Script
from latspan.testing._scripted_response import (
    Farewell,
    Frame,
    Rotation,
    ScriptedResponse,
    encode_json,
    refuse,
)
from latspan.testing._served import Ledger, WriteRecord

_SCRIPT_HEADER: Final = "x-latspan-script"
# Linger on, timeout zero: closing then sends a reset instead of an orderly end.
_LINGER_RESET: Final = struct.pack("ii", 1, 0)


class Slots:
    """
    Slots of a model: requests with a slot are served, the others wait in order of arrival.

    Args:
        count: Number of slots, at least 1; ``None`` for no limit.
    """

    def __init__(self, count: int | None) -> None:
        self._free = None if count is None else asyncio.Semaphore(count)

    @asynccontextmanager
    async def taken(self, *, since_ns: int) -> AsyncGenerator[int]:
        """
        Hold a slot.

        Args:
            since_ns: When the request was accepted.

        Yields:
            Instant from which the response's schedule counts: ``since_ns`` if a slot was free.
        """
        if self._free is None:
            yield since_ns
            return
        waits = self._free.locked()
        async with self._free:
            yield time.perf_counter_ns() if waits else since_ns


class House:
    """
    State shared by all connections: scripts, slots, and the records of served requests.

    Args:
        slots: Maximum number of requests answered at once; ``None`` for no limit.
    """

    def __init__(self, slots: int | None) -> None:
        self.slots = Slots(slots)
        self.book: list[Ledger] = []
        self._rotation = Rotation(Script.chat())
        self._named: dict[str, Script] = {}
        self._connections = 0
        self._quiet = asyncio.Condition()

    def use(self, scripts: list[Script], named: Mapping[str, Script]) -> None:
        """Serve these scripts from the next request on."""
        if scripts:
            self._rotation = Rotation(scripts)
        self._named |= named

    def connect(self) -> int:
        """Return the number for a new connection."""
        self._connections += 1
        return self._connections - 1

    def open_page(self, connection: int, request: HttpRequest, accepted_ns: int) -> Ledger:
        """Return a new ledger for a request."""
        ledger = Ledger(len(self.book), connection, request, accepted_ns)
        self.book.append(ledger)
        return ledger

    def response(self, ledger: Ledger, request: ModelRequest) -> tuple[Script, ScriptedResponse]:
        """
        Return the next script for the request, and its response.

        Raises:
            InvalidRequestError: The request names an unknown script.
        """
        name = ledger.request.headers.get(_SCRIPT_HEADER)
        if not request.api.needs_model:
            script = Script()
        elif name is None:
            script = self._rotation.take()
        elif name in self._named:
            script = self._named[name]
        else:
            raise request.refusal(400, f"no script named '{name}'")
        response = ScriptedResponse(
            script,
            request,
            number=ledger.index,
            created_s=int(time.time()),
            keeps_alive=ledger.request.keeps_alive,
        )
        return script, response

    async def close_page(self) -> None:
        """Notify waiting callers of :meth:`wait_until_idle` that a request has ended."""
        async with self._quiet:
            self._quiet.notify_all()

    async def wait_until_idle(self, requests: int, timeout_s: float) -> bool:
        """Wait for ``requests`` requests and the end of all; return whether that came in time."""

        def settled() -> bool:
            return len(self.book) >= requests and all(page.closed for page in self.book)

        try:
            async with asyncio.timeout(timeout_s), self._quiet:
                await self._quiet.wait_for(settled)
        except TimeoutError:
            return False
        return True


class Connection(asyncio.Protocol):
    """
    Connection of one client: its requests are answered one after the other.

    A write never waits for the reader: data that the socket does not accept is buffered in memory.
    So the schedule depends only on the server.

    Args:
        house: State shared with the other connections.
    """

    def __init__(self, house: House) -> None:
        self._house = house
        self._number = house.connect()
        self._reader = RequestReader()
        self._requests: asyncio.Queue[tuple[HttpRequest, int]] = asyncio.Queue()
        self._current: Ledger | None = None
        self._transport: asyncio.Transport
        self._worker: asyncio.Task[None]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the task that serves requests."""
        self._transport = cast("asyncio.Transport", transport)
        self._worker = asyncio.get_running_loop().create_task(self._work())

    def data_received(self, data: bytes) -> None:
        """Split the received data into requests, and stamp them."""
        now_ns = time.perf_counter_ns()
        try:
            for request in self._reader.feed(data):
                self._requests.put_nowait((request, now_ns))
        except MalformedRequestError as error:
            self._transport.write(encode_json(400, error_payload(400, str(error))))
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the protocol's name
        """Drop the request that was being answered."""
        if self._current is not None and not self._current.closed:
            self._current.cancelled_ns = time.perf_counter_ns()
        self._worker.cancel()

    async def _work(self) -> None:
        while True:
            request, accepted_ns = await self._requests.get()
            if request.path == "/health":
                self._transport.write(encode_json(200, {"status": "ok"}))
                continue
            ledger = self._house.open_page(self._number, request, accepted_ns)
            self._current = ledger
            try:
                await self._serve(ledger)
            finally:
                await self._house.close_page()

    async def _serve(self, ledger: Ledger) -> None:
        try:
            request = read_request(ledger.request)
            script, response = self._house.response(ledger, request)
        except InvalidRequestError as error:
            ledger.status = error.status
            self._transport.write(refuse(ledger.request, error))
            ledger.end_ns = time.perf_counter_ns()
            return
        ledger.status = script.status
        for frame in response.greeting:
            self._write(frame, response, ledger)
        if response.needs_slot:
            async with self._house.slots.taken(since_ns=ledger.accepted_ns) as since_ns:
                await self._play(script, response, ledger, since_ns)
        else:
            await self._play(script, response, ledger, ledger.accepted_ns)

    async def _play(
        self, script: Script, response: ScriptedResponse, ledger: Ledger, since_ns: int
    ) -> None:
        start_ns = since_ns + script.queue_ns
        await _until(start_ns)
        if response.needs_slot:
            ledger.slot_ns = time.perf_counter_ns()
        for frame in response.frames:
            await _until(start_ns + frame.offset_ns)
            self._write(frame, response, ledger)
        self._part(response.farewell)
        if not ledger.request.keeps_alive:
            self._transport.close()
        ledger.end_ns = time.perf_counter_ns()

    def _write(self, frame: Frame, response: ScriptedResponse, ledger: Ledger) -> None:
        now_ns = time.perf_counter_ns()
        ledger.writes += [WriteRecord(now_ns, part.piece) for part in frame.parts]
        self._transport.write(response.render(frame, ledger))

    def _part(self, farewell: Farewell) -> None:
        if farewell is Farewell.CLOSE:
            self._transport.close()
        elif farewell is Farewell.RESET:
            sock = cast("socket.socket", self._transport.get_extra_info("socket"))
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_RESET)
            self._transport.abort()


async def _until(instant_ns: int) -> None:
    # In a loop, because the event loop's clock is a float and may wake slightly too early.
    while (left_ns := instant_ns - time.perf_counter_ns()) > 0:  # noqa: ASYNC110
        await asyncio.sleep(left_ns / NS_PER_S)


async def _obey(house: House, order: Mapping[str, Any]) -> dict[str, Any]:
    if order["do"] == "use":
        named = {name: script_from_json(data) for name, data in order["named"].items()}
        house.use([script_from_json(data) for data in order["scripts"]], named)
        return {"done": True}
    settled = await house.wait_until_idle(order["requests"], order["timeout_s"])
    pages = house.book[order["since"] :]
    return {"settled": settled, "truth": [served_to_json(page.served()) for page in pages]}


async def _orders() -> AsyncIterator[str]:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=sys.maxsize)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while (line := (await reader.readline()).decode().rstrip("\n")) and line != STOP:
        yield line


async def _run(slots: int | None) -> None:
    house = House(slots)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(house), "127.0.0.1", 0)
    _reply({"port": server.sockets[0].getsockname()[1]})
    async for line in _orders():
        _reply(await _obey(house, json.loads(line)))
    # Not awaited: from Python 3.12 on, that would wait for every client to disconnect.
    server.close()


def _reply(payload: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(payload) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Serve until standard input ends."""
    slots = json.loads(sys.argv[1])
    asyncio.run(_run(slots))


if __name__ == "__main__":
    main()
