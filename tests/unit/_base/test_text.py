"""Any value is converted to text that every exporter can encode."""

from __future__ import annotations

from enum import Enum, StrEnum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latspan._base.text import MAX_NAME_LENGTH, text_of, texts_of


class Plain(Enum):
    """An enum whose members are not strings."""

    RED = "red"


class Mixed(str, Enum):  # noqa: UP042 - its `str` is not its text
    """An enum of strings whose ``str`` is not the value."""

    RED = "red"


class Text(StrEnum):
    """An enum of strings whose ``str`` is the value."""

    RED = "red"


class Mute:
    """An object whose ``str`` raises."""

    def __str__(self) -> str:
        raise RuntimeError("not a word")


def test_short_ascii_is_not_copied() -> None:
    """Nearly every name is short ASCII."""
    name = "chat gpt-4o"

    assert text_of(name) is name


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a\ud800b", "a?b"),
        ("naïve 🙂", "naïve 🙂"),
        ("m" * 300, "m" * 256),
        ("é" * 300, "é" * 256),
        (5, "5"),
        (None, "None"),
        (Plain.RED, "Plain.RED"),
        (Mixed.RED, "red"),
        (Text.RED, "red"),
        (b"\xffred", "\ufffdred"),
        (bytearray(b"red"), "red"),
        (Mute(), "<Mute>"),
        pytest.param(1 << 20_000, "<int>", id="more digits than Python writes"),
        ([["a"]], "[['a']]"),
    ],
)
def test_a_value_becomes_valid_text(value: object, text: str) -> None:
    """A lone surrogate is replaced, long text is cut, and other values are converted."""
    assert text_of(value) == text
    assert type(text_of(value)) is str
    assert texts_of({"name": value}) == {"name": text}
    assert type(texts_of({"name": value})["name"]) is str


@given(st.text(st.characters(codec=None, categories=None)), st.integers(1, 20))
def test_any_text_is_encodable_and_short(value: str, longest: int) -> None:
    """Each invalid character is replaced by one character."""
    text = text_of(value, longest)

    text.encode()
    assert len(text) == min(len(value), longest)
    assert len(text_of(value)) <= MAX_NAME_LENGTH
