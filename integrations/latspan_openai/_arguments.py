"""Conversion of the arguments of a call to the attributes of its span."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

__all__ = [
    "Reading",
    "as_it_is",
    "compacted",
    "cursor",
    "each_text",
    "effort",
    "format_of_text",
    "identity",
    "of_format",
    "request_of",
    "tier",
]

_PLAIN: Final = (str, int, float)

_JSON: Final = "json"
_JSON_FORMATS: Final = frozenset({"json_object", "json_schema"})

Reading = Callable[[Any], Any]
"""
Function that returns the value of an attribute from an argument.

It returns ``None`` for an argument that the caller omitted or that has no meaning for the
attribute.
"""


def request_of(kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
    """
    Return the arguments of a call, with those in ``extra_body`` replacing others of the same name.

    Args:
        kwargs: The arguments of the SDK's method.
    """
    extra: object = kwargs.get("extra_body")
    if extra is None or not isinstance(extra, Mapping):
        return kwargs
    return {**kwargs, **cast("Mapping[str, Any]", extra)}


# An argument that the caller omitted is a sentinel of the SDK, or absent. Each of the following
# functions returns `None` for such a sentinel.


def as_it_is(value: Any) -> str | float | None:
    """Return the value unchanged if it is text or a number, otherwise ``None``."""
    return value if isinstance(value, _PLAIN) else None


def cursor(value: Any) -> str | None:
    """Return the start position of a stream that is fetched again; the SDK has it as a number."""
    return str(value) if isinstance(value, int) else None


def each_text(value: Any) -> tuple[str, ...] | None:
    """Return the texts of a list, or a single text, as a tuple."""
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list | tuple):
        return None
    return tuple(each for each in cast("list[object]", value) if isinstance(each, str)) or None


def tier(value: Any) -> str | None:
    """Return the requested service tier, if any; ``auto`` leaves the choice to the server."""
    return value if isinstance(value, str) and value != "auto" else None


def effort(value: Any) -> str | None:
    """Return the effort that ``reasoning`` requests."""
    return _text_in(value, "effort")


def identity(value: Any) -> str | None:
    """Return the id of a ``conversation``, which is the id itself or an object with an ``id``."""
    return value if isinstance(value, str) else _text_in(value, "id")


def compacted(value: Any) -> bool | None:
    """Return ``True`` for an ``input`` that begins from a compacted conversation."""
    items = cast("list[Any]", value) if isinstance(value, list) else ()
    return True if any(_field(item, "type") == "compaction" for item in items) else None


def of_format(value: Any) -> str | None:
    """
    Return the semantic conventions' name of a ``response_format``.

    The argument may be a type to parse into.
    """
    if isinstance(value, type):
        return _JSON
    kind = value if isinstance(value, str) else _text_in(value, "type")
    return _JSON if kind in _JSON_FORMATS else kind


def format_of_text(value: Any) -> str | None:
    """Return the semantic conventions' name of the format that the argument ``text`` requests."""
    return of_format(_field(value, "format"))


def _text_in(value: Any, name: str) -> str | None:
    found = _field(value, name)
    return found if isinstance(found, str) else None


def _field(value: Any, name: str) -> Any:
    if isinstance(value, Mapping):
        return cast("Mapping[str, Any]", value).get(name)
    return getattr(value, name, None)
