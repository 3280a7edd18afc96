"""
Scorers of the answers to the items of an evaluation set.

A mistake in an item is an error that names it, and is found before there is an answer. An answer
that cannot be read scores 0, whatever it contains.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Final, TypeAlias, cast

from latspan._base.shown import foreign, printable
from latspan.errors import ConfigError, MissingExtraError

Scorer: TypeAlias = Callable[[str], float]
"""Return the score of an answer, in [0, 1]."""

_NUMBER: Final = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?(?:[eE][-+]?\d+)?")
_INVALID: Final = (re.error, ValueError, TypeError, OverflowError, RecursionError)
_MAX_MESSAGE_LENGTH: Final = 200
"""Number of characters of another program's message that are shown."""


def scorer_of(item: Mapping[str, Any]) -> Scorer:
    """
    Return the function that scores the answers to an item.

    Args:
        item: ``scorer`` (``exact`` by default) with ``expected``: ``exact`` compares without outer
            spaces; ``contains`` looks for a text, or the share of several; ``regex`` searches a
            pattern; ``numeric`` compares the last number, within ``tolerance``; ``json_schema``
            validates JSON; ``module:function`` is called with the item and the answer.

    Raises:
        ConfigError: The scorer is unknown, or its arguments are invalid.
        MissingExtraError: ``jsonschema`` is not installed.
    """
    name = str(item.get("scorer", "exact"))
    if ":" in name:
        return _own(item, name)
    if name not in _SCORERS:
        raise ConfigError(
            f"{_name_of(item)} names no scorer: '{printable(name)}'",
            hint=f"one of {', '.join(_SCORERS)}, or module:function",
        )
    if "expected" not in item:
        raise ConfigError(f"{_name_of(item)} has no 'expected'", hint="add it to the line")
    try:
        return _SCORERS[name](item)
    except ConfigError:
        raise
    except _INVALID as error:
        raise _not_valid(item, name, error) from error


def _name_of(item: Mapping[str, Any]) -> str:
    return f"the item {printable(str(item.get('id')))}"


def _not_valid(item: Mapping[str, Any], name: str, error: BaseException) -> ConfigError:
    return ConfigError(
        f"{_name_of(item)} is not valid for the scorer {name}: {_reason(error)}",
        hint="correct 'expected' in its line",
    )


def _reason(error: BaseException) -> str:
    text = foreign(str(error), max_length=_MAX_MESSAGE_LENGTH)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _exact(item: Mapping[str, Any]) -> Scorer:
    wanted = str(item["expected"]).strip()
    return lambda answer: float(answer.strip() == wanted)


def _contains(item: Mapping[str, Any]) -> Scorer:
    expected = item["expected"]
    several = cast("list[object]", expected) if isinstance(expected, list) else [expected]
    wanted = [str(each).casefold() for each in several]
    return lambda answer: sum(each in answer.casefold() for each in wanted) / max(len(wanted), 1)


def _regex(item: Mapping[str, Any]) -> Scorer:
    pattern = re.compile(str(item["expected"]))
    return lambda answer: float(pattern.search(answer) is not None)


def _numeric(item: Mapping[str, Any]) -> Scorer:
    expected, tolerance = float(item["expected"]), float(item.get("tolerance", 1e-9))
    if not (math.isfinite(expected) and math.isfinite(tolerance)):
        raise ValueError("a number is not finite")

    def scored(answer: str) -> float:
        numbers = _NUMBER.findall(answer)
        return float(
            bool(numbers) and abs(float(numbers[-1].replace(",", "")) - expected) <= tolerance
        )

    return scored


def _json_schema(item: Mapping[str, Any]) -> Scorer:
    try:
        jsonschema = import_module("jsonschema")
    except ImportError as error:
        raise MissingExtraError("jsonschema", extra="study") from error
    exceptions = import_module("jsonschema.exceptions")
    referencing = import_module("referencing.exceptions")
    expected = item["expected"]
    if not isinstance(expected, dict | bool):
        raise TypeError("a schema is an object")
    try:
        jsonschema.Draft202012Validator.check_schema(expected)
    except exceptions.SchemaError as error:
        raise ValueError(error.message) from error
    validator = jsonschema.Draft202012Validator(expected)

    def is_valid(document: object) -> bool:
        try:
            return bool(validator.is_valid(document))
        # A reference is resolved when a document reaches it.
        except (referencing.Unresolvable, re.error) as error:
            raise _not_valid(item, "json_schema", error) from error

    def scored(answer: str) -> float:
        try:
            return float(is_valid(json.loads(answer)))
        except ConfigError:
            raise
        except (ValueError, RecursionError):
            return 0.0

    # A reference that leads back to itself never ends, whatever the document.
    is_valid({})
    return scored


_SCORERS: Final[dict[str, Callable[[Mapping[str, Any]], Scorer]]] = {
    "exact": _exact,
    "contains": _contains,
    "regex": _regex,
    "numeric": _numeric,
    "json_schema": _json_schema,
}


def _own(item: Mapping[str, Any], name: str) -> Scorer:
    """Return the scorer that calls a function of the user's."""
    shown = printable(name)
    module, _, attribute = name.partition(":")
    try:
        function = getattr(import_module(module), attribute)
        if not callable(function):
            raise TypeError("it is not a function")
    # Importing a module runs it, and it may raise anything.
    except (Exception, SystemExit) as error:
        raise ConfigError(
            f"{_name_of(item)}: cannot import the scorer {shown}: {_reason(error)}",
            hint="use module:function",
        ) from error

    def scored(answer: str) -> float:
        try:
            value = function(item, answer)
        except Exception as error:
            raise ConfigError(
                f"{_name_of(item)}: the scorer {shown} failed: {_reason(error)}",
                hint="return a number from 0 to 1 for every answer",
            ) from error
        if isinstance(value, bool | int | float) and 0 <= value <= 1:
            return float(value)
        raise ConfigError(
            f"{_name_of(item)}: the scorer {shown} returned"
            f" {foreign(repr(value), max_length=_MAX_MESSAGE_LENGTH)}",
            hint="return a number from 0 to 1",
        )

    return scored
