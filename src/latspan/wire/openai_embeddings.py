"""OpenAI embeddings: one answer, in one piece."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from latspan.wire._body import Body, plain
from latspan.wire._chunk import ChunkKind
from latspan.wire._content import read
from latspan.wire._dialect import Dialect
from latspan.wire.openai_chat import usage

__all__ = ["OPENAI_EMBEDDINGS"]


def _kind_of(chunk: Any) -> int:
    del chunk
    return int(ChunkKind.EMPTY)


def _body_of(answer: Any) -> Body:
    # Not the whole: its vectors are long, and of no use here.
    if isinstance(answer, bytes):
        whole = plain(answer)
        return {name: whole[name] for name in ("model", "usage") if name in whole}
    return {"model": read(answer, "model"), "usage": plain(read(answer, "usage"))}


def _ended(bodies: Iterable[Body]) -> bool:
    return any(bodies)


def _finish_reasons(bodies: Iterable[Body]) -> tuple[str, ...]:
    del bodies
    return ()


OPENAI_EMBEDDINGS: Final = Dialect(
    name="openai.embeddings",
    operation="embeddings",
    ended=_ended,
    finish_reasons=_finish_reasons,
    usage=usage,
    kind_of=_kind_of,
    body_of=_body_of,
)
