"""The log of the exporters during a probe: one signal apart from the other, and nothing printed."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

import pytest

from latspan._sdk._connectivity_probe import _captured_log  # pyright: ignore[reportPrivateUsage]

LOGGER = logging.getLogger("opentelemetry")
EXPORTER = logging.getLogger("opentelemetry.exporter.test")


@pytest.fixture(autouse=True)
def unchanged() -> Iterator[None]:
    handlers, propagates = list(LOGGER.handlers), LOGGER.propagate
    yield
    LOGGER.handlers[:], LOGGER.propagate = handlers, propagates


def test_lines_are_collected_by_thread(caplog: pytest.LogCaptureFixture) -> None:
    """An exporter that retries after its time is up does not answer for the next one."""
    with _captured_log() as log:
        for signal in ("traces", "metrics"):
            thread = threading.Thread(
                target=EXPORTER.warning, args=("%s failed", signal), name=f"latspan-doctor-{signal}"
            )
            thread.start()
            thread.join()

    assert log.messages == {
        f"latspan-doctor-{signal}": [f"{signal} failed"] for signal in ("traces", "metrics")
    }
    assert caplog.messages == []
    EXPORTER.warning("not of the doctor")
    assert caplog.messages == ["not of the doctor"]


def test_an_exporter_that_goes_on_prints_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Its lines would appear in the middle of the report."""
    is_over = threading.Event()

    def retry() -> None:
        is_over.wait()
        EXPORTER.warning("retrying")

    thread = threading.Thread(target=retry, name="latspan-doctor-traces")
    with _captured_log() as log:
        thread.start()
    is_over.set()
    thread.join()

    assert log.messages == {"latspan-doctor-traces": ["retrying"]}
    assert caplog.messages == []
