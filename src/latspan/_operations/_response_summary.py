"""What a finished answer said beside its content: how it ended, its tokens, the server's times."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from latspan import _evidence as evidence
from latspan import _runtime, semconv
from latspan._segments import ReportedTimings
from latspan._spans import AttributeValue
from latspan._tokens import UNKNOWN_TOKENS, TokenCounts, counted_by_provider
from latspan._wire import Answer, ApiFormat, Body, Content, choices_in, error_in, events_in

__all__ = ["ResponseSummary", "summarize_response"]

_NOTHING: Final[Mapping[str, AttributeValue]] = {}
_NO_CHOICES: Final[Mapping[int, str | None]] = {}
_CUT: Final = "error"

_ENDS: Final = 4
"""Events of a whole stream that are read: its first and its last ones."""


class ResponseSummary(NamedTuple):
    """
    What an answer said.

    Args:
        ended: It came to its own end.
        error_type: The type of the error that came in its place or in its course, after HTTP 200.
        tokens: Token counts and who counted.
        reported: What was said of the server's own time and its gateways', from the outside in.
        attributes: What the span says of it.
        choices: How many answers came at once, as far as what was kept of them shows.
        finish_reasons: Why each choice ended, by its position; ``None`` as long as it did not.
        content: What was asked and answered in words, where that is captured in events.
    """

    ended: bool = False
    error_type: str | None = None
    tokens: TokenCounts = UNKNOWN_TOKENS
    reported: tuple[ReportedTimings, ...] = ()
    attributes: Mapping[str, AttributeValue] = _NOTHING
    choices: int = 1
    finish_reasons: Mapping[int, str | None] = _NO_CHOICES
    content: Content | None = None

    @property
    def known_reasons(self) -> dict[int, str]:
        """The finish reasons that are known, by choice and in their order."""
        return _known(self.finish_reasons)

    def concluded(self, *, cut: bool) -> ResponseSummary:
        """
        Return this with the finish reasons that the span has.

        Args:
            cut: Whether a choice without a reason will not get one: it was cut off, or failed.
                A stream that its reader left was not cut.

        Source: OpenTelemetry GenAI conventions, ``gen_ai.response.finish_reasons``: ``error`` at
        the position of a choice whose reason was expected and did not come.
        """
        reasons = self.finish_reasons
        if cut:
            reasons = {choice: reason or _CUT for choice, reason in reasons.items()}
        attributes, known = self.attributes, tuple(_known(reasons).values())
        if known:
            attributes = {**attributes, semconv.GEN_AI_RESPONSE_FINISH_REASONS: known}
        return self._replace(finish_reasons=reasons, attributes=attributes)


def _known(reasons: Mapping[int, str | None]) -> dict[int, str]:
    return {choice: reason for choice, reason in sorted(reasons.items()) if reason is not None}


def summarize_response(
    dialect: ApiFormat, answers: Iterable[Any], headers: Mapping[str, str], *, streamed: bool
) -> ResponseSummary:
    """
    Return what an answer said; nothing where it cannot be read.

    A server may send anything. What cannot be read costs itself, and nothing beside it.

    Args:
        dialect: How to read it.
        answers: What was kept of a stream's chunks, or the one answer, as the client library has
            them or as bytes.
        headers: Response headers.
        streamed: Whether it came in chunks.
    """
    bodies: tuple[Body, ...] = ()
    with _runtime.handle_internal_errors("reading an answer"):
        bodies = tuple(_bodies_of(dialect, answers))
    readings: dict[str, Callable[[], Any]] = {
        "ended": lambda: dialect.ended(bodies),
        "error_type": lambda: error_in(bodies),
        "tokens": lambda: counted_by_provider(dialect.usage(bodies)),
        "reported": lambda: evidence.read(Answer(streamed, bodies, _lowered(headers))),
        "attributes": lambda: dialect.attributes(bodies),
        "finish_reasons": lambda: dialect.finish_reasons(bodies),
        "choices": lambda: choices_in(bodies),
    }
    said: dict[str, Any] = {}
    for name, reading in readings.items():
        try:
            said[name] = reading()
        except Exception as error:  # noqa: BLE001 - latspan's own
            _runtime.log_internal_error(error, "reading an answer")
    return ResponseSummary(**said)


def _bodies_of(dialect: ApiFormat, answers: Iterable[Any]) -> list[Body]:
    """Return the parts of an answer that say more than its text."""
    bodies: list[Body] = []
    for answer in answers:
        if isinstance(answer, bytes):
            events = events_in(answer)
            # What a stream that is read event by event keeps, too.
            kept = events if len(events) <= _ENDS else (events[0], *events[1 - _ENDS :])
            bodies += map(dialect.body_of, kept)
        else:
            # It was copied from a client library's object, and is a body already.
            bodies.append(answer)
    return bodies


def _lowered(headers: Mapping[str, str]) -> dict[str, str]:
    lowered: dict[str, str] = {}
    for name, value in headers.items():
        # Some mappings hold a header that was sent twice as two.
        key = name.lower()
        lowered[key] = f"{lowered[key]}, {value}" if key in lowered else value
    return lowered
