"""Parts of a finished response from which evidence and token counts are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from latspan._wire._body import Body

__all__ = ["ResponseMetadata"]


@dataclass(frozen=True, slots=True)
class ResponseMetadata:
    """
    Metadata of a response, without its content.

    Args:
        streamed: ``True`` if the response arrived in chunks.
        bodies: The last bodies as plain mappings, oldest first: up to three chunks of a stream,
            or the only body of a response that was not streamed.
        headers: Response headers, names in lower case.
    """

    streamed: bool
    bodies: tuple[Body, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
