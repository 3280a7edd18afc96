"""Response headers group requests by the name of the header."""

from __future__ import annotations

from latspan import Kind
from latspan._study.table import Table, table_of_records
from latspan.integrations import Outcome
from latspan.testing import RequestRecord

_HEADER = "http.response.header."


def _record(kind: Kind, details: dict[str, object], *, number: int = 0) -> RequestRecord:
    return RequestRecord(
        name=kind.value,
        kind=kind,
        outcome=Outcome.COMPLETED,
        start_epoch_ns=number,
        duration_ns=1,
        segments=(),
        scope_id=number if kind is Kind.REQUEST else 0,
        parent_id=0 if kind is Kind.REQUEST else number,
        details=details,
    )


def _values(table: Table, name: str) -> list[str | None]:
    codes, values = table.groups[name]
    return [values[code] if code >= 0 else None for code in codes.tolist()]


def test_a_header_is_a_group() -> None:
    """Other details of HTTP are not."""
    table = table_of_records(
        [
            _record(
                Kind.CALL,
                {f"{_HEADER}x-pod": [pod] if pod else [], "http.request.method": "POST"},
                number=number,
            )
            for number, pod in enumerate(("a", "b", "", "a"))
        ]
    )
    assert _values(table, "x-pod") == ["a", "b", None, "a"]
    assert not [name for name in table.groups if name.startswith("http.")]


def test_a_header_of_the_last_call_is_a_group_of_its_request() -> None:
    """As every attribute of a call is."""
    table = table_of_records(
        [
            _record(Kind.CALL, {f"{_HEADER}x-pod": ["a"]}, number=1),
            _record(Kind.REQUEST, {}, number=1),
        ]
    )
    assert _values(table, "x-pod") == ["a"]


def test_an_attribute_of_the_application_has_priority() -> None:
    """It has the same name as the header."""
    table = table_of_records([_record(Kind.CALL, {f"{_HEADER}x-pod": ["a"], "x-pod": "own"})])
    assert _values(table, "x-pod") == ["own"]


def test_a_header_with_many_values_is_no_group() -> None:
    """It identifies requests."""
    table = table_of_records(
        [_record(Kind.CALL, {f"{_HEADER}x-pod": [str(number)]}) for number in range(41)]
    )
    assert "x-pod" not in table.groups
