"""What is kept of an answer beside its text."""

from __future__ import annotations

from latspan._operations._last_chunks import LastChunks


def _of(parts: str, *, choices: int = 1) -> LastChunks:
    tail = LastChunks(choices)
    for part in parts:
        tail.add(part)
    return tail


def test_the_first_part_and_the_last_three_are_kept() -> None:
    """The first names the model; finish reason, usage and timings may come in three."""
    kept = ["".join(_of("abcdef"[:count]).parts()) for count in range(7)]
    assert kept == ["", "a", "ab", "abc", "abcd", "acde", "adef"]


def test_each_choice_has_room_for_its_end() -> None:
    """Of three answers at once the last parts are two more."""
    assert "".join(_of("abcdefgh", choices=3).parts()) == "adefgh"


def test_a_copy_is_not_added_to() -> None:
    """A caller that goes on reading goes on adding."""
    tail = _of("af")
    copy = tail.copy()
    tail.add("u")
    assert copy.parts() == ("a", "f")
    assert tail.parts() == ("a", "f", "u")
    tail.clear()
    assert tail.parts() == ()
