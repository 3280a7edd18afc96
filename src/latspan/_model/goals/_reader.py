"""
Reader of the file of an inference path.

An error about a key or a table names the nearest known line. Every error states the correction.
"""

from __future__ import annotations

import datetime as dt
import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Final, NoReturn, TypeVar, cast

from latspan._base.nanoseconds import NS_PER_MS
from latspan._base.shown import printable
from latspan._base.spelling import nearest
from latspan._model.goals._fields import FieldError, Form
from latspan._model.goals._goal import MAX_LIMIT_NS, parse_percentile_goal
from latspan._model.goals._keys import KEYS, Key
from latspan._model.goals._lines import KeyPath, lines_of
from latspan._model.goals._path import (
    Change,
    InferencePath,
    PromptTemplate,
    QualityCheck,
    Risk,
    TrafficProfile,
)
from latspan._model.goals._target import Budget, Target
from latspan.errors import ConfigError, UnknownNameError

SUFFIX: Final = ".toml"

_HEADS: Final = ("[[target]]", "[traffic]")
"""Headers of the two tables that the file of an inference path has, and other TOML files lack."""

_T = TypeVar("_T")

_FORMS: Final = {
    Form.TEXT: 'a text in quotes, for example {key} = "chat"',
    Form.TEXTS: 'a list of texts, for example {key} = ["system prompt"]',
    Form.NUMBER: "a number, for example {key} = 95",
    Form.COUNT: "a whole number, for example {key} = 50",
    Form.MILLISECONDS: "a number of milliseconds, for example {key} = 500",
    Form.DATE: "a date without quotes, for example {key} = 2026-12-31",
    Form.CHOICE: "a text in quotes",
    Form.TABLE: "a table: write [{key}] on a line of its own",
    Form.TABLES: "a list of tables: write [[{key}]] on a line of its own",
    Form.GOAL: 'a text in quotes, for example {key} = "p95 ttft <= 500ms"',
}

_MAX_VALUE_LENGTH: Final = 60


def file_of(name: str | os.PathLike[str]) -> Path:
    """
    Return the file of an inference path.

    Args:
        name: Name of the inference path, whose file is ``NAME.toml`` in the current folder; or the
            path of a file that ends in ``.toml``.
    """
    text = os.fspath(name)
    return Path(text if text.endswith(SUFFIX) else f"{text}{SUFFIX}")


def read_inference_path(name: str | os.PathLike[str]) -> InferencePath:
    """
    Return the inference path that a file describes.

    Args:
        name: Name or file of the inference path; see :func:`file_of`.

    Raises:
        ConfigError: The file does not exist, cannot be read or is invalid, or its name differs
            from that of the file.
    """
    path = file_of(name)
    try:
        found = parse_inference_path(path.read_text(encoding="utf-8"), file=str(path))
    except FileNotFoundError:
        raise ConfigError(f"no file {path}", hint=f"latspan init {path.stem} writes one") from None
    except OSError as error:
        raise ConfigError(
            f"cannot read {path}: {error.strerror}", hint="use the path of an existing file"
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text", hint="save the file as UTF-8") from error
    # Commands and results use the file's name, and requests have the value of the key `name` as
    # their inference path. The two must be equal.
    if found.name != path.stem:
        raise ConfigError(
            f'{path} has name = "{printable(found.name)}", but the file is named {path.stem}',
            hint=f'write name = "{path.stem}", or rename the file',
        )
    return found


def files_in(folder: Path) -> list[Path]:
    """
    Return the files of inference paths in a folder, by name; other TOML files are left out.

    Args:
        folder: Folder with the files that ``latspan init`` wrote.

    Raises:
        OSError: The folder does not exist or cannot be read.
    """
    files = sorted(each for each in folder.iterdir() if each.suffix == SUFFIX)
    return list(filter(_is_inference_path, files))


def _is_inference_path(file: Path) -> bool:
    try:
        # A file that is not UTF-8 stays in the list if it looks like an inference path, so that the
        # caller can report its error.
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    if "\N{REPLACEMENT CHARACTER}" in text:
        return any(head in text for head in _HEADS)
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError):
        # A damaged file of an inference path is shown with its error.
        return any(head in text for head in _HEADS)
    # TOML files of other programs may have a table `[target]`, but not a list of tables
    # `[[target]]`.
    return isinstance(document.get("target"), list) or "traffic" in document


