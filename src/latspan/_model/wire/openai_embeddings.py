"""OpenAI embeddings: one response, not streamed."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final, cast

from latspan import semconv
from latspan._model.wire._api_format import ApiFormat, ChunkKind
from latspan._model.wire._body import Body, copied, identity_in, to_plain
from latspan._model.wire._content import read
from latspan._model.wire.openai_chat import usage

_JSON: Final = json.JSONDecoder()

_MAX_MEMBER: Final = 4096
"""Maximum number of bytes of a member that are parsed."""

_MAX_PARSED: Final = 1 << 16
"""Size in bytes above which a response's vectors are not parsed: that would take milliseconds."""


def _kind_of(chunk: Any) -> int:
    del chunk
    return int(ChunkKind.EMPTY)


def _body_of(response: Any) -> Body:
    if isinstance(response, bytes) and len(response) > _MAX_PARSED:
        found = {name: _member(response, name) for name in ("model", "usage")}
        return {name: value for name, value in found.items() if value is not None}
    # The whole response is not copied: its vectors are long, and only their length is needed.
    whole = to_plain(response) if isinstance(response, bytes) else response
    vectors = read(whole, "data")
    vector = read(vectors[0], "embedding") if isinstance(vectors, list) and vectors else None
    return {
        "model": read(whole, "model"),
        "usage": copied(read(whole, "usage")),
        # The dimensions of a base64 vector cannot be counted without decoding it.
        "dimensions": len(cast("list[object]", vector)) if isinstance(vector, list) else None,
    }


def _member(response: bytes, name: str) -> Any:
    """Return a member of a response; it contains no free text that could look like a name."""
    _, found, rest = response.rpartition(b'"%s"' % name.encode())
    _, colon, value = rest[:_MAX_MEMBER].partition(b":")
    if not found or not colon:
        return None
    try:
        return _JSON.raw_decode(value.decode(errors="replace").lstrip())[0]
    except ValueError:
        return None


def _attributes(bodies: Iterable[Body]) -> dict[str, str | int | bool]:
    bodies = tuple(bodies)
    attributes = identity_in(bodies)
    for body in bodies:
        if body.get("dimensions"):
            attributes[semconv.GEN_AI_EMBEDDINGS_DIMENSION_COUNT] = body["dimensions"]
    return attributes


def _ended(bodies: Iterable[Body]) -> bool:
    return any(bodies)


def _finish_reasons(bodies: Iterable[Body]) -> dict[int, str | None]:
    del bodies
    return {}


OPENAI_EMBEDDINGS: Final = ApiFormat(
    name="openai.embeddings",
    operation="embeddings",
    is_complete=_ended,
    finish_reasons=_finish_reasons,
    usage=usage,
    classify_chunk=_kind_of,
    to_mapping=_body_of,
    attributes=_attributes,
)
