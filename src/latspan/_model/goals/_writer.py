"""Writer of the file of an inference path: every value, with a comment that explains it."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from decimal import Decimal
from enum import StrEnum
from typing import Final, cast

from latspan._base.nanoseconds import NS_PER_MS
from latspan._model.goals._fields import Form
from latspan._model.goals._keys import KEYS, Key
from latspan._model.goals._path import InferencePath
from latspan._model.goals._target import Target

_COMMENT_AT: Final = 30
"""Column of the comments, where the values leave room for it."""

_EMPTY: Final = {Form.TEXT: '""', Form.TEXTS: "[]"}
_ESCAPED: Final = re.compile(r'["\\\x00-\x1f\x7f]')


def toml_of(path: InferencePath) -> str:
    """
    Return the file of an inference path.

    :func:`~latspan._model.goals.parse_inference_path` returns an equal inference path from it.

    Args:
        path: The inference path; the values that it does not have are shown in comments.
    """
    head = (
        f'# Inference path "{path.name}": one route, model, prompt template and traffic profile.',
        f"# latspan measure {path.name} sends the load below and checks the targets.",
        '# Fill in what is "" or []; a line that begins with # has no effect.',
        "",
    )
    return "\n".join((*head, *_table(path, "")))


def _table(value: object, name: str, limit_ns: int = 0) -> Iterator[str]:
    """
    Yield the lines of a table: its values first, then its tables, as TOML requires.

    Args:
        value: Object that the table describes.
        name: Name of the table.
        limit_ns: Limit of the target that the table belongs to; it sets the scale of the examples.
    """
    keys = KEYS[type(value)]
    if isinstance(value, Target):
        limit_ns = value.limit_ns
    for key in keys:
        if not _is_table(key) and key.form is not Form.GOAL:
            yield _line(key, getattr(value, key.attribute), limit_ns)
    yield ""
    for key in filter(_is_table, keys):
        held: object = getattr(value, key.attribute)
        inner = f"{name}.{key.name}" if name else key.name
        comment = [f"# {line}" for line in key.comment.split("\n")]
        if key.form is Form.TABLE:
            yield from (*comment, f"[{inner}]")
            yield from _table(held, inner, limit_ns)
            continue
        elements = cast("tuple[object, ...]", held)
        for index, each in enumerate(elements):
            yield from (*(() if index else comment), f"[[{inner}]]")
            yield from _table(each, inner)
        if not elements:
            yield from (*comment, f"# [[{inner}]]")
            yield from (_line(each, None, unset=True) for each in KEYS[key.of])
            yield ""


def _is_table(key: Key) -> bool:
    return key.form in (Form.TABLE, Form.TABLES)


def _line(key: Key, value: object, limit_ns: int = 0, *, unset: bool = False) -> str:
    if value is None:
        unset |= key.form not in _EMPTY
        text = _EMPTY.get(key.form, key.example) or _milliseconds(round(limit_ns * key.share))
    else:
        text = _text(value, key)
    statement = f"{'# ' if unset else ''}{key.name} = {text}"
    return f"{statement:<{_COMMENT_AT}}  # {key.comment}"


def _text(value: object, key: Key) -> str:
    if key.form is Form.MILLISECONDS:
        return _milliseconds(cast("int", value))
    if isinstance(value, float):
        return _decimal(Decimal(repr(value)))
    if isinstance(value, tuple):
        return f"[{', '.join(map(_quoted, cast('tuple[str, ...]', value)))}]"
    if isinstance(value, StrEnum | str):
        return _quoted(str(value))
    if isinstance(value, dt.date):
        return value.isoformat()
    return str(value)


def _milliseconds(value_ns: int) -> str:
    return _decimal(Decimal(value_ns) / NS_PER_MS)


def _decimal(number: Decimal) -> str:
    """Return a number without an exponent and without zeros at its end."""
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _quoted(text: str) -> str:
    escaped = _ESCAPED.sub(
        lambda found: f"\\{found[0]}" if found[0] in '"\\' else f"\\u{ord(found[0]):04x}", text
    )
    return f'"{escaped}"'
