"""
First line of a page of a write-up: the inference path, and a fingerprint of the text below it.

A page is replaced only if its text still has this fingerprint, so that no manual edit is lost.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import Final

_FIRST_LINE: Final = re.compile(
    r"<!-- latspan document (?P<name>.*) wrote this page, (?P<fingerprint>sha256:[0-9a-f]{16})\."
    r" A page that you edit is kept\. -->"
)


def marked(name: str, lines: Iterable[str]) -> str:
    """
    Return the text of a page with its first line.

    Args:
        name: Name of the inference path for ``latspan document``.
        lines: The other lines.
    """
    text = "".join(f"{line}\n" for line in lines)
    return (
        f"<!-- latspan document {name} wrote this page, {_fingerprint(text)}."
        f" A page that you edit is kept. -->\n{text}"
    )


def path_of(page: str) -> str | None:
    """Return the name of the inference path of a page; ``None`` if it has no first line."""
    found = _FIRST_LINE.fullmatch(page.partition("\n")[0])
    return None if found is None else found["name"]


def is_as_written(page: str) -> bool:
    """Return whether a page, with line ends as Python reads a text, is as latspan wrote it."""
    first, _, text = page.partition("\n")
    found = _FIRST_LINE.fullmatch(first)
    return found is not None and found["fingerprint"] == _fingerprint(text)


def _fingerprint(text: str) -> str:
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()[:16]}"
