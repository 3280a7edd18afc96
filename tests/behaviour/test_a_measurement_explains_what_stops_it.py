"""``latspan measure`` finds out before the load whether requests work, and explains why not."""

from __future__ import annotations

import os
import socket
import socketserver
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from latspan.testing import Script, ScriptedServer
from support.measuring import measure

_KEY = "sk-live-0123456789abcdef"


@pytest.mark.parametrize(
    ("script", "path", "message", "hint"),
    [
        (
            Script.refused(401, error=f"Incorrect API key provided: {_KEY}"),
            "/v1",
            "does not accept the API key (status 401): Incorrect",
            "check the key in the variable OPENAI_API_KEY",
        ),
        (
            Script.refused(404, error="no such model"),
            "/v1",
            "has no chat completions for the model 'm' (status 404): no such model",
            "check the name of the model",
        ),
        (
            Script.refused(404),
            "/ask",
            "has no chat completions",
            "any other API is measured by a function that calls it",
        ),
        (Script.refused(404), "", "has no chat completions", "/v1"),
        (Script.refused(429), "/v1", "(status 429)", "wait until the limit"),
        (
            Script.refused(503),
            "/v1",
            "fails on the first request (status 503)",
            "log of the server",
        ),
        (
            Script.refused(400, error="Unsupported parameter: 'max_tokens'"),
            "/v1",
            "refuses the request (status 400): Unsupported parameter: 'max_tokens'",
            "--body",
        ),
        (
            Script.chat(tokens=2, prefill_ms=1, gap_ms=1, ending="cut"),
            "/v1",
            "closed the connection before its response was complete",
            "log of the server",
        ),
        (
            Script.chat(tokens=0),
            "/v1",
            "a response without a token",
            "OpenAI-compatible",
        ),
        (Script.chat(prefill_ms=30_000), "/v1", "in time", "--timeout"),
    ],
)
def test_a_first_request_that_fails_is_explained(
    tmp_path: Path, script: Script, path: str, message: str, hint: str
) -> None:
    """One error with a hint, exit code 2, and no recording is left."""
    with ScriptedServer(script) as server:
        done = measure(
            f"{server.url}{path}", tmp_path / "r", "--model", "m", "--timeout", "1s",
            OPENAI_API_KEY=_KEY,
        )  # fmt: skip
    errors = [line for line in done.errors.splitlines() if line.startswith(("error:", "hint:"))]
    assert done.code == 2
    assert len(errors) == 2
    assert message in errors[0]
    assert hint in errors[1]
    assert _KEY not in done.errors
    assert not done.folder.exists()


def test_a_refused_connection_is_explained(tmp_path: Path) -> None:
    """Nothing listens at the port."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        done = measure(f"http://127.0.0.1:{port}/v1", tmp_path / "r", "--model", "m")
    assert done.code == 2
    assert f"error: nothing listens at 127.0.0.1:{port}\nhint: start the server" in done.errors


@contextmanager
def _answering(response: bytes) -> Generator[int]:
    """Answer every request with these bytes, close its connection, and yield the port."""

    class Answer(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(65_536)
            self.request.sendall(response)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("scheme", "response", "message", "hint"),
    [
        (
            "http",
            b"SSH-2.0-OpenSSH_9.9\r\n",
            "did not send an HTTP response: Bad status line",
            "port",
        ),
        (
            "http",
            b"HTTP/1.1 301 Moved\r\nLocation: http://127.0.0.1:9/\r\nContent-Length: 0\r\n\r\n",
            "redirects to another address (status 301)",
            "use the address that it redirects to",
        ),
        (
            "http",
            b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nab",
            "a response without a token",
            "OpenAI-compatible",
        ),
        (
            "http",
            b"",
            "closed the connection before its response was complete",
            "log of the server",
        ),
        ("https", b"HTTP/1.1 400 Bad Request\r\n\r\n", "no TLS connection to", "use http://"),
    ],
)
def test_an_answer_that_is_not_of_such_an_api_is_explained(
    tmp_path: Path, scheme: str, response: bytes, message: str, hint: str
) -> None:
    """Whatever listens at the port; none of its bytes are shown."""
    with _answering(response) as port:
        done = measure(f"{scheme}://127.0.0.1:{port}/v1", tmp_path / "r", "--model", "m")
    errors = [line for line in done.errors.splitlines() if line.startswith(("error:", "hint:"))]
    assert done.code == 2
    assert message in errors[0]
    assert hint in errors[1]
    assert "OpenSSH" not in done.errors


def test_a_missing_package_is_named(tmp_path: Path) -> None:
    """Requests are sent with aiohttp, which the base installation does not have."""
    (tmp_path / "aiohttp.py").write_text("raise ModuleNotFoundError(name='aiohttp')")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = measure("http://127.0.0.1:9/v1", tmp_path / "r", "--model", "m", PYTHONPATH=path)
    assert done.code == 2
    assert (
        "error: the package 'aiohttp' is not installed\nhint: pip install 'latspan[study]'"
        in done.errors
    )
    assert not done.folder.exists()


def test_an_endpoint_that_is_excluded_from_tracing_is_explained(tmp_path: Path) -> None:
    """Its requests would be sent and not recorded."""
    with ScriptedServer(Script.chat(tokens=2)) as server:
        done = measure(
            server.base_url, tmp_path / "r", "--model", "m", OTEL_PYTHON_EXCLUDED_URLS="completions"
        )
        served = server.served_requests()
    assert done.code == 2
    assert "hint: unset OTEL_PYTHON_EXCLUDED_URLS" in done.errors
    assert not served


def test_disabled_instrumentations_do_not_disable_the_recording(tmp_path: Path) -> None:
    """The variable is about the application's clients."""
    with ScriptedServer(Script.chat(tokens=2, prefill_ms=1, gap_ms=1)) as server:
        done = measure(
            server.base_url, tmp_path / "r", "--model", "m", "--requests", "2",
            LATSPAN_DISABLED_INSTRUMENTATIONS="*",
        )  # fmt: skip
    assert len(list(done.recording.records("call"))) >= 3


