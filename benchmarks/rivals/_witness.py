"""What one library says of one situation, and when it says it."""

from __future__ import annotations

import gc
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from _timed import Answer, TimedPart
from rivals._callers import AROUND, BETWEEN, Scene
from rivals._places import SAYS, Says
from rivals._situations import Ask, Ended, Fact, Heard, Parent, Situation

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

    from rivals._switches import On, Total

__all__ = ["Testimony", "witnessed"]


@dataclass(frozen=True, slots=True)
class Testimony:
    """
    What a library said of one situation.

    Args:
        answers: By fact: a number in seconds or a count, or one of the words for it.
        got: What the caller got: how many chunks, and which exception.
    """

    answers: Mapping[str, float | str]
    got: str

    def is_right(self, ask: Ask) -> bool | None:
        """Return whether a question is answered right, ``None`` where it is not answered."""
        answer = self.answers.get(ask.fact)
        return None if answer is None else ask.is_right(answer)

    def to_json(self) -> dict[str, Any]:
        """Return it as what ``json.dumps`` takes."""
        return asdict(self)


def witnessed(on: On, situation: Situation, library: str) -> Testimony:
    """Let the situation happen, and return what the library said of it."""
    _rehearse(situation)
    on.totals()
    on.settle()
    says = SAYS[library]
    heard: list[Heard] = []

    def look(moment: Heard) -> None:
        on.flush()
        if not heard and _records(on, says, scene):
            heard.append(moment)

    scene = Scene(situation.answers, headers_came=lambda: look(Heard.TOO_EARLY))
    with _without_collection():
        situation.caller(scene)
        look(Heard.AT_ONCE)
        scene.held.clear()
        look(Heard.DROPPED)
        gc.collect()
        look(Heard.COLLECTED)
    answers: dict[str, float | str] = {Fact.HEARD: heard[0] if heard else Heard.NEVER}
    if scene.around is not None:
        answers[Fact.PARENT] = Parent.CALLER if scene.parent == scene.around else Parent.OTHER
    if records := _records(on, says, scene):
        answers[Fact.ENDED] = _ended(records[-1])
        answers |= _numbers(says, records[-1], on.totals())
    raised = f", {scene.raised}" if scene.raised else ""
    return Testimony(answers, f"{scene.read} read{raised}")


def _rehearse(situation: Situation) -> None:
    """Let it happen at once, so that what a client does only the first time is not measured."""
    answers = [
        Answer([TimedPart(0, piece.data) for piece in answer.pieces], cut=answer.cut)
        for answer in situation.answers
    ]
    situation.caller(Scene(answers, headers_came=lambda: None))
    gc.collect()


@contextmanager
def _without_collection() -> Generator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _records(on: On, says: Says, scene: Scene) -> list[ReadableSpan]:
    """Return the spans that stand for a call: outermost, or children of the application's own."""
    return [
        span
        for span in on.telemetry.memory.get_finished_spans()
        if span.name not in {AROUND, BETWEEN}
        and (span.parent is None or span.parent.span_id == scene.around)
        and span.name.startswith(says.streamed or "")
    ]


def _ended(span: ReadableSpan) -> Ended:
    """Return how the call ended, read from whatever the library may have said it with."""
    attributes = span.attributes or {}
    words = [
        str(attributes.get("error.type", "")),
        str(attributes.get("latspan.outcome", "")),
        str(attributes.get("langfuse.observation.level", "")),
        *(str((event.attributes or {}).get("exception.type", "")) for event in span.events),
    ]
    if any("cancelled" in word.lower() for word in words):
        return Ended.CANCELLED
    failed = not span.status.is_unset and not span.status.is_ok
    failed |= "error.type" in attributes or "ERROR" in words
    failed |= any(event.name == "exception" for event in span.events)
    return Ended.BADLY if failed else Ended.WELL


def _numbers(says: Says, span: ReadableSpan, totals: Mapping[str, Total]) -> dict[str, float | str]:
    found = {fact: place.look(span, totals) for fact, place in says.places.items()}
    return {fact: number for fact, number in found.items() if number is not None}
