"""The parts of a finished answer that evidence and token counts are read from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from latspan._wire._body import Body

__all__ = ["Answer"]


@dataclass(frozen=True, slots=True)
class Answer:
    """
    What an answer said beside its content.

    Args:
        streamed: Whether it came in chunks.
        bodies: Its last bodies as plain mappings, oldest first: up to three chunks of a stream,
            or the one body of an answer that was not streamed.
        headers: Response headers, names in lower case.
    """

    streamed: bool
    bodies: tuple[Body, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
