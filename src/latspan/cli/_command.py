"""Description of a subcommand, and arguments that several subcommands have."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Command", "attribute_argument", "positive_number", "positive_numbers"]


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


def positive_number(text: str) -> float:
    """
    Return an argument that is a finite number above 0.

    Raises:
        ArgumentTypeError: The argument is not one.
    """
    try:
        number = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number") from None
    if not (math.isfinite(number) and number > 0):
        raise argparse.ArgumentTypeError(f"more than 0, not {text}")
    return number


def positive_numbers(text: str) -> list[float]:
    """
    Return an argument ``N,N,...`` of numbers above 0.

    Raises:
        ArgumentTypeError: A part is not one.
    """
    return [positive_number(part) for part in text.split(",")]
