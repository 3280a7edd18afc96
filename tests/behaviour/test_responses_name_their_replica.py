"""Headers that name a replica, a cache or a gateway become groups, whichever client reads them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from threading import Thread
from typing import Final

import pytest

import latspan
from latspan import Kind
from latspan._model.wire import DONE, encode_event
from latspan._study.table import Table, read_table
from support.measuring import measure

pytest.importorskip("aiohttp")
pytest.importorskip("httpx")
pytest.importorskip("openai")
pytest.importorskip("requests")

_PROGRAM: Final = Path(__file__).parent / "programs" / "asks_replicas.py"
_SECRET: Final = "sk-5f3a9c0d7e1b4a62"

_EVENT: Final = encode_event(
    '{"object":"chat.completion.chunk","model":"m","choices":[{"index":0,'
    '"delta":{"content":"a"},"finish_reason":null}]}'
)
_LAST: Final = encode_event(
    '{"object":"chat.completion.chunk","model":"m","choices":[{"index":0,'
    '"delta":{},"finish_reason":"stop"}]}'
)


class _Replicas(BaseHTTPRequestHandler):
    """A server whose responses come from two replicas in turn."""

    _turns = count()

    def do_GET(self) -> None:
        self._answer("application/json", b'{"data":[]}')

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self._answer("text/event-stream", _EVENT * 3 + _LAST + DONE)

    def _answer(self, media_type: str, body: bytes) -> None:
        turn = next(self._turns)
        self.send_response(200)
        self.send_header("content-type", media_type)
        self.send_header("content-length", str(len(body)))
        self.send_header("X-Served-By", f"replica-{turn % 2}")
        self.send_header("cf-ray", f"8f{turn:014x}-FRA")
        self.send_header("x-envoy-upstream-service-time", "1")
        self.send_header("x-worker", f"worker-{turn % 2}")
        self.send_header("x-backend", _SECRET)
        self.send_header("x-request-id", f"id-{turn}")
        self.send_header("set-cookie", f"session={_SECRET}")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Log nothing."""


@pytest.fixture
def url() -> Generator[str]:
    """Serve, and return the base URL of the API."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Replicas)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    server.server_close()
    thread.join()


def _values(table: Table, name: str) -> list[str | None]:
    codes, values = table.groups[name]
    return [values[code] if code >= 0 else None for code in codes.tolist()]


def test_every_client_records_them(url: str, tmp_path: Path) -> None:
    """As a list on the call, and as a group of the request around it."""
    subprocess.run(
        [sys.executable, str(_PROGRAM), url],
        check=True,
        timeout=60,
        env={**os.environ, "LATSPAN_RECORD_DIR": str(tmp_path)},
    )

    records = latspan.open_recording(tmp_path).records()
    inner = [each for each in records if each.kind in (Kind.CALL, Kind.HTTP)]
    assert len(inner) == 5
    for each in inner:
        headers = {name: value for name, value in each.details.items() if "header" in name}
        assert headers.keys() == {
            "http.response.header.x-served-by",
            "http.response.header.cf-ray",
            "http.response.header.x-worker",
        }
        assert headers["http.response.header.cf-ray"] == ["FRA"]
    written = "".join(path.read_text() for path in tmp_path.rglob("*.jsonl"))
    assert _SECRET not in written
    assert '"x-served-by"' not in written

    table = read_table(latspan.open_recording(tmp_path), kind=Kind.REQUEST)
    assert _values(table, "x-served-by")[:4] == ["replica-0", "replica-1"] * 2
    assert _values(table, "x-worker")[:4] == ["worker-0", "worker-1"] * 2
    assert set(_values(table, "cf-ray")[:4]) == {"FRA"}


def test_a_load_test_records_them(url: str, tmp_path: Path) -> None:
    """The variable names further headers."""
    measured = measure(
        *(url, tmp_path, "--model", "m", "--requests", "20", "--warmup", "0"),
        LATSPAN_RESPONSE_HEADERS="x-worker",
    )

    table = read_table(measured.recording)
    for name in ("x-served-by", "x-worker"):
        assert len(set(_values(table, name))) == 2
    assert set(_values(table, "cf-ray")) == {"FRA"}
