"""An encoding for tests that needs no file: each byte is a token."""

from __future__ import annotations

from typing import Final

import tiktoken

BYTES: Final = tiktoken.Encoding(
    "bytes",
    pat_str=r"(?s:.)",
    mergeable_ranks={bytes([byte]): byte for byte in range(256)},
    special_tokens={},
)
