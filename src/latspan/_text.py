"""
Text that every exporter can encode.

One lone surrogate, or one name that is not text, makes protobuf refuse the whole message it is in.
So what clients, servers and callers name passes through here before it becomes part of a span or
of a series.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["LONGEST_NAME", "text_of", "texts_of"]

LONGEST_NAME: Final = 256
"""Characters of a name that are kept: of a span, a model, a route, a stage, an attribute."""


def text_of(value: object, longest: int = LONGEST_NAME) -> str:
    """
    Return ``value`` as valid Unicode text of a limited length; never raise.

    A lone surrogate becomes ``?``. What is not text becomes what ``str`` returns for it, or the
    name of its type if ``str`` raises.

    Args:
        value: Text as a rule, and then short ASCII, which is returned as it is.
        longest: Maximum number of characters; the rest is cut.
    """
    if type(value) is str and len(value) <= longest and value.isascii():
        return value
    return _as_text(value, longest).encode("utf-8", "replace").decode()


def texts_of(values: Mapping[str, object]) -> dict[str, str]:
    """Return each of ``values`` as :func:`text_of` has it."""
    # Nearly all are fine, and this is done twice for each call: without a call for each.
    return {
        name: value
        if type(value) is str and len(value) <= LONGEST_NAME and value.isascii()
        else text_of(value)
        for name, value in values.items()
    }


def _as_text(value: object, longest: int) -> str:
    # A subclass of `str` may have a `__str__` that returns something else, as an `Enum` has.
    if isinstance(value, str):
        return str.__str__(value)[:longest]
    if isinstance(value, (bytes, bytearray)):
        return bytes(value[: 4 * longest]).decode("utf-8", "replace")[:longest]
    try:
        return str(value)[:longest]
    except Exception:  # noqa: BLE001 - it is somebody else's, and may raise anything
        return f"<{type(value).__name__}>"[:longest]
