"""
Random sample of lines, chosen without parsing them.

A line begins with its kind, and has its duration as one of the first fields, as
:func:`~latspan._model.recording.folder._lines.line_of` writes them. A quotation mark inside a text
of JSON is escaped, so the name of a field with its quotation marks cannot occur in a text.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Final

_KIND: Final = b'{"kind":"'
_DURATION: Final = b'"duration_ns":'


def kind_of_line(line: bytes) -> str:
    """Return the kind of a line."""
    return line[len(_KIND) : line.find(b'"', len(_KIND))].decode("utf-8", "replace")


def duration_of_line(line: bytes) -> int:
    """Return the duration of a line in nanoseconds; 0 if it has none."""
    begin = line.find(_DURATION)
    if begin < 0:
        return 0
    begin += len(_DURATION)
    digits = line[begin : line.find(b",", begin)]
    return int(digits) if digits.isdigit() else 0


class LineSample:
    """
    Random sample of bounded size, always the same one, with the line of the longest duration.

    Args:
        size: Maximum number of lines, apart from the longest.

    Source: Vitter, Random sampling with a reservoir (1985), algorithm R.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._random = Random(0)  # noqa: S311 - a sample
        self._seen = 0
        self._chosen: list[tuple[int, int, bytes]] = []
        self.longest_ns = -1
        """Longest duration of a line so far; -1 without a line."""
        self._longest: tuple[int, int, bytes] | None = None

    def add(self, file: int, line: bytes, duration_ns: int) -> None:
        """
        Add a line, perhaps in place of another one.

        Args:
            file: Number of its file.
            line: The line.
            duration_ns: Its duration.
        """
        item = self._seen, file, line
        self._seen += 1
        if duration_ns > self.longest_ns:
            self.longest_ns, self._longest = duration_ns, item
        if len(self._chosen) < self._size:
            self._chosen.append(item)
        elif (position := int(self._random.random() * self._seen)) < self._size:
            self._chosen[position] = item

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield the file and the line of each, in the order in which they were added."""
        items = {item[0]: item for item in self._chosen}
        if self._longest is not None:
            items[self._longest[0]] = self._longest
        for number in sorted(items):
            yield items[number][1:]
