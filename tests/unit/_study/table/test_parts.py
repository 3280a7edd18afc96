"""Parts of a recording: which lines belong to a request that has an attribute."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from latspan import Kind, Recording, open_recording
from latspan._model.recording.folder import begin_recording
from latspan._model.recording.folder._lines import line_of
from latspan._study.table import PartsReader
from latspan.errors import ConfigError
from latspan.testing import RequestRecord
from support.mixed import mixed_records
from support.records import RECORD


def recording_of(folder: Path, *files: Iterable[RequestRecord], ratio: float = 1) -> Recording:
    """Return a recording with one file for each process."""
    begin_recording(folder, source="run", conditions={})
    for number, records in enumerate(files, 1):
        lines = [line_of(record, ratio) for record in records]
        (folder / f"requests-{number}-0.ended.jsonl").write_text("".join(lines), "utf-8")
    return open_recording(folder)


def counts(reader: PartsReader) -> dict[str, dict[Kind, int]]:
    """Return the number of records of each kind in the histograms of each part."""
    reader.read()
    return {
        value: {kind: number for kind in Kind if (number := part.count(kind=kind))}
        for value, part in reader.parts().items()
    }


def of_tenant(records: Iterable[RequestRecord], tenant: str) -> list[RequestRecord]:
    """Return records whose requests have a tenant."""
    return [
        replace(each, details={"tenant": tenant}) if each.kind is Kind.REQUEST else each
        for each in records
    ]


def test_numbers_of_scopes_are_those_of_their_process(tmp_path: Path) -> None:
    """Two processes number their requests alike, and their calls stay apart."""
    one, two = (
        of_tenant(mixed_records({"GET /": number}, jobs={}), tenant)
        for number, tenant in ((3, "acme"), (2, "bolt"))
    )

    reader = PartsReader(recording_of(tmp_path / "two", one, two), {}, "tenant")

    assert counts(reader) == {
        "acme": {Kind.REQUEST: 3, Kind.CALL: 3},
        "bolt": {Kind.REQUEST: 2, Kind.CALL: 2},
    }


def test_a_call_in_a_stage_belongs_to_the_request(tmp_path: Path) -> None:
    """Its line comes first, and the attribute only in the last line."""
    call, request = mixed_records({"GET /": 1}, jobs={})
    stage = replace(RECORD, kind=Kind.STAGE, name="rerank", scope_id=2, parent_id=1)
    lines = [replace(call, parent_id=2), stage, *of_tenant([request], "acme"), RECORD]

    reader = PartsReader(recording_of(tmp_path / "one", lines), {"tenant": "acme"}, "route")

    assert counts(reader) == {"/": {Kind.REQUEST: 1, Kind.CALL: 1, Kind.STAGE: 1}}
    assert {each.name for each in reader.snapshot().records} == {"GET /", "rerank", "chat m-1"}
    assert reader.division.notes == ()


def test_a_sampled_line_counts_for_those_that_it_stands_for(tmp_path: Path) -> None:
    """In the histograms of a part and in the order of the values."""
    records = mixed_records({"GET /": 4}, jobs={})

    reader = PartsReader(recording_of(tmp_path / "half", records, ratio=0.5), {}, "tenant")

    assert counts(reader)["acme"] == {Kind.REQUEST: 4, Kind.CALL: 4}


def test_calls_outside_requests_have_their_own_attributes(tmp_path: Path) -> None:
    """They are divided next to requests, and a note counts both."""
    records = mixed_records({"GET /": 3}, jobs={"nightly": 2}, bare=4)
    recording = recording_of(tmp_path / "mixed", records)

    assert counts(PartsReader(recording, {}, "model")) == {
        "m-1": {Kind.REQUEST: 5, Kind.CALL: 5},
        "m-2": {Kind.CALL: 4},
    }
    reader = PartsReader(recording, {}, "route")
    assert reader.division.notes == ("2 requests and 4 calls have no route.",)


def test_a_recording_without_requests_has_no_parts(tmp_path: Path) -> None:
    """Its report states that nothing was recorded."""
    reader = PartsReader(recording_of(tmp_path / "empty", []), {"tenant": "acme"}, "route")

    assert counts(reader) == {}


def test_an_attribute_of_no_selected_request_is_refused(tmp_path: Path) -> None:
    """Although others have it."""
    recording = recording_of(tmp_path / "mixed", mixed_records({"GET /": 3}, jobs={"nightly": 2}))

    with pytest.raises(ConfigError, match="no request has the attribute route") as raised:
        PartsReader(recording, {"job": "nightly"}, "route")
    assert raised.value.hint == "they have job and model"
