"""
TLS on a loopback port, in front of a server that speaks none.

``loopback.pem`` is a self-signed certificate for ``127.0.0.1`` and its key, made for these tests
alone. It protects nothing, and nobody else trusts it.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

__all__ = ["TlsFront", "tls_front"]

_PEM = Path(__file__).with_name("loopback.pem")


class TlsFront:
    """
    Hands what comes over TLS to a server, and its answers back.

    Args:
        url: Of the server behind, ``http://127.0.0.1:port``.
    """

    def __init__(self, url: str) -> None:
        self._behind = urlsplit(url)
        self._serving: set[asyncio.Task[None]] = set()
        self._transports: list[asyncio.WriteTransport] = []
        self.handshakes = 0
        self.port = 0

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"https://127.0.0.1:{self.port}"

    def client_context(self) -> ssl.SSLContext:
        """Return a context that trusts it and nobody else."""
        return ssl.create_default_context(cafile=str(_PEM))

    async def listen(self, listening: threading.Event, over: asyncio.Event) -> None:
        """Serve until ``over``."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(_PEM)
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=context)
        self.port = server.sockets[0].getsockname()[1]
        listening.set()
        await over.wait()
        server.close()
        for transport in self._transports:
            transport.abort()
        await asyncio.gather(*self._serving)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A stream's own task would be cancelled at the end, which Python 3.11 reports as an error.
        self.handshakes += 1
        self._serving.add(asyncio.get_running_loop().create_task(self._serve(reader, writer)))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind = await asyncio.open_connection(self._behind.hostname, self._behind.port)
        self._transports += (writer.transport, behind[1].transport)
        await asyncio.gather(_pump(reader, behind[1]), _pump(behind[0], writer))


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.transport.abort()


@contextmanager
def tls_front(url: str) -> Generator[TlsFront]:
    """
    Listen in front of a server inside the block, on a thread of its own.

    Args:
        url: Of the server behind, ``http://127.0.0.1:port``.
    """
    front = TlsFront(url)
    listening, over = threading.Event(), asyncio.Event()
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        thread = threading.Thread(target=runner.run, args=(front.listen(listening, over),))
        thread.start()
        assert listening.wait(10)
        try:
            yield front
        finally:
            loop.call_soon_threadsafe(over.set)
            thread.join(10)
