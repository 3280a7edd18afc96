"""Parts of a response that a call keeps, in addition to the times of its chunks."""

from __future__ import annotations

from opentelemetry.context import Context

from latspan._base.clock import ManualClock
from latspan._live.operations import ModelCall
from latspan._live.otel.spans import NoSink
from latspan._live.process.runtime import Runtime
from latspan._model.recording import Recorder
from latspan._model.segments import Outcome


def _kept(parts: str, *, choices: int = 1) -> str:
    clock = ManualClock()
    call = ModelCall(
        Runtime(clock=clock, recorder=Recorder(clock), sink=NoSink),
        Context(),
        name="chat",
        attributes={},
        series={},
        choices=choices,
    )
    for part in parts:
        call.keep_copy(None, part.encode())
    kept = b"".join(call.parts).decode()
    call.end(Outcome.COMPLETED)
    assert call.parts == []
    return kept


def test_the_first_part_and_the_last_three_are_kept() -> None:
    """The first names the model; finish reason, usage and timings may be in three parts."""
    kept = [_kept("abcdef"[:count]) for count in range(7)]
    assert kept == ["", "a", "ab", "abc", "abcd", "acde", "adef"]


def test_each_choice_has_room_for_its_end() -> None:
    """The response with three choices has two more last parts."""
    assert _kept("abcdefgh", choices=3) == "adefgh"


def test_an_empty_part_is_not_kept() -> None:
    """A chunk without a field other than text is not the first part."""
    clock = ManualClock()
    call = ModelCall(
        Runtime(clock=clock, recorder=Recorder(clock), sink=NoSink),
        Context(),
        name="chat",
        attributes={},
        series={},
    )
    call.keep_copy(None, b"")
    assert call.parts == []
    call.end(Outcome.COMPLETED)
