"""
Format of the responses of ``embed_content``: one object, not streamed.

The token count is reported for the whole request, or per text in the statistics of each embedding,
as Vertex AI does. Older versions of the SDK read only the latter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from latspan.integrations.formats import ApiFormat, ChunkKind, Usage

__all__ = ["GEMINI_EMBEDDINGS"]


def _kind_of(chunk: Any) -> int:
    del chunk
    return int(ChunkKind.EMPTY)


def _body_of(response: Any) -> Mapping[str, Any]:
    """Return the token count only: the vectors are long, and are not copied."""
    count: object = getattr(getattr(response, "usage_metadata", None), "prompt_token_count", None)
    if not isinstance(count, int):
        embeddings: Any = getattr(response, "embeddings", None)
        counts = [
            getattr(getattr(each, "statistics", None), "token_count", None)
            for each in cast("list[object]", embeddings or ())
        ]
        # A partial sum would be too low.
        known = [each for each in counts if isinstance(each, int | float)]
        count = int(sum(known)) if known and len(known) == len(counts) else None
    return {"tokens": count}


def _usage(bodies: Iterable[Mapping[str, Any]]) -> Usage | None:
    counts = [body["tokens"] for body in bodies if body.get("tokens") is not None]
    return Usage(input=counts[-1]) if counts else None


GEMINI_EMBEDDINGS: Final = ApiFormat(
    name="gemini.embeddings",
    operation="embeddings",
    classify_chunk=_kind_of,
    to_mapping=_body_of,
    usage=_usage,
)
