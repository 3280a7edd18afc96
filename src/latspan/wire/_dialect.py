"""How to read one provider's payloads: the functions an integration hands over with a call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Body", "Dialect"]

Body = Mapping[str, Any]
"""One body of an answer as a plain mapping: a chunk of a stream, or the whole."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """
    The shape of one API's answers.

    Args:
        name: For messages, for example ``openai.chat``.
        kind_of: The :class:`~latspan.wire.ChunkKind` of a chunk object, as a plain integer.
            Called once a chunk on the caller's thread, so it must be fast and never raise.
        body_of: A chunk or answer object as a plain mapping, ``{}`` where it has no body.
        ended: Whether bodies hold what an answer ends with: a finish reason, or what comes only
            after one.
        finish_reasons: Finish reasons in bodies, by choice; empty where the answer has no end.
        usage: The provider's own token counts in bodies, in the provider's own field names.
    """

    name: str
    kind_of: Callable[[Any], int]
    body_of: Callable[[Any], Body]
    ended: Callable[[Iterable[Body]], bool]
    finish_reasons: Callable[[Iterable[Body]], tuple[str, ...]]
    usage: Callable[[Iterable[Body]], Body | None]
