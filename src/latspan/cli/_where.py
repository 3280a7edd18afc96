"""The options ``--where``, which selects by attributes, and ``--by``, which divides by one."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from latspan._base.shown import printable
from latspan.cli._argument_types import name_and_value
from latspan.errors import ConfigError


def add_where(parser: argparse.ArgumentParser, text: str) -> None:
    """
    Add the option ``--where NAME=VALUE``, whose value is a list of names and values.

    Args:
        parser: Parser of a command.
        text: What the command selects with the option, for ``--help``.
    """
    parser.add_argument(
        "--where",
        action="append",
        default=[],
        type=name_and_value,
        metavar="NAME=VALUE",
        help=f"{text}; can be repeated",
    )


def add_by(parser: argparse.ArgumentParser, verb: str) -> None:
    """
    Add the option ``--by NAME``.

    Args:
        parser: Parser of a command.
        verb: What the command does with the requests of each value, for ``--help``.
    """
    parser.add_argument(
        "--by",
        metavar="NAME",
        help=f"also {verb} the requests of each value of this attribute, for example route, model"
        " or tenant; the 10 values with the most requests are shown",
    )


def selected(given: Iterable[tuple[str, str]], route: str | None = None) -> dict[str, str]:
    """
    Return the value of each attribute that ``--where`` and ``--route`` name.

    Args:
        given: Names and values of ``--where``, as they were given.
        route: Value of ``--route``, ``None`` without one.

    Raises:
        ConfigError: An attribute has two values, which no request has.
    """
    where: dict[str, str] = {}
    for name, value in (*given, *([] if route is None else [("route", route)])):
        if where.setdefault(name, value) != value:
            raise ConfigError(
                f"no request has {printable(name)}={printable(where[name])} and"
                f" {printable(name)}={printable(value)}",
                hint=f"select one value, or divide the requests with --by {printable(name)}",
            )
    return where
