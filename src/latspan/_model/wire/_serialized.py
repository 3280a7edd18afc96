"""Serialization of content: as data for an event, or JSON text for a span, of limited size."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NoReturn, cast

from latspan._base.text import text_of
from latspan._model.wire._media import without_media

MAX_CONTENT_LENGTH: Final = 1_048_576
"""Maximum number of JSON characters for the messages, instructions or tools of a call."""

_MIN_LENGTH: Final = 256
"""Shortest length in JSON characters to which texts are cut; below it, items are dropped."""


def as_data(
    content: Sequence[Mapping[str, Any]], *, media: bool, max_length: int = MAX_CONTENT_LENGTH
) -> list[Any]:
    """
    Return messages, parts or tools as data, with the arguments of tool calls parsed too.

    Content whose JSON is longer than ``max_length`` is shortened and stays valid JSON. Media are
    removed first. Then the longest texts are cut, all to the same JSON length. If that length would
    be less than 256 characters, the first items are dropped.

    Args:
        content: Input or output of a call.
        media: ``True`` to keep the data of images, audio and files; ``False`` to keep only their
            types.
        max_length: Maximum number of characters of the JSON text.
    """
    return _fitting(content, media, max_length)[0]


def as_json(
    content: Sequence[Mapping[str, Any]],
    *,
    media: bool = True,
    max_length: int = MAX_CONTENT_LENGTH,
) -> str:
    """Return the result of :func:`as_data` as JSON text for a span attribute; same arguments."""
    return _fitting(content, media, max_length)[1]


def _fitting(
    content: Sequence[Mapping[str, Any]], media: bool, max_length: int
) -> tuple[list[Any], str]:
    """Return content as data and as JSON text, shortened until the text fits."""
    data: list[Any] = [_readable(each) for each in (content if media else without_media(content))]
    text = written(data)
    if len(text) > max_length:
        data = without_media(data)
        text = written(data)
    if len(text) <= max_length:
        return data, text
    lengths = list(_lengths(data))
    max_text_length = _share(lengths, max_length - len(text) + sum(lengths))
    # A cut text may be slightly longer than intended, because some characters take more room in
    # JSON than others. So the limit is lowered until the result fits.
    while max_text_length >= _MIN_LENGTH:
        cut = _cut(data, max_text_length)
        text = written(cut)
        if len(text) <= max_length:
            return cut, text
        max_text_length -= max_text_length // 8
    data = _last_items(_cut(data, _MIN_LENGTH), max_length)
    return data, written(data)


def _lengths(value: object) -> Iterator[int]:
    """Yield the JSON length of each text in ``value``, except names."""
    if isinstance(value, str):
        yield len(written(value))
    elif isinstance(value, Mapping):
        for inner in cast("Mapping[str, object]", value).values():
            yield from _lengths(inner)
    elif isinstance(value, (list, tuple)):
        for inner in cast("Sequence[object]", value):
            yield from _lengths(inner)


def _share(lengths: list[int], room: int) -> int:
    """Return the maximum length per text with which all texts fit into ``room`` characters."""
    lengths.sort()
    for shorter, length in enumerate(lengths):
        left = len(lengths) - shorter
        if length * left > room:
            return room // left
        room -= length
    return room


# `json.dumps` would make an encoder per call, which takes as long as encoding a small record.
_dumped: Final = json.JSONEncoder(separators=(",", ":"), default=text_of, allow_nan=False).encode


def written(data: object) -> str:
    """Return the JSON of any data; values that JSON cannot represent become text."""
    try:
        return _dumped(data)
    except ValueError:
        return _dumped(_finite(data))


def _finite(value: object) -> Any:
    """Return data in which NaN and infinite numbers are text."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        pairs = cast("Mapping[str, object]", value).items()
        return {name: _finite(inner) for name, inner in pairs}
    if isinstance(value, (list, tuple)):
        return [_finite(inner) for inner in cast("Sequence[object]", value)]
    return value


def _cut(value: object, max_length: int) -> Any:
    """Return a value with texts cut to ``max_length`` characters of JSON each, or slightly more."""
    if isinstance(value, str):
        length = len(written(value))
        quotes = len('""')
        return (
            value if length <= max_length else value[: len(value) * (max_length - quotes) // length]
        )
    if isinstance(value, Mapping):
        pairs = cast("Mapping[str, object]", value).items()
        return {name: _cut(inner, max_length) for name, inner in pairs}
    if isinstance(value, (list, tuple)):
        return [_cut(inner, max_length) for inner in cast("Sequence[object]", value)]
    return value


def _last_items(data: list[Any], max_length: int) -> list[Any]:
    """Return as many of the last items as fit, because the response refers to the last ones."""
    room = max_length - len("[]")
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
    """Return the parsed JSON of a text, or the text itself if it is not valid JSON."""
    try:
        return json.loads(text, parse_constant=_refused)
    except (ValueError, RecursionError):
        return text


def _refused(constant: str) -> NoReturn:
    # Python's parser accepts NaN and infinities, which are not valid JSON.
    raise ValueError(constant)
