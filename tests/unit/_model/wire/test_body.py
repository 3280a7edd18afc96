"""Response bodies are read as plain mappings."""

from __future__ import annotations

import gzip
import json
import tracemalloc

from latspan._model.wire import DEEPEST, copied, events_in, to_plain


def test_a_compressed_body_is_read() -> None:
    """A proxy that forwards the bytes sees such bodies."""
    assert to_plain(gzip.compress(json.dumps({"id": "c1"}).encode())) == {"id": "c1"}


def test_a_truncated_or_damaged_body_is_empty() -> None:
    """It is not an error: the application may never have read it."""
    whole = gzip.compress(b'{"id": "c1"}')
    assert to_plain(whole[:-4]) == {}
    assert to_plain(whole[:12] + b"\xff\xff" + whole[14:]) == {}


def test_a_decompression_bomb_is_not_read() -> None:
    """A few kilobytes of zeros must not fill the application's memory."""
    bomb = gzip.compress(b" " * (1 << 28))
    tracemalloc.start()
    assert to_plain(bomb) == {}
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 26


def test_a_whole_stream_is_split_into_events() -> None:
    """Without the end mark; any other text is one part."""
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


def test_deeply_nested_content_is_cut() -> None:
    """A client or a model may send any depth, and recursion is limited."""
    assert copied(_nested(DEEPEST)) == _nested(DEEPEST)
    assert str(copied(_nested(100_000))).count("[") == DEEPEST


def test_deeply_nested_json_is_empty() -> None:
    """Python's parser refuses it."""
    assert to_plain(b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}") == {}
