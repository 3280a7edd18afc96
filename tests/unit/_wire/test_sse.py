"""Server-sent events are encoded according to the standard."""

from __future__ import annotations

import pytest

from latspan._wire import _sse


def test_an_event_is_a_data_line_and_an_empty_line() -> None:
    """The simplest event is the payload alone."""
    assert _sse.encode_event("{}") == b"data: {}\n\n"


def test_the_event_type_comes_first() -> None:
    """The type is on its own line before the payload."""
    assert _sse.encode_event("{}", event="error") == b"event: error\ndata: {}\n\n"


def test_every_line_of_a_payload_is_a_data_line() -> None:
    """The three line ends of the standard split the payload."""
    assert _sse.encode_event("a\nb\r\nc\rd") == b"data: a\ndata: b\ndata: c\ndata: d\n\n"


def test_other_separators_do_not_end_a_line() -> None:
    """Unicode's line separator is ordinary text."""
    assert _sse.encode_event("a\u2028b") == "data: a\u2028b\n\n".encode()


def test_a_comment_starts_with_a_colon() -> None:
    """Clients skip lines that start with a colon."""
    assert _sse.encode_comment("ping") == b": ping\n\n"


def test_an_event_type_with_a_line_break_is_refused() -> None:
    """A line break in the type could forge fields."""
    with pytest.raises(ValueError, match="one line"):
        _sse.encode_event("{}", event="a\ndata: b")
