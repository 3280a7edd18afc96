"""What is kept of a stream's chunks."""

from __future__ import annotations

from latspan._request._tail import Tail


def _of(chunks: str) -> Tail:
    """Return the tail of a stream whose capital letters bear a token."""
    tail = Tail()
    for chunk in chunks:
        if chunk.isupper():
            tail.latest = chunk
        else:
            tail.add(chunk)
    return tail


def _kept(chunks: str) -> str:
    return "".join(_of(chunks).chunks())


def test_of_tokens_in_a_row_the_latest_alone_is_kept() -> None:
    """A chunk that the client may free leaves its memory to the next."""
    assert _kept("") == ""
    assert _kept("A") == "A"
    assert _kept("ABC") == "C"


def test_what_comes_behind_the_last_token_is_kept_with_it() -> None:
    """It may bear the finish reason itself; three are kept at most."""
    assert _kept("rABCf") == "Cf"
    assert _kept("ABCfu") == "Cfu"
    assert _kept("ABCfut") == "fut"


def test_chunks_without_tokens_are_kept_as_they_come() -> None:
    """The last three, as of any stream whose chunks nobody can read."""
    assert [_kept("abcd"[:count]) for count in range(5)] == ["", "a", "ab", "abc", "bcd"]


def test_a_copy_is_not_added_to() -> None:
    """Who goes on reading goes on adding."""
    tail = _of("Af")
    copy = tail.copy()
    tail.add("u")
    assert copy.chunks() == ("A", "f")
    assert tail.chunks() == ("A", "f", "u")


def test_what_says_nothing_is_let_go_from_the_front_but_never_the_latest() -> None:
    """What stands behind a chunk that says something is few."""
    tail = _of("Afu")
    tail.prune(str.islower)
    assert tail.chunks() == ("f", "u")
    tail.prune(str.isupper)
    assert tail.chunks() == ("u",)
    tail.clear()
    assert tail.chunks() == ()
