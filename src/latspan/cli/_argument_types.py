"""
Types of command-line arguments: from the text that a user typed to its value.

Each function is the ``type`` of an option. It raises ``ArgumentTypeError`` for a text of another
form, and ``argparse`` prints the message below the usage of the command.
"""

from __future__ import annotations

import argparse
import json
import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from latspan.errors import ConfigError, UnknownNameError

if TYPE_CHECKING:
    from latspan._model.goals import Target

_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)?")
_SECONDS: Final = {"ms": 0.001, "s": 1.0, None: 1.0, "m": 60.0, "h": 3600.0}
_SET_BY_LATSPAN: Final = ("messages", "model", "stream", "stream_options")


def name_and_value(text: str) -> tuple[str, str]:
    """Return the name and the value of ``NAME=VALUE``."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME=VALUE")
    return name, value


def positive_number(text: str) -> float:
    """Return a finite number above 0."""
    try:
        number = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number") from None
    if not (math.isfinite(number) and number > 0):
        raise argparse.ArgumentTypeError(f"more than 0, not {text}")
    return number


def positive_numbers(text: str) -> list[float]:
    """Return the numbers above 0 of ``N,N,...``."""
    return [positive_number(part) for part in text.split(",")]


def whole_number(text: str, *, minimum: int = 0) -> int:
    """Return a whole number that is at least ``minimum``."""
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number") from None
    if number < minimum:
        raise argparse.ArgumentTypeError(f"at least {minimum}, not {number}")
    return number


def counting_number(text: str) -> int:
    """Return a whole number from 1 on."""
    return whole_number(text, minimum=1)


def counting_numbers(text: str) -> list[float]:
    """Return the whole numbers from 1 on of ``N,N,...``."""
    return [float(counting_number(part)) for part in text.split(",")]


def duration_s(text: str) -> float:
    """Return a time such as ``500ms``, ``30s`` or ``5m`` in seconds; without a unit, seconds."""
    found = _DURATION.fullmatch(text.strip())
    if found is None or not float(found[1]):
        raise argparse.ArgumentTypeError(f"'{text}' is not a time; use for example 500ms, 30s, 5m")
    return float(found[1]) * _SECONDS[found[2]]


def percentile_number(text: str) -> float:
    """Return a percentile in [1, 100), with or without a ``p``."""
    number = positive_number(text.removeprefix("p"))
    if not 1 <= number < 100:
        raise argparse.ArgumentTypeError(f"from 1 to below 100, for example 95, not {text}")
    return number


def json_object(text: str) -> Mapping[str, Any]:
    """Return the fields of a JSON object that are added to each request."""
    try:
        fields: Any = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        raise argparse.ArgumentTypeError("""not a JSON object; for example '{"temperature": 0}'""")
    for name in _SET_BY_LATSPAN:
        if name in fields:
            raise argparse.ArgumentTypeError(f"latspan sets the field '{name}' itself")
    return cast("dict[str, Any]", fields)


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is not JSON")


def target_limit(text: str) -> Target:
    """Return a target such as ``p95 ttft <= 500ms``."""
    from latspan._model.goals import Target, parse_percentile_goal

    try:
        goal = parse_percentile_goal(text)
        return Target(
            metric=goal.metric,
            percentile=goal.percentile,
            limit_ns=goal.required_limit_ns,
            source="--check",
        )
    except (ConfigError, UnknownNameError) as error:
        raise argparse.ArgumentTypeError(f"{error.message}; {error.hint}") from None
