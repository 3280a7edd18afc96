"""
Encoder of Amazon's event stream encoding, in which Bedrock streams its responses.

Source: AWS, "Amazon event stream specification" (Smithy).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from typing import Any, Final

from latspan.testing._payloads._base import to_json

__all__ = ["encode_exception", "encode_message"]

_STRING: Final = 7


def encode_message(event: str, payload: Mapping[str, Any]) -> bytes:
    """Return one event as a binary message with ``payload`` as its JSON."""
    return _encode({":event-type": event, ":message-type": "event"}, payload)


def encode_exception(name: str, payload: Mapping[str, Any]) -> bytes:
    """Return one exception, which ends the stream, as a binary message."""
    return _encode({":exception-type": name, ":message-type": "exception"}, payload)


def _encode(headers: Mapping[str, str], payload: Mapping[str, Any]) -> bytes:
    block = b"".join(
        _header(name, value)
        for name, value in {**headers, ":content-type": "application/json"}.items()
    )
    body = to_json(payload).encode()
    size = 12 + len(block) + len(body) + 4
    prelude = struct.pack(">II", size, len(block))
    message = prelude + struct.pack(">I", zlib.crc32(prelude)) + block + body
    return message + struct.pack(">I", zlib.crc32(message))


def _header(name: str, value: str) -> bytes:
    name_bytes, value_bytes = name.encode(), value.encode()
    head = struct.pack(">B", len(name_bytes)) + name_bytes
    return head + struct.pack(">BH", _STRING, len(value_bytes)) + value_bytes
