"""
Description of the responses of one API, as functions that an integration passes to a call.

All descriptions use two enumerations, which are here too: kinds of chunks and framings of streams.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum, auto
from typing import Any, Final

from latspan._model.wire._body import Body, identity_in, to_plain
from latspan._model.wire._content import ContentShape
from latspan._model.wire._usage import Usage


class ChunkKind(IntEnum):
    """
    Kind of content in a chunk, the result of ``classify_chunk``.

    A chunk is not a token: it may contain several tokens, or none.
    """

    EMPTY = 0
    """No token: a role, a finish reason, usage, progress, an empty delta."""
    REASONING = 1
    """Reasoning, which the user does not see as part of the response."""
    VISIBLE = 2
    """Text, tool-call arguments, a refusal or audio."""


class Framing(Enum):
    """How a body is split into events."""

    EVENTS = auto()
    """Server-sent events."""
    LINES = auto()
    """One JSON text per line."""
    MESSAGES = auto()
    """Binary messages of Amazon's event stream encoding."""


_BY_MEDIA_TYPE: Final = {
    "text/event-stream": Framing.EVENTS,
    "application/x-ndjson": Framing.LINES,
    "application/ndjson": Framing.LINES,
    "application/vnd.amazon.eventstream": Framing.MESSAGES,
}


def framing_of(content_type: object) -> Framing | None:
    """
    Return the framing of a body, ``None`` if its media type is not that of a stream.

    Args:
        content_type: Value of the header ``Content-Type``; ``None`` if it is missing.
    """
    media_type = str(content_type or "").partition(";")[0]
    return _BY_MEDIA_TYPE.get(media_type.strip().lower())


FinishReasons = Mapping[int, str | None]
"""Finish reason per choice, by position; ``None`` for a choice that has none so far."""


@dataclass(frozen=True, slots=True, eq=False)
class StreamFormat:
    """
    Shape of one API's streams as bytes, as a plain HTTP client reads them.

    Args:
        opens: Pattern that matches the first event with content of such a stream, and of no other
            stream.
        classify_chunk: Returns the :class:`~latspan._model.wire.ChunkKind` of an event, as a plain
            integer.
        provider: Provider name that is assumed if no other source identifies the provider.
        closes: Pattern that matches only the event that ends such a stream; ``None`` if ``[DONE]``
            ends it.
        framing: How the body is split into events. An event of binary messages is a JSON text, see
            ``_messages.py``.
        unmarked: Whether no event marks the end, so that the fields of the last events show it.
        model_in_path: Pattern that finds the requested model in the path of the URL, as its first
            group, percent-encoded; ``None`` if the request's body names it.
    """

    opens: re.Pattern[bytes]
    classify_chunk: Callable[[bytes], int]
    provider: str
    closes: re.Pattern[bytes] | None = None
    framing: Framing = Framing.EVENTS
    unmarked: bool = False
    model_in_path: re.Pattern[str] | None = None


INFERENCES: Final = frozenset({"chat", "text_completion", "generate_content"})
"""Operations in which a model generates output, for which an event may be emitted."""

FETCH_RESPONSE: Final = "fetch_response"
"""
Operation that fetches a stored response. Its span has no attributes of the request that generated
the response.

Source: OpenTelemetry GenAI conventions, ``gen_ai.operation.name``.
"""


def _never(first: Body) -> bool:
    del first
    return False


def _one(request: Mapping[str, Any]) -> int:
    del request
    return 1


def _none(bodies: Iterable[Body]) -> None:
    del bodies


def _no_reasons(bodies: Iterable[Body]) -> FinishReasons:
    del bodies
    return {}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ApiFormat:
    """
    Format of the responses of one API.

    Only ``name``, ``operation`` and ``classify_chunk`` are required: they are enough for the time
    to the first token. A *body* is the plain mapping that ``to_mapping`` returns.

    Args:
        name: Name for log and error messages, for example ``openai.chat``.
        operation: The GenAI conventions' operation, for example ``chat``.
        classify_chunk: Returns the :class:`ChunkKind` of a chunk object, as a plain integer. Called
            once per chunk on the caller's thread, so it must be fast and never raise.
        only_text: Returns the kind, as ``classify_chunk`` does, of a chunk object that has nothing
            to keep but tokens, and 0 for every other. It must be fast and must not raise. Chunks
            for which it returns 0 are read with ``to_mapping`` and ``classify_chunk``. ``None`` if
            all chunks need ``to_mapping``.
        continuous_usage: Returns, from the body of a stream's first chunk, whether every chunk
            has usage; then all chunks need ``to_mapping``.
        to_mapping: Returns the fields of a chunk or response, object or bytes, as a plain mapping;
            ``{}`` if it has none. Called on the caller's thread for each chunk for which
            ``only_text`` returns 0. It must copy the parts of an object that the application may
            change later. The default reads mappings, JSON bytes, and objects with ``model_dump``.
        usage: Returns the provider's own token counts in bodies.
        finish_reasons: Returns the finish reasons in bodies, by choice; ``None`` for a choice
            without one.
        is_complete: Returns whether bodies contain the end of a response. If not given, every
            choice must have a finish reason; if ``finish_reasons`` is not given either, each stream
            that ends without an error counts as complete.
        attributes: Returns span attributes read from bodies, by attribute name. The default reads
            the fields ``id`` and ``model``.
        choices_requested: Returns the number of choices that a request asks for, from its fields.
        stream: Shape of the stream as bytes, ``None`` if a stream is never recognised by its bytes.
        content: Location of text in requests and responses, ``None`` if content is not read.
    """

    name: str
    operation: str
    classify_chunk: Callable[[Any], int]
    only_text: Callable[[Any], int] | None = None
    continuous_usage: Callable[[Body], bool] = _never
    to_mapping: Callable[[Any], Body] = to_plain
    usage: Callable[[Iterable[Body]], Usage | None] = _none
    finish_reasons: Callable[[Iterable[Body]], FinishReasons] = _no_reasons
    is_complete: Callable[[Iterable[Body]], bool] | None = None
    attributes: Callable[[Iterable[Body]], Mapping[str, str | int | bool]] = identity_in
    choices_requested: Callable[[Mapping[str, Any]], int] = _one
    stream: StreamFormat | None = None
    content: ContentShape | None = None

    def is_finished(self, bodies: Iterable[Body]) -> bool:
        """Return whether ``bodies`` contain the end of a response."""
        if self.is_complete is not None:
            return self.is_complete(bodies)
        return self.finish_reasons is _no_reasons or all_finished(self.finish_reasons(bodies))


def all_finished(reasons: FinishReasons) -> bool:
    """Return whether there is at least one choice and every choice has a finish reason."""
    return bool(reasons) and None not in reasons.values()
