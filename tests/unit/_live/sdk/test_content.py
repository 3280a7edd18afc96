"""Variables control whether content is captured; tokens are counted on the worker thread."""

from __future__ import annotations

import logging

import pytest

from latspan._live.process.worker import Worker
from latspan._live.sdk._content import Capture, capture, token_counter
from latspan._model.tokens import UNKNOWN_TOKENS, TokenCounts, TokenSource
from latspan._model.wire import Content
from support.encodings import BYTES

DEADLINE_S = 30.0
CONTENT = Content(output=({"parts": [{"type": "text", "content": "hello"}]},))


ON_SPANS = Capture(on_spans=True)
IN_EVENTS = Capture(in_events=True, emits_events=True)
IN_BOTH = Capture(on_spans=True, in_events=True, emits_events=True)


@pytest.mark.parametrize(
    ("mode", "events", "captured", "lines"),
    [
        (None, None, Capture(), 0),
        ("", "", Capture(), 0),
        ("NO_CONTENT", None, Capture(), 0),
        ("SPAN_ONLY", None, ON_SPANS, 0),
        (" span_only ", None, ON_SPANS, 0),
        ("EVENT_ONLY", None, IN_EVENTS, 0),
        ("SPAN_AND_EVENT", None, IN_BOTH, 0),
        ("true", None, Capture(), 1),
        ("SPAN_AND_EVENT", "false", ON_SPANS, 0),
        ("EVENT_ONLY", "false", Capture(), 0),
        ("NO_CONTENT", "true", Capture(emits_events=True), 0),
        ("SPAN_ONLY", "TRUE", Capture(on_spans=True, emits_events=True), 0),
        ("EVENT_ONLY", "yes", IN_EVENTS, 1),
    ],
)
def test_opentelemetrys_variables_control_what_is_captured(
    caplog: pytest.LogCaptureFixture,
    mode: str | None,
    events: str | None,
    captured: Capture,
    lines: int,
) -> None:
    """An unknown value is logged once and has no effect."""
    names = {
        "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": mode,
        "OTEL_INSTRUMENTATION_GENAI_EMIT_EVENT": events,
        # The official instrumentation no longer reads this variable.
        "OTEL_SEMCONV_STABILITY_OPT_IN": "http",
    }
    environment = {name: value for name, value in names.items() if value is not None}

    with caplog.at_level(logging.WARNING, logger="latspan"):
        assert capture(environment) == captured
    assert len(caplog.records) == lines


def test_tokens_are_counted_only_on_the_worker_thread() -> None:
    """If a job runs on the caller's thread, its tokens are not counted."""
    worker = Worker()
    count = token_counter({"o200k_base": BYTES}, worker)
    assert count is not None
    counted: list[TokenCounts] = []

    worker.submit(lambda: counted.append(count(CONTENT, None)))
    assert worker.stop(DEADLINE_S)
    worker.submit(lambda: counted.append(count(CONTENT, None)))

    assert counted == [TokenCounts(output=5, source=TokenSource.ESTIMATED), UNKNOWN_TOKENS]


def test_without_an_encoding_tokens_are_not_counted(caplog: pytest.LogCaptureFixture) -> None:
    """The log contains the command that installs one."""
    with caplog.at_level(logging.WARNING, logger="latspan"):
        assert token_counter({}, Worker()) is None

    (record,) = caplog.records
    assert "pip install 'latspan[tokens]'" in record.getMessage()
