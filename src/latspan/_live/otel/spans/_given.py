"""Attributes that the application sets on a span, made safe to keep and to export."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from latspan._base.log import warn_once
from latspan._base.text import text_of
from latspan._live.otel.spans._encodable import encodable
from latspan._live.otel.spans._span import AttributeValue

_RESERVED: Final = "latspan."
"""Prefix of the attributes that latspan sets itself."""


def given_attributes(given: object) -> dict[str, AttributeValue]:
    """
    Return a copy of the attributes that the application sets, each encodable; never raise.

    Left out are values of ``None``, empty names, and names that begin with ``latspan.``, because
    latspan sets those itself.

    Args:
        given: Usually a mapping of names to values, but callers are not always type-checked.
    """
    if given is None:
        return {}
    try:
        # Copied first: the application may change the mapping later, or on another thread now.
        copied: dict[Any, Any] = dict(cast("Mapping[Any, Any]", given))
    except Exception as error:  # noqa: BLE001 - a mapping may be the application's own class
        warn_once(
            "attributes are not set: they must be a mapping of names to values", error.__cause__
        )
        return {}
    attributes: dict[str, AttributeValue] = {}
    for name, value in copied.items():
        text = text_of(name)
        if text.startswith(_RESERVED):
            warn_once(
                f"the attribute {text} is not set: names that begin with {_RESERVED} are latspan's;"
                " use the arguments of latspan.attributes() or latspan.annotate(), for example"
                " tenant=",
                about=_RESERVED,
            )
        elif text and value is not None:
            kept: Any = encodable({text: value})[text]
            is_list = isinstance(kept, (list, tuple))
            attributes[text] = _of_one_type(cast("Sequence[Any]", kept)) if is_list else kept
    return attributes


def _of_one_type(items: Sequence[Any]) -> Sequence[Any]:
    """
    Return the items as one type: numbers become floats, any other mixture becomes text.

    OpenTelemetry defines lists of one type only, and older versions of its SDK drop all others.
    """
    types: set[type] = {type(item) for item in items}
    if len(types) <= 1:
        return items
    return [float(item) if types == {int, float} else text_of(item) for item in items]
