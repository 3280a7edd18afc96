"""``/v1/embeddings``: one vector per input, not streamed."""

from __future__ import annotations

import base64
import struct
from typing import Any, Final, cast

from latspan.testing._payloads._base import Payloads
from latspan.testing._served import Ledger

__all__ = ["OpenAIEmbeddings"]

_VECTOR: Final = (0.5, -0.25, 0.125, 0.0)
"""Numbers that a 32-bit float represents exactly, so that both encodings are equal."""


class OpenAIEmbeddings(Payloads):
    """Payload of one response with embeddings."""

    requires = "input"

    def whole(self, ledger: Ledger) -> dict[str, Any]:  # noqa: ARG002 - the API reports no timings
        """Return the vectors, in the requested encoding."""
        tokens = self.script.prompt_tokens
        return {
            "object": "list",
            "data": [
                {"object": "embedding", "index": index, "embedding": self._embedding()}
                for index in range(self._inputs())
            ],
            "model": self.model,
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        }

    def _inputs(self) -> int:
        inputs: object = self.body["input"]
        if not isinstance(inputs, list):
            return 1
        several = cast("list[object]", inputs)
        # A list of numbers is one input, given as tokens.
        return 1 if several and isinstance(several[0], int) else len(several)

    def _embedding(self) -> list[float] | str:
        if self.body.get("encoding_format") == "base64":
            return base64.b64encode(struct.pack(f"<{len(_VECTOR)}f", *_VECTOR)).decode()
        return list(_VECTOR)
