"""Ladders read from recordings, and recordings that are none."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from latspan import Kind, Recording, open_recording
from latspan._study.capacity import Ladder, Rung, read_ladder
from latspan.errors import ConfigError, RecordingError
from latspan.integrations import Outcome
from latspan.testing import RequestRecord
from support.measurements import call, load_test, step
from support.queues import System, write_ladder

_SYSTEM = System("queue", 2)


def _rungs(*rates: float, size: int = 120) -> list[Rung]:
    return [_SYSTEM.rung(rate, 10 + number, size) for number, rate in enumerate(rates)]


def _read(*recordings: Recording, metric: str = "duration", percentile: float = 99) -> Ladder:
    return read_ladder(recordings, metric, percentile)


def _refused(*recordings: Recording, **asked: Any) -> str:
    with pytest.raises(RecordingError) as caught:
        _read(*recordings, **asked)
    assert caught.value.hint
    return caught.value.message


def _calls(number: int | None = None, **changes: Any) -> list[RequestRecord]:
    first = 1_000_000 * (number or 0)
    return [
        call(first + index, at_ms=100 * index, number=number, **changes) for index in range(110)
    ]


def _steps(*rates: float, **changes: Any) -> list[dict[str, Any]]:
    return [
        step(
            intended=110,
            load={"pattern": "poisson", "rate_per_s": rate},
            offered_per_s=rate,
            reached_per_s=rate,
            **changes,
        )
        for rate in rates
    ]


def _unknown() -> dict[str, Any]:
    return step(intended=110, load={"pattern": "poisson"}, offered_per_s=None, reached_per_s=None)


def test_a_recording_gives_its_rungs_by_ascending_load(tmp_path: Path) -> None:
    """With the arrivals, ends and values that were recorded, to the microsecond."""
    rungs = _rungs(1.0, 0.5)
    ladder = _read(write_ladder(tmp_path / "r", rungs))
    assert (ladder.name, ladder.kind, ladder.percentile) == ("chat", Kind.CALL, 99)
    assert [rung.rate_per_s for rung in ladder.rungs] == [0.5, 1.0]
    read, written = ladder.rungs[1], rungs[0]
    assert read.due == pytest.approx(written.due - written.due[0], abs=1e-6)
    assert read.end - read.due == pytest.approx(written.end - written.due, abs=1e-6)
    assert read.measured.tolist() == written.measured.tolist()
    assert np.isinf(read.value).tolist() == np.isinf(written.value).tolist()


def test_another_metric_begins_at_the_same_instant(tmp_path: Path) -> None:
    """The time to the first token is half of the duration here."""
    recording = write_ladder(tmp_path / "r", _rungs(0.5, 1.0))
    whole, first = _read(recording), _read(recording, metric="time_to_first_token")
    assert first.rungs[0].values == pytest.approx(whole.rungs[0].values / 2, abs=1e-6)


def test_rungs_may_be_recordings_of_their_own(tmp_path: Path) -> None:
    """Each with one step."""
    recordings = [
        write_ladder(tmp_path / str(rate), _rungs(rate), percentile=99) for rate in (0.5, 1.0)
    ]
    assert [rung.rate_per_s for rung in _read(*recordings).rungs] == [0.5, 1.0]


def test_one_rung_is_no_ladder(tmp_path: Path) -> None:
    """The hint is a ladder."""
    message = _refused(write_ladder(tmp_path / "r", _rungs(0.5)))
    assert "has 1 rung, and a ladder has at least two" in message


def test_the_same_load_twice_is_no_ladder(tmp_path: Path) -> None:
    """Two rungs at one load do not show what happens at another."""
    assert "at least two" in _refused(write_ladder(tmp_path / "r", _rungs(0.5, 0.5)))


def test_a_recording_without_a_load_is_no_ladder(tmp_path: Path) -> None:
    """Requests of a program have arrivals, but nothing that was offered."""
    recording = load_test(tmp_path / "r", _calls(), [])
    assert "is not a load test" in _refused(recording)


def test_a_closed_loop_has_no_offered_load(tmp_path: Path) -> None:
    """It is named, and the rest is too little."""
    steps = [step(intended=110, load={"pattern": "closed", "concurrency": n}) for n in (1, 2)]
    recording = load_test(tmp_path / "r", [*_calls(0), *_calls(1)], steps)
    message = _refused(recording)
    assert "The step with 2 in flight is left out: it is a closed loop" in message


def test_a_step_whose_rate_is_unknown_is_left_out(tmp_path: Path) -> None:
    """Other load tools do not always state it."""
    steps = [*_steps(1.0, 2.0), _unknown()]
    recording = load_test(tmp_path / "r", [*_calls(0), *_calls(1), *_calls(2)], steps)
    assert _read(recording).left_out == ("A step is left out: its offered load is unknown.",)


def test_the_load_of_a_rung_is_the_offered_one(tmp_path: Path) -> None:
    """And not the rate that was asked for, from which random arrivals differ."""
    steps = _steps(1.0, 24.0)
    steps[0]["offered_per_s"], steps[1]["offered_per_s"] = 1.1, 19.7
    for each in steps:
        each["reached_per_s"] = each["offered_per_s"]
    ladder = _read(load_test(tmp_path / "r", [*_calls(0), *_calls(1)], steps))
    assert [rung.rate_per_s for rung in ladder.rungs] == [1.1, 19.7]


def test_nearly_the_same_load_twice_is_no_ladder(tmp_path: Path) -> None:
    """One rate offers loads that differ by chance."""
    steps = _steps(10.0, 10.0)
    steps[0]["offered_per_s"] = 9.8
    recording = load_test(tmp_path / "r", [*_calls(0), *_calls(1)], steps)
    assert "at least two" in _refused(recording)


def test_an_invalid_step_is_left_out(tmp_path: Path) -> None:
    """With the reason of latspan measure; the other two are a ladder."""
    steps = _steps(1.0, 2.0, 3.0)
    steps[1]["interrupted"] = True
    recording = load_test(tmp_path / "r", [*_calls(0), *_calls(1), *_calls(2)], steps)
    ladder = _read(recording)
    assert [rung.rate_per_s for rung in ladder.rungs] == [1.0, 3.0]
    (reason,) = ladder.left_out
    assert reason.startswith("The step with 2 requests/s is left out: it is INVALID")


def test_a_step_whose_percentile_is_open_is_left_out(tmp_path: Path) -> None:
    """5 of 110 were given up, so its p99 is at least what they waited, and its p90 is known."""
    left = [
        replace(each, outcome=Outcome.CANCELLED, duration_ns=3_000_000_000)
        if index % 22 == 0
        else each
        for index, each in enumerate(_calls(1))
    ]
    records = [*_calls(0), *left, *_calls(2)]
    recording = load_test(tmp_path / "r", records, _steps(1.0, 2.0, 3.0))

    open_tail, known = _read(recording), _read(recording, percentile=90)

    assert [rung.rate_per_s for rung in open_tail.rungs] == [1.0, 3.0]
    (reason,) = open_tail.left_out
    assert reason == (
        "The step with 2 requests/s is left out: its p99 is at least 3 s and not known, because"
        " 5 of 110 requests were given up."
    )
    assert [rung.rate_per_s for rung in known.rungs] == [1.0, 2.0, 3.0]
    assert (known.rungs[1].failed, known.rungs[1].cut) == (0, 5)


def test_a_step_with_too_few_requests_is_left_out(tmp_path: Path) -> None:
    """A p99 needs 100, a p90 needs 10."""
    recording = write_ladder(tmp_path / "r", _rungs(0.5, 1.0, size=60))
    assert "has 60 requests, and a p99 needs 100" in _refused(recording)
    assert len(_read(recording, percentile=90).rungs) == 2


def test_rungs_of_different_models_are_no_ladder(tmp_path: Path) -> None:
    """As the responses name them."""
    changed = [
        replace(each, details={**each.details, "gen_ai.response.model": "m-2"})
        for each in _calls(1)
    ]
    recording = load_test(tmp_path / "r", [*_calls(0), *changed], _steps(1.0, 2.0))
    assert "different models answered the rungs of the ladder: m-1; m-2" in _refused(recording)


def test_recordings_under_other_conditions_are_no_ladder(tmp_path: Path) -> None:
    """The condition is named."""
    recordings: Sequence[Recording] = [
        write_ladder(tmp_path / str(rate), _rungs(rate)) for rate in (0.5, 1.0)
    ]
    conditions = {**recordings[1].conditions, "model": "m-2"}
    other = Recording(recordings[1].folder, {**recordings[1].manifest, "conditions": conditions})
    assert "is not of the same ladder" in _refused(recordings[0], other)
    assert "model differs" in _refused(recordings[0], other)


@pytest.mark.parametrize("name", ["timeout_s", "processors", "platform"])
def test_rungs_of_another_machine_or_timeout_are_no_ladder(name: str, tmp_path: Path) -> None:
    """Its capacity is another one."""
    first, second = (write_ladder(tmp_path / str(rate), _rungs(rate)) for rate in (0.5, 1.0))
    conditions = {**second.conditions, name: 1_000_000}
    other = Recording(second.folder, {**second.manifest, "conditions": conditions})
    assert f"{name} differs" in _refused(first, other)


def test_a_recording_that_is_given_twice_is_no_ladder(tmp_path: Path) -> None:
    """Its requests would count twice."""
    one = write_ladder(tmp_path / "one", _rungs(0.5, 1.0))
    with pytest.raises(ConfigError, match="one is given twice"):
        _read(one, one)
    shutil.copytree(one.folder, tmp_path / "two")
    with pytest.raises(ConfigError, match=r"two is a copy of .*one"):
        _read(one, open_recording(tmp_path / "two"))


def test_a_metric_that_no_request_has_is_refused(tmp_path: Path) -> None:
    """For example the first token of an API that does not stream."""
    records = [*_calls(0, ttft_ms=None), *_calls(1, ttft_ms=None)]
    recording = load_test(tmp_path / "r", records, _steps(1.0, 2.0))
    message = _refused(recording, metric="time_to_first_token")
    assert "no request of the ladder has a time_to_first_token" in message
