"""Description of a subcommand, and an argument that several subcommands have."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Command", "attribute_argument"]


@dataclass(frozen=True, slots=True)
class Command:
    """
    One subcommand of ``latspan``.

    Args:
        name: Name that the user types after ``latspan``.
        summary: One line for the list of commands.
        description: What the subcommand does and prints, for its own help.
        examples: Command lines, each with its purpose.
        add_arguments: Adds its options to a parser.
        run: Runs it; returns the exit code.
    """

    name: str
    summary: str
    description: str
    examples: tuple[tuple[str, str], ...]
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


def attribute_argument(text: str) -> tuple[str, str]:
    """
    Return the name and the value of an argument ``NAME=VALUE``.

    Raises:
        ArgumentTypeError: The argument has another form.
    """
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME=VALUE")
    return name, value
