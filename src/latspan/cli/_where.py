"""The option ``--where``, which selects by attributes."""

from __future__ import annotations

import argparse

from latspan.cli._argument_types import name_and_value

__all__ = ["add_where"]


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
