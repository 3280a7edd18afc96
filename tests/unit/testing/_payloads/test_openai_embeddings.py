"""An embeddings response has one vector per input, in the requested encoding."""

from __future__ import annotations

import base64
import struct
from typing import Any

import pytest

from latspan.testing import Script
from support.answers import play


@pytest.mark.parametrize(
    ("asked", "vectors"), [("one", 1), (["one", "two"], 2), ([1, 2, 3], 1), ([[1], [2], [3]], 3)]
)
def test_each_input_gets_a_vector(asked: Any, vectors: int) -> None:
    """For text or tokens, one input or several; embeddings are never streamed."""
    body = play(Script.chat(), path="/v1/embeddings", input=asked, stream=True).body

    assert [each["index"] for each in body["data"]] == list(range(vectors))
    assert body["usage"] == {"prompt_tokens": 12, "total_tokens": 12}


def test_both_encodings_contain_the_same_numbers() -> None:
    """OpenAI's client requests base64 by default."""
    (plain,) = play(Script(), path="/v1/embeddings", input="one").body["data"]
    (packed,) = play(Script(), path="/v1/embeddings", input="one", encoding_format="base64").body[
        "data"
    ]

    raw = base64.b64decode(packed["embedding"])
    assert list(struct.unpack(f"<{len(raw) // 4}f", raw)) == plain["embedding"]
