"""Kinds of settings: how a ``LATSPAN_*`` variable is parsed, and which values are valid."""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar, cast

from latspan import semconv
from latspan._base import spelling as _spelling
from latspan._base.text import MAX_NAME_LENGTH
from latspan._live.scraping import address_of
from latspan._live.sdk._endpoints import check_base
from latspan.errors import ConfigError

_METADATA: Final = "latspan.kind"
_TRUE: Final = frozenset({"true", "1", "yes", "on"})
_FALSE: Final = frozenset({"false", "0", "no", "off"})

_SIMILAR: Final = 0.7
"""Similarity in [0, 1] from which a name counts as a misspelling: see :func:`nearest`."""

_Value = TypeVar("_Value")


class SettingKind(NamedTuple):
    """
    Kind of a setting. Both functions raise ``ConfigError`` with a hint.

    Args:
        check: Called with the name of the setting and its value; raises if the value is not valid.
            Not every caller is type-checked, so it accepts any object.
        parse: Called with the name of the variable and its text, which is not empty; returns the
            value, or raises if the text cannot be converted. ``None`` if there is no variable.
    """

    check: Callable[[str, object], None]
    parse: Callable[[str, str], object] | None


def kind_of(field: dataclasses.Field[Any]) -> SettingKind:
    """Return the kind of a field that one of the functions below has created."""
    return field.metadata[_METADATA]


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that a misspelt one was most likely meant to be, if one is similar."""
    return _spelling.nearest(name, known, min_similarity=_SIMILAR)


def _field(
    default: _Value,
    check: Callable[[str, object], None],
    parse: Callable[[str, str], object] | None,
) -> _Value:
    metadata = {_METADATA: SettingKind(check, parse)}
    return dataclasses.field(default=default, metadata=metadata)


def text(default: str | None = None) -> str | None:
    """Return a field for a string; ``None`` means that it is not set."""
    return _field(default, _check_text, _parse_text)


def choice(default: _Value, *choices: str) -> _Value:
    """Return a field for one of ``choices``; ``None`` means that it is not set."""

    def check(name: str, value: object) -> None:
        if value is not None and value not in choices:
            raise ConfigError(f"{name} is '{value}'", hint=f"use one of {', '.join(choices)}")

    return _field(default, check, _parse_text)


def switch(default: bool) -> bool:
    """Return a field for a boolean."""
    return _field(default, _check_switch, _parse_switch)


def number(default: _Value, *, minimum: float, maximum: float) -> _Value:
    """
    Return a field for a number in [least, most].

    Args:
        default: Default; if it is ``None``, the setting may be ``None``.
        minimum: Minimum, greater than 0.
        maximum: Maximum, chosen so that no value computed from the setting overflows.
    """

    def check(name: str, value: object) -> None:
        if default is None and value is None:
            return
        if not (_is_number(value) and minimum <= cast("float", value) <= maximum):
            raise ConfigError(
                f"{name} is {value!r}",
                hint=f"use a number greater than 0, from {minimum:g} to {maximum:g}",
            )

    return _field(default, check, _parse_number)


def fraction(default: float) -> float:
    """Return a field for a fraction in (0, 1]."""
    return _field(default, _check_fraction, _parse_number)


def integer(
    default: int, *, minimum: int, maximum: float = math.inf, word_for_none: str | None = None
) -> int:
    """
    Return a field for an integer in [least, most].

    Args:
        default: Default.
        minimum: Minimum.
        maximum: Maximum.
        word_for_none: Text of the variable that stands for ``None``, if ``None`` is valid.
    """

    def check(name: str, value: object) -> None:
        if value is None and word_for_none:
            return
        if not (type(value) is int and minimum <= value <= min(maximum, sys.maxsize)):
            reach = (
                f"of {minimum} or more" if maximum == math.inf else f"from {minimum} to {maximum}"
            )
            other = f", or None for {word_for_none}" if word_for_none else ""
            raise ConfigError(f"{name} is {value!r}", hint=f"use an integer {reach}{other}")

    def parse(variable: str, text: str) -> int | None:
        if word_for_none and text.lower() == word_for_none:
            return None
        other = f", or {word_for_none}" if word_for_none else ""
        return _converted(int, variable, text, hint=f"use an integer{other}")

    return _field(default, check, parse)


def endpoint() -> str | None:
    """Return a field for the address of an OTLP collector; ``None`` means that it is not set."""

    def check(name: str, value: object) -> None:
        if value is not None:
            check_base(name, value)

    return _field(None, check, _parse_text)


def folder() -> str | None:
    """Return a field for the path of a folder; ``None`` means that it is not set."""
    return _field(None, _check_folder, _parse_text)


def addresses() -> Sequence[str]:
    """Return a field for a list of server addresses; commas separate them in the variable."""
    return _field((), _check_addresses, _parse_list)


def names() -> tuple[str, ...]:
    """Return a field for names of the application's own attributes, separated by commas."""
    return _field((), _check_names, _parse_list)


def headers() -> tuple[str, ...]:
    """Return a field for names of response headers, separated by commas."""
    return _field((), _check_headers, _parse_list)


def provider() -> Any:
    """Return a field for a tracer provider; ``None`` means that it is not set."""
    return _field(None, _check_provider, None)


def _check_text(name: str, value: object) -> None:
    if value is not None and not isinstance(value, str):
        raise ConfigError(f"{name} is {value!r}, which is not a string", hint="use a str, or None")


