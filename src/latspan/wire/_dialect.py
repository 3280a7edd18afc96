"""How to read one API's answers: the functions an integration hands over with a call."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from latspan.wire._body import Body, identity_in, plain
from latspan.wire._content import ContentShape
from latspan.wire._usage import Usage

__all__ = ["Dialect", "FinishReasons", "Stream", "all_finished"]

FinishReasons = Mapping[int, str | None]
"""Why each choice of an answer ended, by its position; ``None`` for one that is seen without."""


@dataclass(frozen=True, slots=True)
class Stream:
    """
    The shape of one API's streams in bytes, as a bare HTTP client reads them.

    Args:
        opens: Found in the first event of such a stream that has content, and of no other.
        kind_of: The :class:`~latspan.wire.ChunkKind` of an event, as a plain integer.
        provider: Who is taken to answer in this shape where nobody says.
        closes: Found in the event that such a stream ends with, and in no other; ``None`` where
            that is ``[DONE]``.
    """

    opens: re.Pattern[bytes]
    kind_of: Callable[[bytes], int]
    provider: str
    closes: re.Pattern[bytes] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """
    The shape of one API's answers.

    Args:
        name: For messages, for example ``openai.chat``.
        operation: The GenAI conventions' operation, for example ``chat``.
        ended: Whether bodies hold what an answer ends with.
        finish_reasons: Finish reasons in bodies, by choice; ``None`` for a choice that is seen
            without one.
        usage: The provider's own token counts in bodies.
        kind_of: The :class:`~latspan.wire.ChunkKind` of a chunk object, as a plain integer.
            Called once a chunk on the caller's thread, so it must be fast and never raise.
        says: Whether a chunk object says more than its text and what every chunk of its stream
            says; the others need not be kept. As fast, and as safe. ``None`` where nobody knows.
        body_of: A chunk or answer, object or bytes, as a plain mapping, ``{}`` where it has none.
        opening: Whether a chunk is the one that says what none of the last ones does; it is kept.
            ``None`` where the last ones say everything.
        stream: The same stream in bytes, ``None`` where that is not recognised.
        content: Where text stands in requests and answers, ``None`` where nobody reads it.
        attributes: What bodies say of the answer, by the names of the span's attributes.
    """

    name: str
    operation: str
    ended: Callable[[Iterable[Body]], bool]
    finish_reasons: Callable[[Iterable[Body]], FinishReasons]
    usage: Callable[[Iterable[Body]], Usage | None]
    kind_of: Callable[[Any], int]
    says: Callable[[Any], bool] | None = None
    body_of: Callable[[Any], Body] = plain
    opening: Callable[[Any], bool] | None = None
    stream: Stream | None = None
    content: ContentShape | None = None
    attributes: Callable[[Iterable[Body]], Mapping[str, str | int | bool]] = identity_in


def all_finished(reasons: FinishReasons) -> bool:
    """Return whether at least one choice is seen, and each of them has its finish reason."""
    return bool(reasons) and None not in reasons.values()
