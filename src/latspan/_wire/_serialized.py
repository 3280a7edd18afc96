"""Content as it leaves: as data in an event, as JSON text on a span, both of a limited size."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NoReturn, cast

from latspan._text import text_of
from latspan._wire._media import without_media

__all__ = ["LONGEST_CONTENT", "as_data", "as_json", "json_in", "written"]

LONGEST_CONTENT: Final = 1_048_576
"""Characters of JSON that are kept of the messages, instructions or tools of a call."""

_SHORTEST: Final = 256
"""Characters of JSON that each text may have, before whole items are left out instead."""


def as_data(
    content: Sequence[Mapping[str, Any]], *, media: bool, longest: int = LONGEST_CONTENT
) -> list[Any]:
    """
    Return messages, parts or tools as data, the arguments of tool calls too.

    What would be longer than ``longest`` as JSON is shortened, and stays whole JSON. Media are left
    out first. Then the longest texts are cut, all of them at the same length of their JSON. If that
    were less than 256 characters, the first items are left out.

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
    text = written(data)
    if len(text) > longest:
        data = without_media(data)
        text = written(data)
    if len(text) <= longest:
        return data, text
    lengths = list(_lengths(data))
    most = _share(lengths, longest - len(text) + sum(lengths))
    # Of one text some parts may take more room than others: a cut is not exactly as long.
    while most >= _SHORTEST:
        cut = _cut(data, most)
        text = written(cut)
        if len(text) <= longest:
            return cut, text
        most -= most // 8
    data = _last_items(_cut(data, _SHORTEST), longest)
    return data, written(data)


def _lengths(value: object) -> Iterator[int]:
    """Yield how long the JSON of each text in ``value`` is, names apart."""
    if isinstance(value, str):
        yield len(written(value))
    elif isinstance(value, Mapping):
        for inner in cast("Mapping[str, object]", value).values():
            yield from _lengths(inner)
    elif isinstance(value, (list, tuple)):
        for inner in cast("Sequence[object]", value):
            yield from _lengths(inner)


def _share(lengths: list[int], room: int) -> int:
    """Return the length up to which every text may be, so that all of them have room."""
    lengths.sort()
    for shorter, length in enumerate(lengths):
        left = len(lengths) - shorter
        if length * left > room:
            return room // left
        room -= length
    return room


def written(data: object) -> str:
    """Return the JSON of any data; what JSON has no form for is text in it."""
    try:
        return _dumped(data)
    except ValueError:
        return _dumped(_finite(data))


def _dumped(data: object) -> str:
    return json.dumps(data, separators=(",", ":"), default=text_of, allow_nan=False)


def _finite(value: object) -> Any:
    """Return data in which a number that is none, or infinite, is text."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        pairs = cast("Mapping[str, object]", value).items()
        return {name: _finite(inner) for name, inner in pairs}
    if isinstance(value, (list, tuple)):
        return [_finite(inner) for inner in cast("Sequence[object]", value)]
    return value


def _cut(value: object, most: int) -> Any:
    """Return a value whose texts take ``most`` characters of JSON each, or little more."""
    if isinstance(value, str):
        length = len(written(value))
        quotes = len('""')
        return value if length <= most else value[: len(value) * (most - quotes) // length]
    if isinstance(value, Mapping):
        pairs = cast("Mapping[str, object]", value).items()
        return {name: _cut(inner, most) for name, inner in pairs}
    if isinstance(value, (list, tuple)):
        return [_cut(inner, most) for inner in cast("Sequence[object]", value)]
    return value


def _last_items(data: list[Any], longest: int) -> list[Any]:
    """Return as many items as fit, the last ones: they are what was answered."""
    room = longest - len("[]")
    for count, item in enumerate(reversed(data)):
        room -= len(written(item)) + len(",")
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
        return json.loads(text, parse_constant=_refused)
    except (ValueError, RecursionError):
        return text


def _refused(constant: str) -> NoReturn:
    # Python reads NaN and infinities, which are no JSON.
    raise ValueError(constant)
