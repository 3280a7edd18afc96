#!/usr/bin/env python3
"""
Check the English of the documentation and the code against a short list of words.

``language.py check`` counts the words below in prose: Markdown without code, and in Python files
everything that is not a name. It fails if a part of the repository has more of them than its limit,
and prints where they are. ``language.py show`` prints them all.

The limit of the code is the number that it still has. Lower it with every rewritten module.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

WORDS: Final = {
    "said": "software does not speak: returned, set, reported",
    "tell": "software does not speak: return, report, record",
    "tells": "software does not speak: returns, reports, records",
    "told": "software does not speak: given, reported, configured",
    "hear": "software does not listen: receive, note",
    "hears": "software does not listen: receives, notes",
    "heard": "software does not listen: received, noted",
    "nobody": "name the actor: no caller, no server, no reader",
    "somebody": "name the actor: the caller, the application, another thread",
    "whoever": "name the actor: the caller, the application, another thread",
    "beneath": "plain prepositions: under, inside, below",
}
"""Words to avoid, each with what to write instead."""

LIMITS: Final = {("README.md", "docs"): 5, ("src", "integrations"): 0}
"""Most of these words in each part of the repository."""

_WORD: Final = re.compile(rf"\b(?:{'|'.join(WORDS)})\b", re.IGNORECASE)
_FENCE: Final = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_CODE: Final = re.compile(r"`[^`\n]*`")


@dataclass(frozen=True, slots=True)
class Found:
    """
    A word that should be another one.

    Args:
        path: The file.
        line: Line number, from 1.
        word: The word, in lower case.
    """

    path: str
    line: int
    word: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: '{self.word}': {WORDS[self.word]}"


def found_in(path: str, text: str) -> Iterator[Found]:
    """Yield the words in the prose of a file."""
    if path.endswith(".md"):
        text = _CODE.sub(_blank, _FENCE.sub(_blank, text))
    for number, line in enumerate(text.splitlines(), 1):
        for match in _WORD.finditer(line):
            yield Found(path, number, match[0].lower())


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match[0])


def files(parts: tuple[str, ...]) -> Iterator[Path]:
    """Yield the Markdown and Python files of a part of the repository that git tracks."""
    listed = subprocess.run(
        ["git", "ls-files", "--", *parts],  # noqa: S607 - as the Makefile does
        capture_output=True,
        text=True,
        check=True,
    )
    for name in listed.stdout.splitlines():
        path = Path(name)
        if path.suffix in {".md", ".py"} and path.exists():
            yield path


def main(arguments: list[str]) -> int:
    """Count the words, and return 1 if a part has more than its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("do", choices=("check", "show"))
    options = parser.parse_args(arguments)
    status = 0
    for parts, limit in LIMITS.items():
        found = [
            each for path in files(parts) for each in found_in(str(path), path.read_text("utf-8"))
        ]
        if options.do == "show" or len(found) > limit:
            sys.stdout.writelines(f"{each}\n" for each in found)
        if len(found) > limit:
            sys.stdout.write(
                f"{', '.join(parts)}: {len(found)} words to avoid, at most {limit} are allowed\n"
            )
            status = 1
    return status if options.do == "check" else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
