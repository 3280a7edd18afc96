"""What holds for every source: what is read, what is not, and what is rejected."""

from __future__ import annotations

import math
from typing import Any

import pytest

from latspan._model import evidence
from latspan._model.timeline import call_timeline
from support.reports import GATEWAYS, SERVERS, Said, name_of, observed

EVERY = (*SERVERS, *GATEWAYS)
every_source = pytest.mark.parametrize("said", EVERY, ids=name_of)
in_a_body = pytest.mark.parametrize(
    ("said", "path"),
    [(said, path) for said in EVERY for path in said.needs],
    ids=lambda value: name_of(value) if isinstance(value, Said) else value[-1],
)


@every_source
def test_its_answer_is_read(said: Said) -> None:
    """In nanoseconds, whatever its unit; its own values are kept."""
    (reported,) = evidence.read(said.answer())
    assert reported == said.reported(reported.raw)
    assert reported.raw


@every_source
def test_a_report_fits_the_clients_measurement(said: Said) -> None:
    """A report in earnest is not rejected, and splits the wait."""
    answer = said.answer()
    timeline = call_timeline(observed(answer, *evidence.read(answer)))
    assert timeline.rejected == ()
    assert "evidence_rejected" not in timeline.metrics
    assert sum(s.duration_ns for s in timeline.segments) == timeline.duration_ns


@every_source
def test_no_other_source_takes_it_for_its_own(said: Said) -> None:
    """It is recognised by what no other has."""
    sources = (*evidence.SERVERS, *evidence.GATEWAYS)
    systems = {r.system for each in sources if (r := each.read(said.answer())) is not None}
    assert systems == {said.system}


@every_source
def test_the_wrong_unit_is_rejected(said: Said) -> None:
    """A thousand times too long is longer than the call."""
    answer = said.with_number(lambda value: value * 1_000).answer()
    timeline = call_timeline(observed(answer, *evidence.read(answer)))
    assert timeline.rejected == (said.system,)
    assert timeline.metrics["evidence_rejected"].value == 1


@every_source
def test_a_negative_time_is_rejected(said: Said) -> None:
    """HAProxy says -1 of what did not happen."""
    answer = said.with_number(lambda value: -value).answer()
    assert call_timeline(observed(answer, *evidence.read(answer))).rejected == (said.system,)


@in_a_body
@pytest.mark.parametrize(
    "value",
    [math.nan, math.inf, -math.inf, 1e308, 10**400],
    ids=["nan", "inf", "minus inf", "1e308", "no float"],
)
def test_a_time_that_cannot_be_is_rejected(said: Said, path: tuple[str, ...], value: float) -> None:
    """JSON in Python's reading has such numbers; they are said, so they are counted."""
    answer = said.without(path, value).answer()
    (reported,) = evidence.read(answer)
    assert all(math.isfinite(kept) for kept in reported.raw.values())
    if not path[-1].endswith("_n"):
        assert call_timeline(observed(answer, reported)).rejected == (said.system,)


@in_a_body
def test_without_a_field_it_needs_it_is_not_recognised(said: Said, path: tuple[str, ...]) -> None:
    """Another server's object of the same name is no evidence."""
    assert evidence.read(said.without(path).answer()) == ()


@in_a_body
@pytest.mark.parametrize("value", ["12", "", None, True, [1], {}], ids=repr)
def test_what_is_no_number_is_no_evidence(said: Said, path: tuple[str, ...], value: Any) -> None:
    """Neither text nor truth."""
    assert evidence.read(said.without(path, value).answer()) == ()


@pytest.mark.parametrize("said", [s for s in EVERY if s.headers and not s.body], ids=name_of)
@pytest.mark.parametrize(
    "value",
    ["", "None", "nan", "inf", "1e3", "0x10", "1_000", "\u0661\u0662", " 12", "12 ", "5, 7", "+1"],
)
def test_a_header_that_is_no_number_is_no_evidence(said: Said, value: str) -> None:
    """Only digits are, with a point at most."""
    headers = dict.fromkeys(said.headers, value)
    answer = Said(said.system, said.read, headers=headers, streamed=said.streamed).answer()
    assert evidence.read(answer) == ()


@pytest.mark.parametrize("said", [s for s in EVERY if s.headers], ids=name_of)
@pytest.mark.parametrize("value", ["9" * 1_000_000, "\udcff\udcfe", "\xff" * 64])
def test_a_header_may_be_anything(said: Said, value: str) -> None:
    """Of a megabyte, or of no encoding: it is read past."""
    headers = dict.fromkeys(said.headers, value)
    answer = Said(said.system, said.read, headers=headers, streamed=said.streamed).answer()
    assert evidence.read(answer) == ()
