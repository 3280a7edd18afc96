"""
A proxy that adds a fixed delay to each direction of a connection, as a long way does.

The kernels of many machines cannot delay packets. Data is sent on in the order and at the distances
in which it arrived, so a stream stays as even as it was. The handshake of TCP is not delayed,
because the kernel answers it; that of TLS is.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Generator
from contextlib import contextmanager
from urllib.parse import urlsplit


@contextmanager
def delayed(url: str, seconds: float, *, address: str = "127.0.0.1") -> Generator[str]:
    """
    Run the proxy inside the block, on a thread of its own.

    Args:
        url: URL of the server behind it.
        seconds: Delay of each direction.
        address: Address to listen on.

    Yields:
        URL of the proxy, with the scheme of the server.
    """
    proxy = _Proxy(url, seconds, address)
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        thread = threading.Thread(target=runner.run, args=(proxy.serve(),))
        thread.start()
        if not proxy.listening.wait(10):
            raise RuntimeError("the delaying proxy does not listen")
        try:
            yield proxy.url
        finally:
            loop.call_soon_threadsafe(proxy.over.set)
            thread.join(10)


class _Proxy:
    def __init__(self, url: str, seconds: float, address: str) -> None:
        self._end = urlsplit(url)
        self._seconds = seconds
        self._address = address
        self._open: set[asyncio.Task[None]] = set()
        self.listening = threading.Event()
        self.over = asyncio.Event()
        self.url = ""

    async def serve(self) -> None:
        server = await asyncio.start_server(self._accept, self._address, 0)
        port = server.sockets[0].getsockname()[1]
        self.url = f"{self._end.scheme}://{self._address}:{port}"
        self.listening.set()
        await self.over.wait()
        server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._connect(reader, writer))
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind, to_server = await asyncio.open_connection(self._end.hostname, self._end.port)
        await asyncio.gather(self._pass_on(reader, to_server), self._pass_on(behind, writer))

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        arrived: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        sending = asyncio.create_task(self._send(arrived, writer))
        now = asyncio.get_running_loop().time
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65_536):
                arrived.put_nowait((now() + self._seconds, data))
        arrived.put_nowait((now() + self._seconds, b""))
        await sending

    async def _send(
        self, arrived: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter
    ) -> None:
        now = asyncio.get_running_loop().time
        with contextlib.suppress(ConnectionError):
            while True:
                due, data = await arrived.get()
                await asyncio.sleep(max(0.0, due - now()))
                if not data:
                    break
                writer.write(data)
                await writer.drain()
        writer.close()
