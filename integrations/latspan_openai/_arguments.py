"""What the arguments of a call are as attributes of its span."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

__all__ = [
    "Reading",
    "as_it_is",
    "asked_of",
    "compacted",
    "cursor",
    "each_text",
    "effort",
    "format_of_text",
    "identity",
    "of_format",
    "tier",
]

_PLAIN: Final = (str, int, float)

_JSON: Final = "json"
_JSON_FORMATS: Final = frozenset({"json_object", "json_schema"})

Reading = Callable[[Any], Any]
"""Returns an attribute's value, ``None`` for an argument that was not given or says nothing."""


def asked_of(kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
    """
    Return what a call sends: its arguments, and what ``extra_body`` puts in their place.

    Args:
        kwargs: The arguments of the SDK's method.
    """
    extra: object = kwargs.get("extra_body")
    if extra is None or not isinstance(extra, Mapping):
        return kwargs
    return {**kwargs, **cast("Mapping[str, Any]", extra)}


# What was not given is a sentinel of the SDK's, or absent; each of these returns `None` for it.


def as_it_is(value: Any) -> str | float | None:
    """Return a text or a number."""
    return value if isinstance(value, _PLAIN) else None


def cursor(value: Any) -> str | None:
    """Return where a stream that is fetched again begins; the SDK has a number for it."""
    return str(value) if isinstance(value, int) else None


def each_text(value: Any) -> tuple[str, ...] | None:
    """Return the texts of a list, or the one text."""
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list | tuple):
        return None
    return tuple(each for each in cast("list[object]", value) if isinstance(each, str)) or None


def tier(value: Any) -> str | None:
    """Return a service tier that was asked for; ``auto`` leaves the choice to the server."""
    return value if isinstance(value, str) and value != "auto" else None


def effort(value: Any) -> str | None:
    """Return the effort that ``reasoning`` asks for."""
    return _text_in(value, "effort")


def identity(value: Any) -> str | None:
    """Return the id of a ``conversation``, which stands alone or in a mapping."""
    return value if isinstance(value, str) else _text_in(value, "id")


def compacted(value: Any) -> bool | None:
    """Return ``True`` for an ``input`` that begins from a compacted conversation."""
    items = cast("list[Any]", value) if isinstance(value, list) else ()
    return True if any(_field(item, "type") == "compaction" for item in items) else None


def of_format(value: Any) -> str | None:
    """Return the convention's name of a ``response_format``, which may be a type to parse into."""
    if isinstance(value, type):
        return _JSON
    kind = value if isinstance(value, str) else _text_in(value, "type")
    return _JSON if kind in _JSON_FORMATS else kind


def format_of_text(value: Any) -> str | None:
    """Return the convention's name of the format that ``text`` of a response asks for."""
    return of_format(_field(value, "format"))


def _text_in(value: Any, name: str) -> str | None:
    found = _field(value, name)
    return found if isinstance(found, str) else None


def _field(value: Any, name: str) -> Any:
    if isinstance(value, Mapping):
        return cast("Mapping[str, Any]", value).get(name)
    return getattr(value, name, None)
