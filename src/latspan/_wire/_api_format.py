"""How to read one API's answers: the functions an integration hands over with a call."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from latspan._wire._body import Body, identity_in, plain
from latspan._wire._content import ContentShape
from latspan._wire._usage import Usage

__all__ = ["ApiFormat", "FinishReasons", "Stream", "all_finished"]

FinishReasons = Mapping[int, str | None]
"""Why each choice of an answer ended, by its position; ``None`` for one that is seen without."""


@dataclass(frozen=True, slots=True)
class Stream:
    """
    The shape of one API's streams in bytes, as a bare HTTP client reads them.

    Args:
        opens: Found in the first event of such a stream that has content, and of no other.
        kind_of: The :class:`~latspan._wire.ChunkKind` of an event, as a plain integer.
        provider: Who is taken to answer in this shape where nobody says.
        closes: Found in the event that such a stream ends with, and in no other; ``None`` where
            that is ``[DONE]``.
    """

    opens: re.Pattern[bytes]
    kind_of: Callable[[bytes], int]
    provider: str
    closes: re.Pattern[bytes] | None = None


def _never(first: Body) -> bool:
    del first
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiFormat:
    """
    The shape of one API's answers.

    Args:
        name: For messages, for example ``openai.chat``.
        operation: The GenAI conventions' operation, for example ``chat``.
        ended: Whether bodies hold what an answer ends with.
        finish_reasons: Finish reasons in bodies, by choice; ``None`` for a choice that is seen
            without one.
        usage: The provider's own token counts in bodies.
        kind_of: The :class:`~latspan._wire.ChunkKind` of a chunk object, as a plain integer.
            Never raises.
        only_text: The same of a chunk object that holds text and no finish reason, and 0 for every
            other. Called once per chunk on the caller's thread, so it must be fast and never
            raise. ``None`` if all chunks need ``body_of``.
        continuous_usage: Whether, by the body of a stream's first chunk, every chunk has usage:
            then all need ``body_of``.
        body_of: The fields of a chunk or answer, object or bytes, as a plain mapping; ``{}`` if it
            has none. Called on the caller's thread for each chunk that is not ``only_text``. Of an
            object it must copy what the application may change later.
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
    only_text: Callable[[Any], int] | None = None
    continuous_usage: Callable[[Body], bool] = _never
    body_of: Callable[[Any], Body] = plain
    stream: Stream | None = None
    content: ContentShape | None = None
    attributes: Callable[[Iterable[Body]], Mapping[str, str | int | bool]] = identity_in


def all_finished(reasons: FinishReasons) -> bool:
    """Return whether at least one choice is seen, and each of them has its finish reason."""
    return bool(reasons) and None not in reasons.values()