def parse_inference_path(text: str, *, file: str) -> InferencePath:
    """
    Return the inference path that a TOML document describes.

    Args:
        text: The document.
        file: Name of the document in errors.

    Raises:
        ConfigError: The document is invalid; the message names the line.
    """
    # A byte order mark is invisible in an editor.
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    try:
        # In binary floating point 0.1 ms is not a whole number of nanoseconds.
        document = tomllib.loads(text, parse_float=Decimal)
    # The parser raises a plain ValueError for an integer of thousands of digits.
    except ValueError as error:
        raise ConfigError(
            f"{file} is not valid TOML: {error}",
            hint='a line is name = value, and text is in quotes: model = "gpt-4o"',
        ) from error
    except RecursionError:
        raise ConfigError(
            f"{file} is nested too deeply", hint="latspan init NAME writes a file to begin with"
        ) from None
    return _Document(file, lines_of(text)).build(InferencePath, document, ())


class _Document:
    """
    One file while it is read.

    Args:
        file: Its name.
        lines: Line of each key.
    """

    def __init__(self, file: str, lines: Mapping[KeyPath, int]) -> None:
        self._file = file
        self._lines = lines

    def build(self, kind: type[_T], table: Mapping[str, object], at: KeyPath) -> _T:
        """
        Return the object that a table describes.

        Args:
            kind: Class of the object.
            table: Contents of the table.
            at: Position of the table.
        """
        keys = {key.name: key for key in KEYS[kind]}
        for name in table:
            if name not in keys:
                self._fail_unknown(name, keys, at)
        for key in keys.values():
            is_replaced = key.replaced_by in table
            if is_replaced and key.name in table:
                self._fail(
                    (*at, key.name),
                    f"{_where(at)}{key.replaced_by} and {key.name} are both given",
                    f"keep {key.replaced_by}, or {' and '.join(_replaced_by(keys, key))}",
                )
            if key.required and not is_replaced and key.name not in table:
                self._fail(
                    at, f"{_where(at)}{key.name} is missing", f"add {_form_of(key)}: {key.comment}"
                )
        values: dict[str, object] = {}
        for name, value in table.items():
            if keys[name].form is Form.GOAL:
                values |= self._goal(keys[name], value, (*at, name))
            else:
                values[keys[name].attribute] = self._value(keys[name], value, (*at, name))
        try:
            return kind(**values)
        except FieldError as error:
            key = next((key for key in keys.values() if key.attribute == error.field), None)
            name = error.field if key is None else key.name
            self._fail(
                (*at, name),
                error.template.replace("{key}", name),
                error.hint_template.replace("{key}", name),
            )

    def _value(self, key: Key, value: object, at: KeyPath) -> object:
        if key.form is Form.TABLE and isinstance(value, dict):
            return self.build(key.of, cast("dict[str, object]", value), at)
        if key.form is Form.TABLES and isinstance(value, list):
            tables = cast("list[dict[str, object]]", value)
            if all(isinstance(each, dict) for each in tables):  # pyright: ignore[reportUnnecessaryIsInstance]
                return tuple(
                    self.build(key.of, each, (*at, index)) for index, each in enumerate(tables)
                )
        if key.form is Form.CHOICE and isinstance(value, str):
            return self._choice(cast("type[StrEnum]", key.of), value, at)
        read = _READERS.get(key.form)
        result = None if read is None else read(cast("object", value))
        if result is None:
            shown = _shown(cast("object", value))
            self._fail(at, f"{shown} is not valid for {key.name}", f"use {_form_of(key)}")
        return result

    def _goal(self, key: Key, value: object, at: KeyPath) -> dict[str, object]:
        """Return the fields that the text of a goal describes."""
        if not isinstance(value, str):
            self._fail(at, f"{_shown(value)} is not valid for {key.name}", f"use {_form_of(key)}")
        try:
            goal = parse_percentile_goal(value)
            limit_ns = goal.required_limit_ns
        except (ConfigError, UnknownNameError) as error:
            self._fail(at, error.message, error.hint or "")
        return {"metric": goal.metric, "percentile": goal.percentile, "limit_ns": limit_ns}

    def _choice(self, options: type[StrEnum], value: str, at: KeyPath) -> StrEnum:
        try:
            return options(value)
        except ValueError:
            close = nearest(value, options)
            self._fail(
                at,
                f"{_shown(value)} is not valid for {at[-1]}",
                f'did you mean "{close}"?' if close else f"one of {', '.join(options)}",
            )

    def _fail_unknown(self, name: str, keys: Mapping[str, Key], at: KeyPath) -> NoReturn:
        close = nearest(name, keys)
        places = [_PLACES[kind] for kind in KEYS if any(key.name == name for key in KEYS[kind])]
        if places:
            hint = f"{name} belongs {' or '.join(places)}"
        elif close:
            hint = f"did you mean '{close}'?"
        else:
            hint = f"one of {', '.join(keys)}"
        self._fail((*at, name), f"{_where(at)}unknown key '{name}'", hint)

    def _fail(self, at: KeyPath, message: str, hint: str) -> NoReturn:
        # Keys of an inline table have no line; that of the table is the nearest.
        while at and at not in self._lines:
            at = at[:-1]
        line = self._lines.get(at)
        place = self._file if line is None else f"{self._file}, line {line}"
        raise ConfigError(f"{place}: {message}", hint=hint) from None