def _check_switch(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise ConfigError(f"{name} is {value!r}", hint="use True or False")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check_fraction(name: str, value: object) -> None:
    if not (_is_number(value) and 0 < cast("float", value) <= 1):
        raise ConfigError(
            f"{name} is {value!r}",
            hint="use a number greater than 0 and at most 1, for example 0.05 for one trace in"
            " twenty; OTEL_TRACES_EXPORTER=none exports no spans",
        )


def _check_folder(name: str, value: object) -> None:
    """Raise if ``value`` can never be a folder; a missing folder is created later."""
    if value is None:
        return
    try:
        path = Path(cast("str", value))
        nearest = next(each for each in (path, *path.parents) if each.exists())
        usable = nearest.is_dir() and "\0" not in str(path)
    except (OSError, TypeError):
        # It is not a path, or a parent folder is not accessible.
        usable = False
    if not usable:
        raise ConfigError(
            f"{name} is '{value}', which is not a folder",
            hint="use the path of a folder; each process creates its own file in it",
        )


def _check_addresses(name: str, value: object) -> None:
    hint = "for example ['http://127.0.0.1:8080']; http:// or https://, without a user name"
    # A string is a sequence too: of characters.
    if isinstance(value, str) or not isinstance(value, Sequence):
        # The value is not shown, here and below, because it may contain a password.
        raise ConfigError(f"{name} is not a list of addresses", hint=hint)
    for position, address in enumerate(cast("Sequence[object]", value), start=1):
        try:
            address_of(str(address))
        except ValueError:
            raise ConfigError(f"{name}: item {position} is not an address", hint=hint) from None


_MAX_NAMES: Final = 16


def _latspans_names() -> set[str]:
    # Only a program that sets such names needs it, and every program imports this module.
    from latspan._model.recording import ATTRIBUTES

    return {
        *ATTRIBUTES,
        *semconv.SERIES_ATTRIBUTES.values(),
        *semconv.CONVENTION_ATTRIBUTES.values(),
        # Arguments of a snapshot's methods, next to which attributes are passed.
        *("default", "metric", "name", "percentile", "self", "unit"),
    }


_LATSPANS_PREFIXES: Final = ("latspan.", "otel.")


def _check_names(name: str, value: object) -> None:
    # A string is a sequence too: of characters.
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise ConfigError(
            f"{name} is {value!r}, which is not a list of names",
            hint="use a list of attribute names, for example ['prompt.version']",
        )
    given = cast("Sequence[object]", value)
    latspans_names = _latspans_names() if given else set[str]()
    for each in given:
        if not isinstance(each, str) or not _is_name(each):
            raise ConfigError(
                f"{name}: {each!r} is not the name of an attribute",
                hint=f"use printable text without spaces, at most {MAX_NAME_LENGTH} characters,"
                " for example 'prompt.version'",
            )
        if each in latspans_names or each.startswith(_LATSPANS_PREFIXES):
            raise ConfigError(
                f"{name}: '{each}' is a name of latspan's own",
                hint="series have latspan's attributes anyway; use another name for yours, for"
                " example 'prompt.version'",
            )
    if len(given) > _MAX_NAMES or len(set(given)) < len(given):
        raise ConfigError(
            f"{name} has {len(given)} names",
            hint=f"use at most {_MAX_NAMES} names, each once: each combination of values is a"
            " series of its own",
        )


def _check_headers(name: str, value: object) -> None:
    # A string is a sequence too: of characters.
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise ConfigError(
            f"{name} is {value!r}, which is not a list of names",
            hint="use a list of the names of headers, for example ['x-worker']",
        )
    given = cast("Sequence[object]", value)
    if given:
        # Only a program that sets such names needs it, and every program imports this module.
        from latspan._live.otel.spans import is_recordable

        for each in given:
            if not isinstance(each, str) or not is_recordable(each.lower()):
                raise ConfigError(
                    f"{name}: {each!r} is not the name of a header that can be recorded",
                    hint="use the name of a header that names a replica, a cache or a gateway, for"
                    " example 'x-worker'; headers that may contain a secret are never recorded",
                )
    if len(given) > _MAX_NAMES:
        raise ConfigError(f"{name} has {len(given)} names", hint=f"use at most {_MAX_NAMES} names")


def _is_name(text: str) -> bool:
    return 0 < len(text) <= MAX_NAME_LENGTH and text.isprintable() and " " not in text


def _check_provider(name: str, value: object) -> None:
    if value is None:
        return
    from opentelemetry.trace import TracerProvider

    if not isinstance(value, TracerProvider):
        raise ConfigError(
            f"{name} is {value!r}, which is not a TracerProvider",
            hint="use an instance of opentelemetry.trace.TracerProvider, for example"
            " opentelemetry.sdk.trace.TracerProvider()",
        )


def _parse_text(_variable: str, text: str) -> str:
    return text


def _parse_list(_variable: str, text: str) -> tuple[str, ...]:
    return tuple(each.strip() for each in text.split(",") if each.strip())


def _parse_switch(variable: str, text: str) -> bool:
    lowered = text.lower()
    if lowered in _TRUE | _FALSE:
        return lowered in _TRUE
    raise ConfigError(f"{variable} is '{text}'", hint="use true or false")


def _parse_number(variable: str, text: str) -> float:
    return _converted(float, variable, text)


_Number = TypeVar("_Number", int, float)


def _converted(
    to: type[_Number], variable: str, text: str, *, hint: str = "use a number"
) -> _Number:
    try:
        return to(text)
    except ValueError:
        raise ConfigError(f"{variable} is '{text}'", hint=hint) from None
