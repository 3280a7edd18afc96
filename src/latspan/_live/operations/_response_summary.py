"""Summary of a response that has ended: finish reasons, token counts and server timings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from latspan._base.internal_errors import log_internal_error
from latspan._live.otel.spans import AttributeValue, header_attributes
from latspan._model.segments import ReportedTimings
from latspan._model.tokens import UNKNOWN_TOKENS, TokenCounts, counted_by_provider
from latspan._model.wire import (
    ApiFormat,
    Body,
    Content,
    ResponseMetadata,
    Usage,
    choices_in,
    error_in,
    events_in,
)

_NOTHING: Final[Mapping[str, AttributeValue]] = {}
_NO_CHOICES: Final[Mapping[int, str | None]] = {}
_NO_NAMES: Final = frozenset[str]()
_READING: Final = "reading a response"

_ENDS: Final = 4
"""Number of events read from the bytes of a stream: the first one and the last ones."""


class ResponseSummary(NamedTuple):
    """
    Summary of a response.

    Args:
        ended: Whether the kept parts contain the end of the response.
        error_type: Type of an error sent instead of or during the response, after HTTP 200.
        tokens: Token counts and their source.
        reported: Timings reported by the server and its gateways, outermost first.
        attributes: Span attributes.
        choices: Number of choices in the kept parts of the response.
        finish_reasons: Finish reason of each choice, by its position; ``None`` if it has not ended.
        content: Content of the request and the response, if events capture it.
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
        """Known finish reasons by choice, in the order of the choices."""
        reasons = sorted(self.finish_reasons.items())
        return {choice: reason for choice, reason in reasons if reason is not None}


def summarize_response(
    api_format: ApiFormat,
    answers: Iterable[Any],
    headers: Mapping[str, str],
    *,
    streamed: bool,
    further_headers: frozenset[str] = _NO_NAMES,
) -> ResponseSummary:
    """
    Return the summary of a response; parts that cannot be read keep their defaults.

    A server may send anything. An unreadable part does not affect the other parts.

    Args:
        api_format: API format of the response.
        answers: Kept chunks of a stream, or the complete response, as objects of the client
            library or as bytes.
        headers: Response headers.
        streamed: Whether the response is a stream of chunks.
        further_headers: Names of the headers to record as attributes, in addition to those that are
            always recorded.
    """
    parts: list[Body] = []
    try:
        for response in answers:
            if isinstance(response, bytes):
                parts += map(api_format.to_mapping, _kept_events(response))
            else:
                # A mapping copied from an object of the client library is already a body.
                parts.append(response)
    except Exception as error:  # noqa: BLE001 - latspan's own
        log_internal_error(error, _READING)
        parts.clear()
    bodies = tuple(parts)
    readings: tuple[tuple[str, Callable[[tuple[Body, ...]], Any]], ...] = (
        # As `is_finished`, which calls the same function if there is one.
        ("ended", api_format.is_complete or api_format.is_finished),
        ("error_type", error_in),
        ("attributes", api_format.attributes),
        ("finish_reasons", api_format.finish_reasons),
        ("choices", choices_in),
    )
    fields: dict[str, Any] = {}
    for name, reading in readings:
        try:
            value = reading(bodies)
            if name == "finish_reasons" and not isinstance(value, Mapping):
                raise TypeError(f"finish_reasons of {api_format.name} returned no mapping")
            fields[name] = value
        except Exception as error:  # noqa: BLE001 - latspan's own
            log_internal_error(error, _READING)
    try:
        usage = api_format.usage(bodies)
        if usage is not None and not isinstance(usage, Usage):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"usage of {api_format.name} returned no Usage")
        fields["tokens"] = counted_by_provider(usage)
    except Exception as error:  # noqa: BLE001 - latspan's own
        log_internal_error(error, _READING)
    try:
        # The loader thread imports the sources; they are not needed before a response has ended.
        from latspan._model import evidence as _evidence

        lowered = lowered_headers(headers)
        named = header_attributes(lowered, further_headers)
        if named:
            fields["attributes"] = {**fields.get("attributes", _NOTHING), **named}
        fields["reported"] = _evidence.read(ResponseMetadata(streamed, bodies, lowered))
    except Exception as error:  # noqa: BLE001 - latspan's own
        log_internal_error(error, _READING)
    return ResponseSummary(**fields)


def lowered_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return headers with names in lower case."""
    lowered: dict[str, str] = {}
    for name, value in headers.items():
        # Some mappings hold a header that was sent twice as two items.
        key = name.lower()
        lowered[key] = f"{lowered[key]}, {value}" if key in lowered else value
    return lowered


def _kept_events(response: bytes) -> Sequence[bytes]:
    """Return the same events of a stream that are kept if it is read event by event."""
    events = events_in(response)
    return events if len(events) <= _ENDS else (events[0], *events[1 - _ENDS :])