def _replaced_by(keys: Mapping[str, Key], key: Key) -> list[str]:
    """Return the names of the keys that can be replaced as ``key`` can."""
    return [each.name for each in keys.values() if each.replaced_by == key.replaced_by]


def _where(at: KeyPath) -> str:
    """
    Return the name of the table in brackets, or an empty text for the top level.

    A message about a missing or unknown key begins with it.
    """
    names = ".".join(str(each) for each in at if isinstance(each, str))
    return f"[{names}]: " if names else ""


def _form_of(key: Key) -> str:
    if key.form is Form.CHOICE:
        return " or ".join(f'{key.name} = "{each}"' for each in cast("type[StrEnum]", key.of))
    return _FORMS[key.form].replace("{key}", key.name)


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value) if isinstance(value, int | Decimal) else repr(value)
    return printable(text, max_length=_MAX_VALUE_LENGTH)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _texts(value: object) -> tuple[str, ...] | None:
    if not isinstance(value, list):
        return None
    texts = tuple(each for each in cast("Sequence[object]", value) if isinstance(each, str))
    return texts if len(texts) == len(cast("Sequence[object]", value)) else None


def _decimal(value: object) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return None
    number = Decimal(value)
    return number if number.is_finite() else None


def _number(value: object) -> float | None:
    number = _decimal(value)
    return None if number is None else float(number)


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _milliseconds(value: object) -> int | None:
    number = _decimal(value)
    if number is None or abs(number) > MAX_LIMIT_NS // NS_PER_MS:
        return None
    return round(number * NS_PER_MS)


def _date(value: object) -> dt.date | None:
    return value if isinstance(value, dt.date) and not isinstance(value, dt.datetime) else None


_READERS: Final[dict[Form, Callable[[object], object]]] = {
    Form.TEXT: _text,
    Form.TEXTS: _texts,
    Form.NUMBER: _number,
    Form.COUNT: _count,
    Form.MILLISECONDS: _milliseconds,
    Form.DATE: _date,
}

_PLACES: Final[dict[type[object], str]] = {
    InferencePath: "above the first table",
    Target: "under [[target]]",
    Budget: "under [target.budget]",
    TrafficProfile: "under [traffic]",
    PromptTemplate: "under [prompt]",
    QualityCheck: "under [quality]",
    Change: "under [change]",
    Risk: "under [[risk]]",
}
"""Where the keys of each class stand in a file."""
