"""
Conversion to text that every exporter can encode.

protobuf rejects a whole message for one lone surrogate or one name that is not text. So all names
from clients, servers and callers pass through here before they become part of a span or a series.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

MAX_NAME_LENGTH: Final = 256
"""Maximum length of a name, in characters: of a span, model, route, stage or attribute."""

_SHORT_BITS: Final = 64
"""Size of an integer that is text without further checks, for example of a port."""


def text_of(value: object, max_length: int = MAX_NAME_LENGTH) -> str:
    """
    Return ``value`` as valid Unicode text of a limited length; never raise.

    A lone surrogate becomes ``?``. A value that is not text becomes the result of ``str``, or the
    name of its type if ``str`` raises.

    Args:
        value: Usually short ASCII text, which is returned unchanged.
        max_length: Maximum number of characters; the rest is cut.
    """
    if type(value) is str and len(value) <= max_length and value.isascii():
        return value
    if type(value) is int and value.bit_length() <= _SHORT_BITS:
        return str(value)[:max_length]
    return _as_text(value, max_length).encode("utf-8", "replace").decode()


def texts_of(values: Mapping[str, object]) -> dict[str, str]:
    """Return ``values`` with each value converted by :func:`text_of`."""
    # Nearly all values are valid, and this runs twice per call: so no function call per value.
    return {
        name: value
        if type(value) is str and len(value) <= MAX_NAME_LENGTH and value.isascii()
        else text_of(value)
        for name, value in values.items()
    }


def _as_text(value: object, max_length: int) -> str:
    # A subclass of `str` may have a `__str__` that returns another text, as `Enum` does.
    if isinstance(value, str):
        return str.__str__(value)[:max_length]
    if isinstance(value, (bytes, bytearray)):
        return bytes(value[: 4 * max_length]).decode("utf-8", "replace")[:max_length]
    try:
        return str(value)[:max_length]
    except Exception:  # noqa: BLE001 - `__str__` is foreign code and may raise anything
        return f"<{type(value).__name__}>"[:max_length]
