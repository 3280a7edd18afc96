"""
Fields of Protocol Buffers, put together from the bytes of their contents.

A list of pieces stands for the bytes, so that a message of many nested fields is joined only once.

Source: Protocol Buffers, "Encoding".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

__all__ = ["field", "varint"]

_MORE: Final = 0x80
"""Bit of a byte that means that another byte follows."""


def field(tag: bytes, content: Sequence[bytes]) -> list[bytes]:
    """
    Return a length-delimited field in pieces.

    Args:
        tag: Tag of the field: its number times eight, plus two.
        content: The content in pieces.
    """
    return [tag + varint(sum(map(len, content))), *content]


def varint(number: int) -> bytes:
    """Return an integer of at least 0 in base 128, the lowest digit first."""
    encoded = bytearray()
    while number >= _MORE:
        encoded.append(number & (_MORE - 1) | _MORE)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
