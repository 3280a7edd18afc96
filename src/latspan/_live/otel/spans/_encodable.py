"""
Conversion of attributes so that every exporter can encode them, and their maximum encoded size.

A bad value affects no other. The size, in bytes, is computed without encoding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar, cast

from latspan import semconv
from latspan._base.text import MAX_NAME_LENGTH, text_of
from latspan._live.otel.spans._span import AttributeValue
from latspan._model.wire import MAX_CONTENT_LENGTH, written

MAX_TEXT_LENGTH: Final = 16_384
"""Maximum number of characters kept of an attribute's text, or of all texts in its list."""

MAX_ITEMS: Final = 128
"""Maximum number of items kept of a list."""

_ATTRIBUTE_BYTES: Final = 16
"""Size of the tags and lengths of one attribute."""

_NUMBER_BYTES: Final = 12
_NUMBERS: Final = frozenset({bool, int, float})

SPAN_BYTES: Final = 160
"""Size of the identities, times, kind, flags and status of a span."""

_CONTENT: Final = frozenset(
    {
        semconv.GEN_AI_INPUT_MESSAGES,
        semconv.GEN_AI_OUTPUT_MESSAGES,
        semconv.GEN_AI_SYSTEM_INSTRUCTIONS,
        semconv.GEN_AI_TOOL_DEFINITIONS,
    }
)
_ALWAYS_FINE: Final = frozenset({bool, float})
_MIN_INT, _MAX_INT = -(2**63), 2**63 - 1

_Attributes = TypeVar("_Attributes", bound=Mapping[str, Any])


def encodable(attributes: _Attributes) -> _Attributes | dict[str, AttributeValue]:
    """
    Return attributes whose names and values are all encodable; the same object if they already are.

    Text is repaired by :func:`~latspan._base.text.text_of`. A value that OTLP has no type for
    becomes text: a number beyond 64 bits, an ``Enum``. ``None`` is omitted.
    """
    # Most attributes need no repair, and with an application's provider this runs on the caller's
    # thread. So it is one pass without a call of a Python function.
    odd = [
        name
        for name, value in attributes.items()
        if not (
            type(name) is str
            and name.isascii()
            and len(name) <= MAX_NAME_LENGTH
            and (
                (type(value) is str and value.isascii() and len(value) <= MAX_TEXT_LENGTH)
                or (type(value) is int and _MIN_INT <= value <= _MAX_INT)
                or type(value) in _ALWAYS_FINE
            )
        )
    ]
    if not odd:
        return attributes
    mended: dict[Any, Any] = dict(attributes)
    for name in odd:
        value = mended.pop(name)
        max_length = MAX_CONTENT_LENGTH if name in _CONTENT else MAX_TEXT_LENGTH
        if value is not None:
            mended[text_of(name)] = _encodable_value(value, max_length)
    return mended


def measured(attributes: Mapping[str, Any]) -> tuple[Mapping[str, Any], int]:
    """Return attributes as :func:`encodable` does, and their maximum size in bytes."""
    # Nearly always there is nothing to repair, and this runs for each call. So it is one pass
    # without a call of a Python function.
    try:
        names = "".join(attributes)
        is_fine = names.isascii() and max(map(len, attributes), default=0) <= MAX_NAME_LENGTH
    except TypeError:
        names, is_fine = "", False
    size = _ATTRIBUTE_BYTES * len(attributes) + len(names)
    for value in attributes.values():
        kind = value.__class__
        if kind is str:
            is_fine = is_fine and value.isascii() and len(value) <= MAX_TEXT_LENGTH
            size += len(value)
        elif kind is float or kind is bool:
            size += _NUMBER_BYTES
        elif kind is int:
            is_fine = is_fine and _MIN_INT <= value <= _MAX_INT
            size += _NUMBER_BYTES
        elif kind is tuple and len(value) == 1 and value[0].__class__ is str:
            # This is the case for the finish reasons of nearly every call.
            is_fine = is_fine and value[0].isascii() and len(value[0]) <= MAX_TEXT_LENGTH
            size += _ATTRIBUTE_BYTES + len(value[0])
        else:
            is_fine = False
    if is_fine:
        return attributes, size
    mended = encodable(attributes)
    return mended, size_of_attributes(mended)


def _encodable_value(value: object, max_length: int) -> AttributeValue:
    if isinstance(value, (list, tuple)):
        items = _encodable_items(cast("Sequence[object]", value), max_length)
        return tuple(items) if isinstance(value, tuple) else items
    return _encodable_item(value, max_length)


def _encodable_item(value: object, max_length: int) -> str | int | float:
    # `bool` is a subclass of `int`, so this returns it unchanged.
    if isinstance(value, float) or (isinstance(value, int) and _MIN_INT <= value <= _MAX_INT):
        return value
    return text_of(value, max_length)


def _encodable_items(values: Sequence[object], max_length: int) -> list[Any]:
    items: list[str | int | float] = []
    for value in values[:MAX_ITEMS]:
        item = _encodable_item(value, max_length)
        items.append(item)
        max_length -= len(item) if isinstance(item, str) else 0
        if max_length <= 0:
            break
    return items


_DEEPEST_IN_EVENTS: Final = 20
"""
Maximum nesting of lists and mappings in an event's data; deeper levels become JSON text.

protobuf rejects the whole message, with all other records in it, if more than 100 messages are
nested. A mapping adds three levels, and the record itself has six.
"""


def encodable_data(value: object, deepest: int = _DEEPEST_IN_EVENTS) -> Any:
    """
    Return the content of an event with every name and text in it encodable.

    Args:
        value: Lists and mappings of text, numbers and ``None``, nested in any way.
        deepest: Levels of lists and mappings to keep as they are; deeper levels become text, and
            ``None`` if they are too deep for Python to write.
    """
    if value is None:
        return None
    if isinstance(value, (Mapping, list, tuple)) and deepest == 0:
        try:
            return text_of(written(cast("object", value)), MAX_CONTENT_LENGTH)
        except RecursionError:
            return None
    if isinstance(value, Mapping):
        pairs = cast("Mapping[object, object]", value).items()
        return {text_of(name): encodable_data(inner, deepest - 1) for name, inner in pairs}
    if isinstance(value, (list, tuple)):
        items = cast("Sequence[object]", value)
        return [encodable_data(inner, deepest - 1) for inner in items]
    return _encodable_item(value, MAX_CONTENT_LENGTH)


def size_of_text(value: object) -> int:
    """Return the number of bytes that ``value`` takes as text."""
    text = value if isinstance(value, str) else str(value)
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def size_of_attributes(attributes: Mapping[str, Any]) -> int:
    """Return the maximum number of bytes that attributes take when encoded."""
    # This runs on the caller's thread for an application's spans: no call per attribute.
    size = _ATTRIBUTE_BYTES * len(attributes)
    for name, value in attributes.items():
        size += len(name) if name.isascii() else size_of_text(name)
        kind = value.__class__
        if kind in _NUMBERS:
            # Formatting the number would take longer than all the rest.
            size += _NUMBER_BYTES
        elif kind is str and value.isascii():
            size += len(value)
        else:
            size += size_of_text(value)
    return size


def size_of_parts(name: str, attributes: Mapping[str, Any]) -> int:
    """Return the maximum encoded size of a span in bytes, for a name and attributes alone."""
    return SPAN_BYTES + size_of_text(name) + size_of_attributes(attributes)
