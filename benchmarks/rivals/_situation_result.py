"""Result of a library in a situation: the values that it reports, and when it exports them."""

from __future__ import annotations

import gc
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from _timed import Answer, TimedPart
from rivals._callers import AROUND, BETWEEN, Scene
from rivals._places import SOURCES, Sources
from rivals._situations import EndRecorded, Fact, Outcome, Parent, Question, Situation

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

    from rivals._switches import On, Total


@dataclass(frozen=True, slots=True)
class SituationResult:
    """
    Result of a library in one situation.

    Args:
        answers: Reported values by fact: seconds, a count, or a member of the fact's enumeration.
        got: What the caller received: the number of chunks, and the exception.
    """

    answers: Mapping[str, float | str]
    got: str

    def is_right(self, question: Question) -> bool | None:
        """Return whether the reported value is correct; ``None`` if none is reported."""
        answer = self.answers.get(question.fact)
        return None if answer is None else question.is_right(answer)

    def to_json(self) -> dict[str, Any]:
        """Return the result as values that ``json.dumps`` accepts."""
        return asdict(self)


def run_situation(on: On, situation: Situation, library: str) -> SituationResult:
    """Run the situation, and return the values that the library reports."""
    _rehearse(situation)
    on.totals()
    on.settle()
    sources = SOURCES[library]
    recorded: list[EndRecorded] = []

    def look(moment: EndRecorded) -> None:
        on.flush()
        if not recorded and _records(on, sources, scene):
            recorded.append(moment)

    scene = Scene(situation.answers, headers_came=lambda: look(EndRecorded.TOO_EARLY))
    with _without_collection():
        situation.caller(scene)
        look(EndRecorded.AT_ONCE)
        scene.held.clear()
        look(EndRecorded.DROPPED)
        gc.collect()
        look(EndRecorded.COLLECTED)
    answers: dict[str, float | str] = {
        Fact.END_RECORDED: recorded[0] if recorded else EndRecorded.NEVER
    }
    if scene.around is not None:
        answers[Fact.PARENT] = Parent.CALLER if scene.parent == scene.around else Parent.OTHER
    if records := _records(on, sources, scene):
        answers[Fact.OUTCOME] = _outcome(records[-1])
        answers |= _numbers(sources, records[-1], on.totals())
    raised = f", {scene.raised}" if scene.raised else ""
    return SituationResult(answers, f"{scene.read} read{raised}")


def _rehearse(situation: Situation) -> None:
    """Run the situation once without delays, so that work of a first call is not measured."""
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


def _records(on: On, sources: Sources, scene: Scene) -> list[ReadableSpan]:
    """Return the spans of calls: those without a parent, or children of the application's span."""
    return [
        span
        for span in on.telemetry.memory.get_finished_spans()
        if span.name not in {AROUND, BETWEEN}
        and (span.parent is None or span.parent.span_id == scene.around)
        and span.name.startswith(sources.streamed or "")
    ]


def _outcome(span: ReadableSpan) -> Outcome:
    """Return how the call ended, from any attribute, event or status that a library uses for it."""
    attributes = span.attributes or {}
    words = [
        str(attributes.get("error.type", "")),
        str(attributes.get("latspan.outcome", "")),
        str(attributes.get("langfuse.observation.level", "")),
        *(str((event.attributes or {}).get("exception.type", "")) for event in span.events),
    ]
    if any("cancelled" in word.lower() for word in words):
        return Outcome.CANCELLED
    failed = not span.status.is_unset and not span.status.is_ok
    failed |= "error.type" in attributes or "ERROR" in words
    failed |= any(event.name == "exception" for event in span.events)
    return Outcome.BADLY if failed else Outcome.WELL


def _numbers(
    sources: Sources, span: ReadableSpan, totals: Mapping[str, Total]
) -> dict[str, float | str]:
    found = {fact: place.look(span, totals) for fact, place in sources.places.items()}
    return {fact: number for fact, number in found.items() if number is not None}
