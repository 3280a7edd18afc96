"""Server-sent events are encoded as the standard reads them."""

from __future__ import annotations

import pytest

from latspan._wire import _sse


def test_an_event_is_a_data_line_and_an_empty_line() -> None:
    """The simplest frame is the payload alone."""
    assert _sse.encode_event("{}") == b"data: {}\n\n"


def test_an_event_names_its_type_first() -> None:
    """A type stands on a line of its own before the payload."""
    assert _sse.encode_event("{}", event="error") == b"event: error\ndata: {}\n\n"


def test_every_line_of_a_payload_is_a_data_line() -> None:
    """All three line ends that the standard knows split the payload."""
    assert _sse.encode_event("a\nb\r\nc\rd") == b"data: a\ndata: b\ndata: c\ndata: d\n\n"


def test_other_separators_do_not_end_a_line() -> None:
    """A line separator of Unicode is text like any other."""
    assert _sse.encode_event("a\u2028b") == "data: a\u2028b\n\n".encode()


def test_a_comment_starts_with_a_colon() -> None:
    """Clients skip lines that start with a colon."""
    assert _sse.encode_comment("ping") == b": ping\n\n"


def test_a_type_of_two_lines_is_refused() -> None:
    """A line break in the type would let it forge fields."""
    with pytest.raises(ValueError, match="one line"):
        _sse.encode_event("{}", event="a\ndata: b")
