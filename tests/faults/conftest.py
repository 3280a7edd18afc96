"""What the tests of faults share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from latspan.testing import Script, ScriptedServer
from support.backends import built, eventually
from support.programs import Driven

pytest.importorskip("openai", reason="the openai client is not installed")

EXPORT_TIMEOUT_S: Final = 1
"""Time after which an export is given up: a call that waited for one takes at least as long."""

MAX_LONG_FRACTION: Final = 0.1
"""Maximum fraction of calls that take as long; others may use the processors."""

QUICK: Final = {
    "OTEL_BSP_SCHEDULE_DELAY": "20",
    "LATSPAN_METRICS_INTERVAL_S": "0.2",
    "OTEL_EXPORTER_OTLP_TIMEOUT": str(EXPORT_TIMEOUT_S),
}
"""Exports follow one another so closely that any moment is in mid-traffic, and give up soon."""


@pytest.fixture(scope="package")
def otelcol() -> Path:
    """Where the Collector's program is."""
    return built("otelcol")


@pytest.fixture(scope="package")
def model() -> Iterator[ScriptedServer]:
    """A model server whose every answer is the same."""
    with ScriptedServer(Script.chat(tokens=5, prefill_ms=1, gap_ms=1)) as server:
        yield server


def flush(app: Driven) -> None:
    """Return when nothing is left to send: what was refused waits until it is tried again."""
    assert eventually(lambda: app.do("flush 5")["flushed"], bool)


class Unharmed:
    """
    Holds an application's answers against those from before latspan was switched on.

    Args:
        app: One that has said nothing yet.
    """

    def __init__(self, app: Driven) -> None:
        self._app = app
        self._plain = {answer["text"] for answer in app.hear()["plain"]}
        self.calls = 0
        self._long = 0

    def call(self, count: int) -> Iterator[int]:
        """Have it ask so many times; yield how many answers are there, each as it must be."""
        for number, answer in enumerate(self._app.calls(count), 1):
            assert {answer["text"]} == self._plain
            self._long += answer["took_s"] >= EXPORT_TIMEOUT_S
            self.calls += 1
            yield number
        # Of few calls, one is more than this fraction.
        assert self._long <= max(1, self.calls * MAX_LONG_FRACTION)