def test_the_only_model_of_an_endpoint_is_used(tmp_path: Path) -> None:
    """It is found with GET /models, and recorded."""
    with ScriptedServer(Script.chat(tokens=2, prefill_ms=1, gap_ms=1)) as server:
        done = measure(server.base_url, tmp_path / "r", "--requests", "2")
        (model,) = {
            each.request_json["model"]
            for each in server.served_requests()
            if each.raw.startswith(b"POST")
        }
    assert done.document["conditions"]["model"] == model


def test_the_key_is_sent_and_never_recorded(tmp_path: Path) -> None:
    """Neither the recording nor the output has it."""
    with ScriptedServer(Script.chat(tokens=2, prefill_ms=1, gap_ms=1)) as server:
        done = measure(
            server.base_url, tmp_path / "r", "--model", "m", "--requests", "3", "--api-key-env",
            "MY_KEY", MY_KEY=_KEY,
        )  # fmt: skip
        sent = {each.request_headers["authorization"] for each in server.served_requests()}
    assert sent == {f"Bearer {_KEY}"}
    files = [path for path in done.folder.rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if _KEY in path.read_text()]
    assert _KEY not in f"{done.errors}{done.document}"


def test_prompts_are_never_recorded(tmp_path: Path) -> None:
    """Only their fingerprints are."""
    (tmp_path / "p.jsonl").write_text('{"prompt": "What does the heron eat?"}\n')
    with ScriptedServer(Script.chat(tokens=2, prefill_ms=1, gap_ms=1)) as server:
        done = measure(
            server.base_url, tmp_path / "r", "--model", "m", "--requests", "3", "--prompts",
            str(tmp_path / "p.jsonl"), "--body",
            '{"tools": [{"about": "heron"}], "prefix": "heron"}',
        )  # fmt: skip
    files = [path for path in done.folder.rglob("*") if path.is_file()]
    assert not [path for path in files if "heron" in path.read_text()]


def test_a_second_measurement_does_not_overwrite_the_first(tmp_path: Path) -> None:
    """A folder holds one recording."""
    with ScriptedServer(Script.chat(tokens=2, prefill_ms=1, gap_ms=1)) as server:
        options = ("--model", "m", "--requests", "2")
        first = measure(server.base_url, tmp_path / "r", *options)
        second = measure(server.base_url, tmp_path / "r", *options)
    assert second.code != 0
    assert "already holds a recording" in second.errors
    assert len(list(first.recording.records("call"))) >= 3


def test_the_sdk_switched_off_records_nothing_and_says_so(tmp_path: Path) -> None:
    """Otherwise a load would be sent for nothing."""
    with ScriptedServer(Script.chat(tokens=2)) as server:
        done = measure(server.base_url, tmp_path / "r", "--model", "m", OTEL_SDK_DISABLED="true")
    assert done.code == 2
    assert "hint: unset OTEL_SDK_DISABLED" in done.errors
    assert not done.folder.exists()
