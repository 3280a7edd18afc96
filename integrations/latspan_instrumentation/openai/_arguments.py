"""
Arguments of a call: converted to the attributes of its span, or changed to request token counts.

Token counts of a stream are requested if ``request_stream_usage`` is configured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from openai import NotGiven, Omit

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


def with_usage(kwargs: dict[str, Any]) -> dict[str, Any]:
    """
    Return the arguments of a chat or completion, changed to request token counts for the stream.

    The arguments are changed only if the response is streamed and the caller does not set
    ``stream_options``. The caller's own objects are never changed. A stream with token counts ends
    with one more chunk, which has ``usage`` and no choices. The caller receives that chunk like any
    other.

    Args:
        kwargs: The arguments of the SDK's method.
    """
    if not kwargs.get("stream") or _sets_stream_options(kwargs):
        return kwargs
    return {**kwargs, "stream_options": {"include_usage": True}}


def _sets_stream_options(kwargs: Mapping[str, Any]) -> bool:
    body: object = kwargs.get("extra_body")
    if isinstance(body, Mapping) and "stream_options" in cast("Mapping[str, Any]", body):
        return True
    # An argument that the caller omitted is a sentinel of the SDK, or absent. An explicit `None`
    # counts as set by the caller.
    given = kwargs.get("stream_options", NotGiven())
    return not isinstance(given, NotGiven | Omit)


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
