#!/usr/bin/env python3
"""
Check the English of the documentation and the code against a short list of words.

``language.py check`` counts the words below in prose: Markdown without code, and the comments and
strings of Python files. It fails if there are more than the limit, and prints where they are.
``language.py show`` prints them all.
"""

from __future__ import annotations

import argparse
import io
import re
import subprocess
import sys
import tokenize
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

PARTS: Final = ("README.md", "docs", "src", "integrations")
LIMIT: Final = 25
"""Maximum number of these words in all parts of the repository together."""

_WORD: Final = re.compile(rf"\b(?:{'|'.join(WORDS)})\b", re.IGNORECASE)
_FENCE: Final = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_CODE: Final = re.compile(r"`+[^`\n]*`+")


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
    for first, prose in _prose_of_python(text) if path.endswith(".py") else [(1, _markdown(text))]:
        for number, line in enumerate(prose.splitlines(), first):
            for match in _WORD.finditer(line):
                yield Found(path, number, match[0].lower())


def _markdown(text: str) -> str:
    return _CODE.sub(_blank, _FENCE.sub(_blank, text))


def _prose_of_python(text: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in {tokenize.COMMENT, tokenize.STRING}:
            yield token.start[0], _CODE.sub(_blank, token.string)


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match[0])


def files() -> Iterator[Path]:
    """Yield the Markdown and Python files with prose that git tracks."""
    listed = subprocess.run(  # noqa: S603 - the arguments are in this file
        ["git", "ls-files", "--", *PARTS],  # noqa: S607 - as the Makefile does
        capture_output=True,
        text=True,
        check=True,
    )
    for name in listed.stdout.splitlines():
        path = Path(name)
        if path.suffix in {".md", ".py"} and path.exists():
            yield path


def main(arguments: list[str]) -> int:
    """Count the words, and return 1 if there are more than the limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("do", choices=("check", "show"))
    options = parser.parse_args(arguments)
    found = [each for path in files() for each in found_in(str(path), path.read_text("utf-8"))]
    is_over = len(found) > LIMIT
    if options.do == "show" or is_over:
        sys.stdout.writelines(f"{each}\n" for each in found)
        sys.stdout.write(f"{len(found)} words to avoid; at most {LIMIT} are allowed\n")
    return int(is_over and options.do == "check")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
