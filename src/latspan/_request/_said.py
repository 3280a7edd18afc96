"""What a finished answer said beside its content: how it ended, its tokens, the server's times."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from latspan import _runtime, evidence, semconv
from latspan._spans import AttributeValue
from latspan.segments import ReportedTimings
from latspan.tokens import UNKNOWN_TOKENS, TokenCounts, counted_by_provider
from latspan.wire import Answer, Body, Dialect, choices_in, error_in

__all__ = ["Said", "read_answer"]

_NOTHING: Final[Mapping[str, AttributeValue]] = {}


class Said(NamedTuple):
    """
    What an answer said.

    Args:
        ended: It came to its own end.
        error_type: The type of the error that came in its place or in its course, after HTTP 200.
        tokens: Token counts and who counted.
        reported: What was said of the server's own time and its gateways', from the outside in.
        attributes: What the span says of it.
        choices: How many answers came at once, as far as what was kept of them shows.
    """

    ended: bool = False
    error_type: str | None = None
    tokens: TokenCounts = UNKNOWN_TOKENS
    reported: tuple[ReportedTimings, ...] = ()
    attributes: Mapping[str, AttributeValue] = _NOTHING
    choices: int = 1


def read_answer(
    dialect: Dialect, answers: Iterable[Any], headers: Mapping[str, str], *, streamed: bool
) -> Said:
    """
    Return what an answer said; nothing where it cannot be read.

    A server may send anything. What it sends may cost its own evidence, never the span.

    Args:
        dialect: How to read it.
        answers: What was kept of a stream's chunks, or the one answer, as the client library has
            them or as bytes.
        headers: Response headers.
        streamed: Whether it came in chunks.
    """
    with _runtime.guarded("reading an answer"):
        bodies = tuple([dialect.body_of(answer) for answer in answers])
        reasons = dialect.finish_reasons(bodies)
        return Said(
            ended=bool(reasons) or dialect.ended(bodies),
            error_type=error_in(bodies),
            tokens=counted_by_provider(dialect.usage(bodies)),
            reported=evidence.read(Answer(streamed, bodies, _lowered(headers))),
            attributes=_attributes(bodies, reasons),
            choices=choices_in(bodies),
        )
    return Said()


def _lowered(headers: Mapping[str, str]) -> dict[str, str]:
    lowered: dict[str, str] = {}
    for name, value in headers.items():
        # Some mappings hold a header that was sent twice as two.
        key = name.lower()
        lowered[key] = f"{lowered[key]}, {value}" if key in lowered else value
    return lowered


def _attributes(bodies: tuple[Body, ...], reasons: tuple[str, ...]) -> dict[str, AttributeValue]:
    attributes: dict[str, AttributeValue] = {}
    if reasons:
        attributes[semconv.GEN_AI_RESPONSE_FINISH_REASONS] = reasons
    for body in bodies:
        identity, model = body.get("id"), body.get("model")
        if isinstance(identity, str):
            attributes[semconv.GEN_AI_RESPONSE_ID] = identity
        if isinstance(model, str):
            attributes[semconv.GEN_AI_RESPONSE_MODEL] = model
    return attributes
