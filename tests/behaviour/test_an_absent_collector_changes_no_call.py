"""Without a working collector, calls are not affected, and shutdown keeps its timeout."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from latspan.testing import Script, ScriptedServer
from support.otlp import free_port
from support.programs import run_program

pytest.importorskip("openai", reason="the openai client is not installed")

CALLS = 5
LOST = r"Dropped (\d+) spans that could not be exported before shutdown"
TIMEOUT_S = 0.5
LIMIT_S = 3.0
"""Limit that allows for a busy machine; the exporters themselves retry for 8 to 10 s."""


@pytest.fixture(scope="module")
def model() -> Iterator[ScriptedServer]:
    with ScriptedServer(Script.chat(tokens=5, prefill_ms=1, gap_ms=1)) as server:
        yield server


@contextmanager
def closed_port() -> Generator[str]:
    yield f"http://127.0.0.1:{free_port()}"


@contextmanager
def silent_listener() -> Generator[str]:
    """A collector that accepts connections and never responds."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
@pytest.mark.parametrize("ending", ["shutdown", "force_flush"])
@pytest.mark.parametrize("collector", [closed_port, silent_listener])
def test_calls_and_shutdown_do_not_wait_for_the_collector(
    model: ScriptedServer,
    collector: Callable[[], AbstractContextManager[str]],
    ending: str,
    protocol: str,
) -> None:
    """Responses are equal chunk by chunk, the process ends, and lost spans are logged."""
    with collector() as url:
        printed = run_program(
            "has_an_absent_collector",
            model.base_url,
            url,
            ending,
            str(TIMEOUT_S),
            LATSPAN_PROTOCOL=protocol,
        )

    document = json.loads(printed)
    assert document["traced"] == document["plain"]
    assert len(document["plain"]) == document["recorded"] == CALLS
    assert document["took_s"] < LIMIT_S
    losses = [re.fullmatch(LOST, line) for line in document["logged"]]
    (lost,) = [int(found[1]) for found in losses if found]
    # The span of the call, and at least three of its segments.
    assert lost >= CALLS * 4
    if ending == "force_flush":
        assert document["said"] is False
