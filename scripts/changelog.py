#!/usr/bin/env python3
"""
Check the changelog's fragments, which ``towncrier build`` collects into the section of a release.

A fragment is a file ``<id>.<added|changed|deprecated|removed|fixed>.md``, where the id is the
number of the issue or a short name. Each line is one sentence for a person who upgrades.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

KINDS: Final = ("added", "changed", "deprecated", "removed", "fixed")
NAME: Final = re.compile(rf"[a-z0-9][a-z0-9-]*\.({'|'.join(KINDS)})\.md")
TEMPLATE: Final = "_template.md"
SENTENCE: Final = re.compile(r"[A-Z`].*[.!]")
# A full stop, a space and a capital: the line holds a second sentence. "e.g. Tempo" is worth
# rewording anyway.
SECOND_SENTENCE: Final = re.compile(r"[.!?] +[A-Z]")


def problems(folder: Path) -> Iterator[str]:
    """Yield the problems of the fragments in ``folder``, one line each."""
    for fragment in sorted(path for path in folder.iterdir() if path.name[0] != "."):
        if fragment.name == TEMPLATE:
            continue
        if not NAME.fullmatch(fragment.name):
            yield f"{fragment}: the name must be <id>.<{'|'.join(KINDS)}>.md"
            continue
        lines = fragment.read_text(encoding="utf-8").splitlines()
        if not lines:
            yield f"{fragment}: it is empty"
        for number, line in enumerate(lines, start=1):
            if not SENTENCE.fullmatch(line) or SECOND_SENTENCE.search(line):
                yield f"{fragment}:{number}: a line must be one sentence"


def main() -> int:
    """Print the problems, and return the exit status."""
    fragments = Path(__file__).resolve().parent.parent / "docs" / "changelog.d"
    parser = argparse.ArgumentParser(description="Check the changelog's fragments")
    parser.add_argument("--folder", type=Path, default=fragments, help="the folder of fragments")
    found = list(problems(parser.parse_args().folder))
    for problem in found:
        sys.stderr.write(f"{problem}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
