#!/usr/bin/env python3
"""
Check the changelog's fragments, and collect them into a release.

``changelog.py check`` says what is wrong with ``docs/changelog.d``;
``changelog.py collect VERSION`` moves its sentences into ``docs/changelog.md``.

A fragment is a file ``<id>.<added|changed|deprecated|removed|fixed>.md``, where the id is the
number of the issue or a short name, and every line of it is one sentence for a person upgrading.
"""

from __future__ import annotations

import argparse
import datetime as dt
import re
import sys
from pathlib import Path

KINDS = ("added", "changed", "deprecated", "removed", "fixed")
NAME = re.compile(rf"[a-z0-9][a-z0-9-]*\.({'|'.join(KINDS)})\.md")
SENTENCE = re.compile(r"[A-Z`].*[.!]")
# A full stop, a space and a capital: the line holds a second sentence. "e.g. Tempo" is worth
# rewording anyway.
SECOND_SENTENCE = re.compile(r"[.!?] +[A-Z]")
VERSION = re.compile(r"\d+\.\d+\.\d+((a|b|rc)\d+)?")
INSERT_BELOW = "<!-- releases -->"


def fragments(folder: Path) -> list[Path]:
    """Return the fragments in ``folder`` in the order of their names."""
    return sorted(path for path in folder.iterdir() if not path.name.startswith("."))


def sentences(fragment: Path) -> list[str]:
    """Return the lines of a fragment."""
    return fragment.read_text(encoding="utf-8").splitlines()


def problems(folder: Path) -> list[str]:
    """Return what is wrong with the fragments in ``folder``, one line each."""
    found: list[str] = []
    for fragment in fragments(folder):
        if not NAME.fullmatch(fragment.name):
            found.append(f"{fragment}: the name must be <id>.<{'|'.join(KINDS)}>.md")
            continue
        if not (lines := sentences(fragment)):
            found.append(f"{fragment}: it is empty")
        for number, line in enumerate(lines, start=1):
            if not SENTENCE.fullmatch(line) or SECOND_SENTENCE.search(line):
                found.append(f"{fragment}:{number}: a line must be one sentence")
    return found


def release(folder: Path, version: str, date: str) -> str:
    """Return the section of a release, made of the fragments in ``folder``."""
    lines = [f"## {version} ({date})", ""]
    for kind in KINDS:
        of_kind = [path for path in fragments(folder) if path.name.endswith(f".{kind}.md")]
        if of_kind:
            items = [f"- {sentence}" for path in of_kind for sentence in sentences(path)]
            lines += [f"### {kind.capitalize()}", "", *items, ""]
    return "\n".join(lines)


def check(folder: Path) -> int:
    """Print what is wrong, and return the exit status."""
    found = problems(folder)
    for problem in found:
        sys.stderr.write(f"{problem}\n")
    return 1 if found else 0


def collect(folder: Path, changelog: Path, version: str) -> int:
    """Move the fragments into the changelog, and return the exit status."""
    if not VERSION.fullmatch(version):
        sys.stderr.write(f"no version of the form 1.2.3: '{version}'\n")
        return 2
    if check(folder):
        return 1
    if not fragments(folder):
        sys.stderr.write(f"there is nothing to collect in {folder}\n")
        return 1
    before, mark, after = changelog.read_text(encoding="utf-8").partition(INSERT_BELOW)
    if not mark:
        sys.stderr.write(f"{changelog} has no line {INSERT_BELOW}\n")
        return 1
    today = dt.datetime.now(tz=dt.UTC).date().isoformat()
    section = release(folder, version, today)
    changelog.write_text(f"{before}{mark}\n\n{section}{after}", encoding="utf-8")
    for fragment in fragments(folder):
        fragment.unlink()
    return 0


def main() -> int:
    """Do what the command line says, and return the exit status."""
    docs = Path(__file__).resolve().parent.parent / "docs"
    parser = argparse.ArgumentParser(description="Check or collect the changelog's fragments")
    parser.add_argument("--docs", type=Path, default=docs, help="the documentation's folder")
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("check", help="say what is wrong with the fragments")
    collecting = verbs.add_parser("collect", help="move the fragments into changelog.md")
    collecting.add_argument("version", metavar="VERSION")
    arguments = parser.parse_args()
    folder: Path = arguments.docs / "changelog.d"
    if arguments.verb == "check":
        return check(folder)
    return collect(folder, arguments.docs / "changelog.md", arguments.version)


if __name__ == "__main__":
    sys.exit(main())
