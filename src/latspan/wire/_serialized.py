"""Content as it leaves: as data in an event, as JSON text on a span, both of a limited size."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from latspan._text import text_of
from latspan.wire._media import without_media

__all__ = ["LONGEST_CONTENT", "as_data", "as_json", "json_in"]

LONGEST_CONTENT: Final = 1_048_576
"""Characters of JSON that are kept of the messages, instructions or tools of a call."""

_CUTS: Final = (262_144, 65_536, 16_384, 4_096, 1_024, 256)
"""How long a text, and how many items a list may have, tried in this order."""


def as_data(
    content: Sequence[Mapping[str, Any]], *, media: bool, longest: int = LONGEST_CONTENT
) -> list[Any]:
    """
    Return messages, parts or tools as data, the arguments of tool calls too.

    What would be longer than ``longest`` as JSON is shortened, and stays whole JSON: media are left
    out first, then long texts and lists are cut, and in the end the first items are left out.

    Args:
        content: What a call was told or said.
        media: Whether images, audio and files are in it, and not only that there were some.
        longest: Maximum number of characters of its JSON text.
    """
    return _fitting(content, media, longest)[0]


def as_json(
    content: Sequence[Mapping[str, Any]], *, media: bool = True, longest: int = LONGEST_CONTENT
) -> str:
    """Return the same as the text that a span's attribute holds; arguments as there."""
    return _fitting(content, media, longest)[1]


def _fitting(
    content: Sequence[Mapping[str, Any]], media: bool, longest: int
) -> tuple[list[Any], str]:
    """Return content as data and as text, shortened until its text fits."""
    data: list[Any] = [_readable(each) for each in (content if media else without_media(content))]
    written = _written(data)
    if len(written) > longest:
        data = without_media(data)
        written = _written(data)
    whole = data
    for most in _CUTS:
        if len(written) <= longest:
            return data, written
        data = _cut(whole, most)
        written = _written(data)
    data = _last_items(data, longest)
    return data, _written(data)


def _written(data: object) -> str:
    return json.dumps(data, separators=(",", ":"), default=text_of)


def _cut(value: object, most: int) -> Any:
    if isinstance(value, str):
        return value[:most]
    if isinstance(value, Mapping):
        pairs = list(cast("Mapping[str, object]", value).items())[:most]
        return {name[:most]: _cut(inner, most) for name, inner in pairs}
    if isinstance(value, (list, tuple)):
        return [_cut(inner, most) for inner in cast("Sequence[object]", value)[-most:]]
    return value


def _last_items(data: list[Any], longest: int) -> list[Any]:
    """Return as many items as fit, the last ones: they are what was answered."""
    room = longest - len("[]")
    for count, item in enumerate(reversed(data)):
        room -= len(_written(item)) + len(",")
        if room < 0:
            return data[len(data) - count :]
    return data


def _readable(value: Mapping[str, Any]) -> Mapping[str, Any]:
    if "parts" in value:
        return {**value, "parts": [_readable(part) for part in value["parts"]]}
    arguments = value.get("arguments")
    return {**value, "arguments": json_in(arguments)} if isinstance(arguments, str) else value


def json_in(text: str) -> Any:
    """Return the data that a text is the JSON of, the text itself where it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
