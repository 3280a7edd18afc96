"""Lines of a recording: what another program or a damaged disk wrote is refused, not believed."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from latspan._model.recording.folder._checks import UNREADABLE
from latspan._model.recording.folder._lines import compact_line, line_of, record_of, row_of

GOOD: Final[dict[str, Any]] = {
    "kind": "request",
    "name": "answer",
    "outcome": "completed",
    "start_epoch_ns": 1_764_000_000_000_000_000,
    "duration_ns": 5,
    "segments": [["decode", 0, 5, "measured"]],
    "own_segments": [["decode", 0, 5, "estimated"]],
    "metrics": {"duration": 5, "time_to_first_token": [3, "estimated"]},
    "chunk_gaps_ns": [1, 2],
    "chunk_gap_sources": {"1": "estimated"},
    "marks_ns": {"first_token": 3},
    "tokens": {"input": 3, "source": "provider"},
    "attributes": {"model": "m"},
    "details": {"latspan.load.dispatch_lag": 0.5, "n": [1, None]},
    "id": 2,
    "parent": 1,
    "trace_id": "0af7651916cd43dd8448eb211c80319c",
    "span_id": "b7ad6b7169203331",
    "ratio": 0.5,
}

TOO_LARGE: Final = 2**63


def test_a_line_by_the_schema_is_read() -> None:
    """With every field, and with the required ones alone."""
    required = {name: GOOD[name] for name in list(GOOD)[:6]}

    assert json.loads(line_of(record_of(json.dumps(GOOD)), 0.5)) == GOOD
    assert json.loads(line_of(record_of(json.dumps(required)))) == required


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("kind", "zz"),
        ("kind", ["call"]),
        ("name", 5),
        ("name", None),
        ("outcome", "zz"),
        ("start_epoch_ns", "x"),
        ("start_epoch_ns", True),
        ("start_epoch_ns", 1.5),
        ("start_epoch_ns", TOO_LARGE),
        ("start_epoch_ns", -TOO_LARGE),
        ("duration_ns", "x"),
        ("duration_ns", None),
        ("duration_ns", True),
        ("duration_ns", 1.5),
        ("duration_ns", -1),
        ("duration_ns", TOO_LARGE),
        ("segments", 5),
        ("segments", [["decode", "x", 5, "measured"]]),
        ("segments", [["decode", 0, 5.5, "measured"]]),
        ("segments", [["decode", False, True, "measured"]]),
        ("segments", [["decode", 5, 0, "measured"]]),
        ("segments", [["decode", 0, TOO_LARGE, "measured"]]),
        ("segments", [[5, 0, 5, "measured"]]),
        ("segments", [["decode", 0, 5]]),
        ("metrics", 5),
        ("metrics", {"duration": "x"}),
        ("metrics", {"duration": None}),
        ("metrics", {"duration": True}),
        ("metrics", {"duration": 1.5}),
        ("metrics", {"duration": TOO_LARGE}),
        ("metrics", {"duration": ["x", "measured"]}),
        ("metrics", {"duration": []}),
        ("tokens", "x"),
        ("tokens", {"input": "x", "source": "provider"}),
        ("tokens", {"input": -1, "source": "provider"}),
        ("attributes", {"model": 5}),
        ("attributes", {"model": ["m"]}),
        ("attributes", ["m"]),
        ("details", "x"),
        ("details", None),
        ("details", {"latspan.load.dispatch_lag": 1e300}),
        ("details", {"latspan.load.index": [1]}),
        ("details", {"latspan.load.step": {}}),
        ("details", {"n": float("nan")}),
        ("ratio", 0),
        ("ratio", -1),
        ("ratio", 1.5),
        ("ratio", True),
        ("ratio", "x"),
        ("ratio", None),
        ("own_segments", [["decode", 0, "x", "measured"]]),
        ("chunk_gaps_ns", 5),
        ("chunk_gaps_ns", ["x"]),
        ("chunk_gaps_ns", [1, True]),
        ("chunk_gaps_ns", [-1]),
        ("chunk_gaps_ns", [TOO_LARGE]),
        ("marks_ns", [1]),
        ("marks_ns", {"first_token": "x"}),
        ("id", "x"),
        ("id", True),
        ("id", -1),
        ("parent", 1.5),
        ("trace_id", "x"),
        ("trace_id", "-1"),
        ("trace_id", "f" * 33),
        ("span_id", "f" * 17),
        ("side", "zz"),
        ("segments", [["decode", 0, 5, "zz"]]),
        ("metrics", {"duration": [5, "zz"]}),
        ("metrics", {"duration": [5]}),
        ("chunk_gap_sources", {"1": "zz"}),
        ("tokens", {"input": 1}),
    ],
)
def test_a_field_of_another_type_or_range_makes_a_line_unreadable(
    field: str, value: object
) -> None:
    """So no reader has to expect it, and it costs one line, not the whole report."""
    line = json.dumps({**GOOD, field: value})
    for read in (record_of, row_of):
        with pytest.raises(UNREADABLE):
            read(line)


def test_a_line_in_another_form_becomes_compact() -> None:
    """Its kind is first, and no spaces are between the parts; a compact line is not parsed."""
    other = json.dumps(dict(reversed(GOOD.items())), separators=(", ", ": ")).encode() + b"\n"
    own = line_of(record_of(other)).encode()

    assert compact_line(other).startswith(b'{"kind":"request",')
    assert record_of(compact_line(other)) == record_of(other)
    assert compact_line(own) is own
