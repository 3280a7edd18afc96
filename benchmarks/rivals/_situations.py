"""
The thirteen situations: schedule of the server, behaviour of the caller, and correct values.

Every stream has the same schedule, in seconds since the request. The headers and a chunk with only
the role arrive at 0.30, and the first of twenty tokens at 0.50. Each further token arrives 0.02
after the previous one, except the eleventh, which arrives 0.42 after it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from _openai import HEAD, LAST, event, framed
from _timed import Answer, TimedPart
from rivals import _callers
from rivals._callers import Scene


class Fact(StrEnum):
    """Fact about a call that a library can report."""

    END_RECORDED = "when its end is recorded"
    OUTCOME = "outcome"
    DURATION = "duration"
    FIRST_CHUNK = "time to first chunk"
    TTFT = "time to first token"
    LONGEST_GAP = "longest gap"
    GAPS = "sum of all gaps"
    CONSUMER = "time spent in the caller"
    ATTEMPTS = "attempts"
    PARENT = "parent of a span between chunks"


class EndRecorded(StrEnum):
    """
    Instant at which the span, or the record in its place, has been exported.

    Automatic garbage collection is off.
    """

    TOO_EARLY = "at the headers"
    AT_ONCE = "at once"
    DROPPED = "when dropped"
    COLLECTED = "at collection"
    NEVER = "never"


class Outcome(StrEnum):
    """Outcome of a call, as the library reports it."""

    WELL = "no error"
    CANCELLED = "cancelled"
    BADLY = "error"


class Parent(StrEnum):
    """Parent of a span that the application creates while it reads."""

    CALLER = "the caller's span"
    OTHER = "another span"


@dataclass(frozen=True, slots=True)
class About:
    """
    A time that may be reported slightly too long.

    Args:
        seconds: Exact time. The client and the machine may add a short delay.
        is_gap: Whether the time lies between two instants that may both be late. It may then also
            be reported too short.
    """

    seconds: float
    is_gap: bool = False

    def holds(self, answer: float) -> bool:
        """Return whether the reported value is correct."""
        early_s = _LATE_S if self.is_gap else _TOO_SOON_S
        return self.seconds - early_s <= answer <= self.seconds + _LATE_S

    def __str__(self) -> str:
        """Return the correct value as tables show it."""
        return f"{self.seconds:.2f}"


@dataclass(frozen=True, slots=True)
class Between:
    """
    A range of correct values, for example because definitions differ.

    Args:
        least: Smallest correct value.
        most: Greatest correct value.
    """

    least: float
    most: float

    def holds(self, answer: float) -> bool:
        """Return whether the reported value is correct."""
        return self.least - _TOO_SOON_S <= answer <= self.most + _LATE_S

    def __str__(self) -> str:
        """Return the correct value as tables show it."""
        return f"{self.least:.2f} … {self.most:.2f}"


@dataclass(frozen=True, slots=True)
class Count:
    """
    A count.

    Args:
        number: The only correct value.
    """

    number: int

    def holds(self, answer: float) -> bool:
        """Return whether the reported value is correct."""
        return answer == self.number

    def __str__(self) -> str:
        """Return the correct value as tables show it."""
        return str(self.number)


@dataclass(frozen=True, slots=True)
class Question:
    """
    One question about a situation.

    Args:
        fact: Fact that the library is expected to report.
        correct: Correct value.
    """

    fact: Fact
    correct: About | Between | Count | EndRecorded | Outcome | Parent

    def is_right(self, answer: float | str) -> bool:
        """Return whether the reported value is correct."""
        if isinstance(self.correct, About | Between | Count):
            return not isinstance(answer, str) and self.correct.holds(answer)
        return answer == self.correct


@dataclass(frozen=True, slots=True)
class Situation:
    """
    One course of a call.

    Args:
        name: Name in tables: a letter, for some with a number.
        title: Description in tables.
        answers: Responses of the server, one per request.
        caller: Function that makes the call, as the application would.
        questions: Questions about the situation.
    """

    name: str
    title: str
    answers: Sequence[Answer]
    caller: Callable[[Scene], None]
    questions: Sequence[Question]


_TOO_SOON_S: Final = 0.002
_LATE_S: Final = 0.05
"""
Delay that a busy machine may add, in seconds. It is a quarter of the time between the chunk with
the role and the first token, so a library that takes the former for the latter is detected.
"""

_HEADERS_S: Final = 0.30
_FIRST_S: Final = 0.50
_GAP_S: Final = 0.02
_STALL_S: Final = 0.40
_TOKENS: Final = 20
_STALLED: Final = 10
_REFUSED_S: Final = 0.05
_BACK_OFF_S: Final = 0.30


def _token_s(number: int) -> float:
    return _FIRST_S + _GAP_S * number + (_STALL_S if number >= _STALLED else 0)


_END_S: Final = _token_s(_TOKENS)


def _chat(tokens: int = _TOKENS) -> Iterator[TimedPart]:
    yield TimedPart(_HEADERS_S, HEAD + framed(event({"role": "assistant", "content": ""})))
    for number in range(tokens):
        yield TimedPart(_token_s(number), framed(event({"content": f"word{number} "})))


def _responses() -> Iterator[TimedPart]:
    response: dict[str, Any] = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1_760_000_000,
        "model": "gpt-4o-mini-2024-07-18",
        "status": "in_progress",
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }
    words = [f"word{number} " for number in range(_TOKENS)]
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    part = {"type": "output_text", "text": "", "annotations": list[Any]()}
    item: dict[str, Any] = {"id": "msg_1", "type": "message", "role": "assistant"}
    begun = {**item, "status": "in_progress", "content": list[Any]()}
    final = {**part, "text": "".join(words)}
    done = {**item, "status": "completed", "content": [final]}
    yield TimedPart(_HEADERS_S, HEAD + _event("response.created", response=response))
    yield TimedPart(
        _FIRST_S,
        _event("response.output_item.added", output_index=0, item=begun)
        + _event("response.content_part.added", **place, part=part),
    )
    for number, word in enumerate(words):
        yield TimedPart(_token_s(number), _event("response.output_text.delta", **place, delta=word))
    yield TimedPart(
        _END_S,
        _event("response.output_text.done", **place, text=final["text"])
        + _event("response.content_part.done", **place, part=final)
        + _event("response.output_item.done", output_index=0, item=done)
        + _event(
            "response.completed", response={**response, "status": "completed"} | {"output": [done]}
        )
        + LAST,
    )


def _event(kind: str, **fields: Any) -> bytes:
    body = json.dumps({"type": kind, "sequence_number": 0, **fields})
    return framed(f"event: {kind}\ndata: {body}\n\n".encode())


def _refused() -> Answer:
    body = b'{"error": {"message": "slow down", "type": "requests", "code": "rate_limit"}}'
    head = (
        b"HTTP/1.1 429 Too Many Requests\r\ncontent-type: application/json\r\n"
        b"retry-after-ms: %d\r\ncontent-length: %d\r\n\r\n"
    )
    return Answer([TimedPart(_REFUSED_S, head % (_BACK_OFF_S * 1000, len(body)) + body)])


_WHOLE: Final = Answer(
    [*_chat(), TimedPart(_END_S, framed(event({}) + b"data: [DONE]\n\n") + LAST)]
)
_BROKEN: Final = Answer([*_chat(_STALLED)], cut=True)
_RESPONSE: Final = Answer([*_responses()])


_AT_ONCE: Final = Question(Fact.END_RECORDED, EndRecorded.AT_ONCE)
_WELL: Final = Question(Fact.OUTCOME, Outcome.WELL)
_TTFT: Final = Question(Fact.TTFT, About(_FIRST_S))

SITUATIONS: Final = (
    Situation(
        "A",
        "read to the end",
        [_WHOLE],
        _callers.reads_to_the_end,
        [
            _AT_ONCE,
            _WELL,
            Question(Fact.DURATION, About(_END_S)),
            Question(Fact.FIRST_CHUNK, About(_HEADERS_S)),
            _TTFT,
            Question(Fact.LONGEST_GAP, About(_STALL_S + _GAP_S, is_gap=True)),
        ],
    ),
    Situation(
        "B",
        "the caller takes 50 ms for each chunk",
        [_WHOLE],
        _callers.takes_its_time,
        [
            _TTFT,
            # The gaps may begin at the first chunk or at the first token, and end at the last
            # token or at the end of the stream.
            Question(Fact.GAPS, Between(_token_s(_TOKENS - 1) - _FIRST_S, _END_S - _HEADERS_S)),
            # The caller's whole time, or without the time in which no chunk was waiting.
            Question(
                Fact.CONSUMER,
                Between(_callers.WORK_S * (_TOKENS - 2), _callers.WORK_S * (_TOKENS + 2)),
            ),
        ],
    ),
    Situation("C1", "`break`", [_WHOLE], _callers.breaks, [_AT_ONCE, _WELL, _TTFT]),
    Situation("C2", "`close()`", [_WHOLE], _callers.closes, [_AT_ONCE, _WELL, _TTFT]),
    Situation(
        "C3", "`break` inside `with`", [_WHOLE], _callers.leaves_with, [_AT_ONCE, _WELL, _TTFT]
    ),
    Situation(
        "D",
        "the connection breaks",
        [_BROKEN],
        _callers.reads_to_the_end,
        [_AT_ONCE, Question(Fact.OUTCOME, Outcome.BADLY), _TTFT],
    ),
    Situation(
        "E",
        "the task is cancelled",
        [_WHOLE],
        _callers.is_cancelled,
        [_AT_ONCE, Question(Fact.OUTCOME, Outcome.CANCELLED), _TTFT],
    ),
    Situation(
        "F",
        "429, then success after 0.30 s",
        [_refused(), _WHOLE],
        _callers.reads_to_the_end,
        [
            _AT_ONCE,
            _WELL,
            Question(Fact.TTFT, About(_REFUSED_S + _BACK_OFF_S + _FIRST_S)),
            Question(Fact.ATTEMPTS, Count(2)),
        ],
    ),
    Situation(
        "G1", "`with_raw_response`", [_WHOLE], _callers.parses_a_raw_response, [_AT_ONCE, _TTFT]
    ),
    Situation("G2", "`with_streaming_response`", [_WHOLE], _callers.reads_lines, [_AT_ONCE, _TTFT]),
    Situation(
        "H", "`chat.completions.stream()`", [_WHOLE], _callers.reads_events, [_AT_ONCE, _TTFT]
    ),
    Situation(
        "I",
        "a span of the application between chunks",
        [_WHOLE],
        _callers.makes_a_span,
        [Question(Fact.PARENT, Parent.CALLER)],
    ),
    Situation("J", "Responses API", [_RESPONSE], _callers.reads_a_response, [_AT_ONCE, _TTFT]),
)


def situation_named(name: str) -> Situation:
    """Return the situation called ``name``."""
    return next(each for each in SITUATIONS if each.name == name)
