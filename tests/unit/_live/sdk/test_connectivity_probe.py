"""The log of the exporters during a probe: one signal apart from the other, and nothing printed."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

import pytest

from latspan._live.sdk._connectivity_probe import (
    _captured_log,  # pyright: ignore[reportPrivateUsage]
    explained,
)

LOGGER = logging.getLogger("opentelemetry")
EXPORTER = logging.getLogger("opentelemetry.exporter.test")

REFUSED = (
    "Transient error HTTPConnectionPool(host='localhost', port=4318): Max retries exceeded with"
    " url: /v1/traces (Caused by NewConnectionError('Failed to establish a new connection: [Errno"
    " 111] Connection refused')) encountered while exporting spans batch, retrying in 0.83s."
)
NOTHING_LISTENS = "start a collector there, or set LATSPAN_ENDPOINT to the address of one"


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


@pytest.mark.parametrize(
    ("reason", "has_endpoint", "shown"),
    [
        (REFUSED, True, ("refused: nothing listens on port 4318", NOTHING_LISTENS)),
        (
            REFUSED,
            False,
            (
                "refused: nothing listens on port 4318",
                f"{NOTHING_LISTENS}, or LATSPAN_EXPORT_ENABLED=false to export nothing",
            ),
        ),
        (
            "HTTPConnection(host='x.test', port=4318): Failed to resolve 'x.test' ([Errno -2] …)",
            True,
            ("cannot resolve the host 'x.test'", "correct the name in LATSPAN_ENDPOINT"),
        ),
        ("boom", True, ("boom", None)),
    ],
)
def test_the_reason_of_a_failed_export_is_in_the_words_of_the_probe(
    reason: str, has_endpoint: bool, shown: tuple[str, str | None]
) -> None:
    """An exception of the HTTP library names its own classes, and no remedy."""
    assert explained(reason, has_endpoint=has_endpoint) == shown
