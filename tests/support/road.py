"""
A proxy between a client and a server on loopback that behaves like a network.

It does not change any byte of the content: it adds TLS, splits and delays responses, and resets
connections. The server behind it needs none of that.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, cast
from urllib.parse import urlsplit

from tests.support.tls import server_context

# With a linger time of 0, closing sends a reset instead of an orderly end.
_LINGER_RESET: Final = struct.pack("ii", 1, 0)

_BETWEEN_PIECES_S: Final = 0.0005
"""Long enough for a waiting reader to receive the previous piece."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """
    Behaviour of the network.

    Args:
        secure: Whether the client's side uses TLS.
        accepts_after_s: Delay before a new connection is served, in seconds.
        piece_bytes: Size of the pieces of a response; ``None`` keeps the server's writes.
        resets_in: Bytes of a response in the middle of which the connection is reset; ``None`` for
            no reset.
    """

    secure: bool = False
    accepts_after_s: float = 0
    piece_bytes: int | None = None
    resets_in: bytes | None = None


class Road:
    """
    Forwards bytes between clients and a server.

    Args:
        url: URL of the server, ``http://127.0.0.1:port``.
        conditions: Behaviour of the network.
    """

    def __init__(self, url: str, conditions: Conditions) -> None:
        self._end = urlsplit(url)
        self._conditions = conditions
        self._serving: set[asyncio.Task[None]] = set()
        self._transports: list[asyncio.WriteTransport] = []
        self.handshakes_ns: list[tuple[int, int]] = []
        """Connection and end of the handshake of each client, in monotonic nanoseconds."""
        self.port = 0

    @property
    def url(self) -> str:
        """URL of the proxy, with an address that needs no look-up."""
        return f"{'https' if self._conditions.secure else 'http'}://127.0.0.1:{self.port}"

    async def listen(self, listening: threading.Event, over: asyncio.Event) -> None:
        """Serve until ``over`` is set."""
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        listening.set()
        await over.wait()
        server.close()
        for transport in self._transports:
            transport.abort()
        await asyncio.gather(*self._serving)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # No bytes of the client may be read before the handshake starts.
        _both_ways(writer).pause_reading()
        # The task of a stream callback is cancelled at the end, which Python 3.11 reports as an
        # error.
        self._serving.add(asyncio.get_running_loop().create_task(self._serve(reader, writer)))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._transports.append(writer.transport)
        reached_ns = time.perf_counter_ns()
        behind = await asyncio.open_connection(self._end.hostname, self._end.port)
        self._transports.append(behind[1].transport)
        await asyncio.sleep(self._conditions.accepts_after_s)
        if self._conditions.secure:
            await writer.start_tls(server_context())
            self.handshakes_ns.append((reached_ns, time.perf_counter_ns()))
        else:
            _both_ways(writer).resume_reading()
        await asyncio.gather(_pump(reader, behind[1]), self._answer(behind[0], writer))

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        conditions = self._conditions
        if conditions.piece_bytes is not None:
            await _pump(reader, writer, conditions.piece_bytes)
        elif conditions.resets_in is not None:
            await _pump_up_to(conditions.resets_in, reader, writer)
        else:
            await _pump(reader, writer)


def _both_ways(writer: asyncio.StreamWriter) -> asyncio.Transport:
    return cast("asyncio.Transport", writer.transport)


async def _pump(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, piece_bytes: int | None = None
) -> None:
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        while data := await reader.read(65_536):
            for at in range(0, len(data), piece_bytes or len(data)):
                if at:
                    await asyncio.sleep(_BETWEEN_PIECES_S)
                writer.write(data[at : at + (piece_bytes or len(data))])
            await writer.drain()
    writer.close()


async def _pump_up_to(
    mark: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65_536):
            before, found, _ = data.partition(mark)
            writer.write(before + found[: len(found) // 2])
            if found:
                sock = cast("socket.socket", writer.get_extra_info("socket"))
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_RESET)
                break
    writer.transport.abort()


@contextmanager
def road_to(url: str, conditions: Conditions) -> Generator[Road]:
    """
    Run a proxy to a server inside the block, on its own thread.

    Args:
        url: URL of the server, ``http://127.0.0.1:port``.
        conditions: Behaviour of the network.
    """
    road = Road(url, conditions)
    listening, over = threading.Event(), asyncio.Event()
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        thread = threading.Thread(target=runner.run, args=(road.listen(listening, over),))
        thread.start()
        assert listening.wait(10)
        try:
            yield road
        finally:
            loop.call_soon_threadsafe(over.set)
            thread.join(10)
