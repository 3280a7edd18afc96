"""The options ``--where``, which selects by attributes, and ``--by``, which divides by one."""

from __future__ import annotations

import argparse

from latspan.cli._argument_types import name_and_value

__all__ = ["add_by", "add_where"]


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
