"""Bodies of answers as plain mappings."""

from __future__ import annotations

import gzip
import json
import tracemalloc

from latspan._wire import DEEPEST, copied, events_in, plain


def test_a_compressed_body_is_read() -> None:
    """As a proxy has it that hands on the bytes."""
    assert plain(gzip.compress(json.dumps({"id": "c1"}).encode())) == {"id": "c1"}


def test_a_body_that_is_cut_or_damaged_says_nothing() -> None:
    """It is not an error: the application may never have looked at it."""
    whole = gzip.compress(b'{"id": "c1"}')
    assert plain(whole[:-4]) == {}
    assert plain(whole[:12] + b"\xff\xff" + whole[14:]) == {}


def test_a_body_that_decompresses_to_any_length_is_not_read() -> None:
    """A few kilobytes of zeros must not cost the application its memory."""
    bomb = gzip.compress(b" " * (1 << 28))
    tracemalloc.start()
    assert plain(bomb) == {}
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 26


def test_a_whole_stream_is_cut_into_its_events() -> None:
    """Without its end mark; any other text is one part."""
    assert events_in(b"data: 1\r\n\r\nevent: x\ndata: 2\n\ndata: [DONE]\n\n") == (
        b"data: 1",
        b"event: x\ndata: 2",
    )
    assert events_in(b'{"a":\n\n1}') == (b'{"a":\n\n1}',)


def _nested(levels: int) -> list[object]:
    value: list[object] = []
    for _ in range(levels - 1):
        value = [value]
    return value


def test_what_is_nested_too_deep_is_left_out() -> None:
    """A client or a model may send any depth; recursion has an end."""
    assert copied(_nested(DEEPEST)) == _nested(DEEPEST)
    assert str(copied(_nested(100_000))).count("[") == DEEPEST


def test_json_that_is_nested_too_deep_says_nothing() -> None:
    """Python's parser gives up."""
    assert plain(b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}") == {}
