"""
Line numbers of the keys of a TOML document; :mod:`tomllib` does not report them.

The document was already parsed, so it is valid. The scanner therefore only has to find where keys
begin: it skips values, without interpreting them, by counting brackets outside strings.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Final

KeyPath = tuple[str | int, ...]
"""Keys from the outermost table inwards, with the index of each element of an array of tables."""

_TOKEN: Final = re.compile(
    r"""
      (?P<string>"{3}(?:[^\\]|\\.)*?"{3,5}|'{3}.*?'{3,5}|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')
    | (?P<comment>\#[^\n]*)
    | (?P<open>[\[{])
    | (?P<close>[\]}])
    | (?P<line>\n)
    | (?P<other>[^"'\#\[\]{}\n]+)
    """,
    re.VERBOSE | re.DOTALL,
)
_KEY_PART: Final = re.compile(r"""\s*("(?:[^"\\]|\\.)*"|'[^']*'|[A-Za-z0-9_-]+)\s*""")


def lines_of(text: str) -> dict[KeyPath, int]:
    """
    Return the line, from 1, of every table and of every key outside inline tables.

    The line of an array of tables is that of its last element.

    Args:
        text: A valid TOML document.
    """
    lines: dict[KeyPath, int] = {}
    arrays: dict[KeyPath, int] = {}
    table: KeyPath = ()
    for number, statement in _statements(text):
        if statement.startswith("[["):
            path = _resolved(_keys(statement[2:]), arrays, whole=False)
            arrays[path] = arrays.get(path, -1) + 1
            table = (*path, arrays[path])
            lines[path] = lines[table] = number
        elif statement.startswith("["):
            table = _resolved(_keys(statement[1:]), arrays, whole=True)
            lines[table] = number
        else:
            lines[(*table, *_keys(statement))] = number
    return lines


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """Yield each statement with the line of its beginning, without comments."""
    number = first = 1
    depth = 0
    held: list[str] = []
    for token in _TOKEN.finditer(f"{text}\n"):
        kind, part = token.lastgroup, token[0]
        if kind == "line" and not depth:
            statement = "".join(held).strip()
            if statement:
                yield first, statement
            held = []
        elif kind != "comment" and (held or part.strip()):
            if not held:
                first = number
            held.append(part)
            depth += {"open": 1, "close": -1}.get(kind or "", 0)
        number += part.count("\n")


def _keys(statement: str) -> tuple[str, ...]:
    """Return the parts of the dotted key at the beginning of a statement."""
    keys: list[str] = []
    at = 0
    while (part := _KEY_PART.match(statement, at)) is not None:
        keys.append(_plain(part[1]))
        at = part.end()
        if statement[at : at + 1] != ".":
            break
        at += 1
    return tuple(keys)


def _plain(part: str) -> str:
    if part[0] not in "\"'":
        return part
    # The parser decodes the escapes.
    return str(tomllib.loads(f"key = {part}")["key"])


def _resolved(keys: tuple[str, ...], arrays: Mapping[KeyPath, int], *, whole: bool) -> KeyPath:
    """
    Return the path of a table header: a header names the last element of an array of tables.

    Args:
        keys: Keys of the header.
        arrays: Index of the last element of each array of tables so far.
        whole: Whether the last key also names an existing element.
    """
    path: KeyPath = ()
    for at, key in enumerate(keys):
        path = (*path, key)
        if path in arrays and (whole or at < len(keys) - 1):
            path = (*path, arrays[path])
    return path
