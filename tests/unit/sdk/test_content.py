"""Whether content is captured, and on whose thread tokens are counted."""

from __future__ import annotations

import logging

import pytest

from latspan.sdk._content import captures_content, token_counter
from latspan.sdk._worker import Worker
from latspan.tokens import UNKNOWN_TOKENS, TokenCounts, TokenSource
from latspan.wire import Content
from support.encodings import BYTES

DEADLINE_S = 30.0
CONTENT = Content(output=({"parts": [{"type": "text", "content": "hello"}]},))


@pytest.mark.parametrize(
    ("said", "captured", "lines"),
    [
        (None, False, 0),
        ("", False, 0),
        ("NO_CONTENT", False, 0),
        ("SPAN_ONLY", True, 0),
        (" span_only ", True, 0),
        ("EVENT_ONLY", False, 1),
        ("SPAN_AND_EVENT", True, 1),
        ("true", False, 1),
    ],
)
def test_opentelemetrys_variable_says_what_is_captured(
    caplog: pytest.LogCaptureFixture, said: str | None, captured: bool, lines: int
) -> None:
    """What latspan does not do, or does not know, it says once."""
    environment: dict[str, str] = {}
    if said is not None:
        environment["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] = said

    with caplog.at_level(logging.WARNING, logger="latspan"):
        assert captures_content(environment) is captured
    assert len(caplog.records) == lines


def test_tokens_are_counted_on_the_workers_thread_and_no_other() -> None:
    """Where a caller does the arithmetic itself, nobody counts."""
    worker = Worker()
    count = token_counter({"o200k_base": BYTES}, worker)
    assert count is not None
    counted: list[TokenCounts] = []

    worker.submit(lambda: counted.append(count(CONTENT, None)))
    assert worker.stop(DEADLINE_S)
    worker.submit(lambda: counted.append(count(CONTENT, None)))

    assert counted == [TokenCounts(output=5, source=TokenSource.ESTIMATED), UNKNOWN_TOKENS]


def test_without_an_encoding_nobody_counts(caplog: pytest.LogCaptureFixture) -> None:
    """And the log says how to mend it."""
    with caplog.at_level(logging.WARNING, logger="latspan"):
        assert token_counter({}, Worker()) is None

    (record,) = caplog.records
    assert "pip install 'latspan[tokens]'" in record.getMessage()
