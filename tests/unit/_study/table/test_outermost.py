"""Only the outermost records of a source are rows, and only those that count."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from latspan import Kind
from latspan._model.recording.folder import row_of_record
from latspan._model.segments import SegmentName, Side, Source
from latspan._study.table import OutermostReader
from latspan.integrations import Outcome
from latspan.testing import MetricValue, RequestRecord, Segment


def record(start_ns: int = 0, **changes: Any) -> RequestRecord:
    fields: dict[str, Any] = {
        "name": "chat m",
        "kind": Kind.CALL,
        "outcome": Outcome.COMPLETED,
        "start_epoch_ns": start_ns,
        "duration_ns": 10,
        "segments": (Segment("decode", 0, 10),),
        "metrics": {"duration": MetricValue(10), "stall_count": MetricValue(3)},
    }
    return RequestRecord(**{**fields, **changes})


def starts(*records: RequestRecord, **asked: Any) -> tuple[Kind, list[int]] | None:
    reader = OutermostReader(**asked)
    for each in records:
        # Each in a chunk of its own, so that the outermost kind may come last.
        reader.add([row_of_record(each)])
    table = reader.table()
    return None if table is None else (table.kind, table.start_ns.tolist())


def test_the_outermost_kind_counts_wherever_it_occurs() -> None:
    """Both sides are rows, and the records inside them are not."""
    mixed = [
        record(1, kind=Kind.STAGE),
        record(2),
        record(3, kind=Kind.REQUEST),
        record(4, kind=Kind.REQUEST, side=Side.SERVER),
        record(5),
    ]

    assert starts(*mixed) == (Kind.REQUEST, [3, 4])
    assert starts(*mixed, kind=Kind.STAGE) == (Kind.STAGE, [1])
    assert starts(*mixed[:2]) == (Kind.CALL, [2])
    assert starts(mixed[1], kind=Kind.HTTP) is None


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ({"model": "m"}, [1]),
        ({"app.number": "7"}, [2]),
        ({"outcome": "timeout"}, [3]),
        ({"side": "server"}, [4]),
        ({"side": "client"}, [1, 2, 3]),
    ],
)
def test_a_record_is_chosen_by_attribute_detail_or_field(
    where: Mapping[str, str], expected: list[int]
) -> None:
    """A number is compared as text."""
    records = [
        record(1, attributes={"model": "m"}),
        record(2, details={"app.number": 7}),
        record(3, outcome=Outcome.TIMEOUT),
        record(4, side=Side.SERVER),
    ]

    assert starts(*records, where=where) == (Kind.CALL, expected)


def test_only_the_measured_phase_of_a_load_test_counts() -> None:
    """The first request is neither warm-up nor drain."""
    phases = ("cold", "warmup", "measured", "drain")
    records = [record(at, details={"latspan.load.phase": each}) for at, each in enumerate(phases)]

    assert starts(*records) == (Kind.CALL, [2])


def test_only_the_metrics_that_are_asked_for_are_kept() -> None:
    """A table of a million calls needs little memory."""
    reader = OutermostReader(metrics=("stall_count",), attributes=("tenant",))
    given = {"tenant": "a", "model": "m"}
    reader.add([row_of_record(record(attributes=given, details={"app.plan": "pro"}))])
    table = reader.table()

    assert table is not None
    assert table.number("stall_count").tolist() == [3]
    assert set(table.groups) == {"tenant"}
    assert table.names == ()


def test_segments_may_be_members_of_the_enumeration() -> None:
    """Records of converted files name them so; they were left out as damaged."""
    segments = (Segment(SegmentName.UNATTRIBUTED, 0, 10, Source.UNKNOWN),)

    assert starts(record(1, segments=segments)) == (Kind.CALL, [1])
