"""Description of a subcommand."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass


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
