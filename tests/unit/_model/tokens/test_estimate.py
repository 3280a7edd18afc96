"""Token estimates of a call's text, with an encoding in which each byte is one token."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latspan._model.tokens import Estimator, TokenCounts, TokenSource
from latspan._model.wire import Content
from support.encodings import BYTES

ESTIMATOR = Estimator({"o200k_base": BYTES})

FRAMING = 3
PER_MESSAGE = 4


def _text(text: str) -> Any:
    return {"role": "user", "parts": [{"type": "text", "content": text}]}


def test_a_chat_counts_its_texts_and_their_framing() -> None:
    """Instructions count as a message too."""
    content = Content(
        system=({"type": "text", "content": "brief"},),
        input=(_text("hello"),),
        output=(_text("hi"), _text("hey")),
    )

    assert ESTIMATOR.counts(content, model="gpt-4o") == TokenCounts(
        input=FRAMING + PER_MESSAGE + 5 + PER_MESSAGE + 5,
        output=5,
        source=TokenSource.ESTIMATED,
    )


def test_a_completion_has_no_framing() -> None:
    """Its prompt is the plain text."""
    content = Content(input=(_text("hello"),), is_chat=False)

    assert ESTIMATOR.counts(content, model=None).input == 5


def test_reasoning_and_tool_calls_are_output() -> None:
    """Reasoning is also counted separately."""
    parts = [
        {"type": "reasoning", "content": "hm"},
        {"type": "text", "content": "yes"},
        {"type": "tool_call", "id": "c", "name": "find", "arguments": "{}"},
    ]
    counts = ESTIMATOR.counts(Content(output=({"parts": parts},)), model=None)

    assert (counts.output, counts.reasoning) == (2 + 3 + 4 + 2, 2)


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url"},
        {"type": "tool_call_response", "id": "c", "response": [{"type": "image"}]},
    ],
)
def test_a_prompt_with_an_image_has_no_count(part: Any) -> None:
    """An incomplete count is not reported; the response still has one."""
    content = Content(input=({"role": "user", "parts": [part]},), output=(_text("hi"),))
    counts = ESTIMATOR.counts(content, model=None)

    assert (counts.input, counts.output) == (None, 2)


def test_tool_results_and_definitions_are_counted() -> None:
    """They are part of the prompt like any text."""
    answer = {"type": "tool_call_response", "id": "c", "response": "found"}
    messages = ({"role": "tool", "parts": [answer]},)
    bare = ESTIMATOR.counts(Content(input=messages), model=None).input
    tools = ESTIMATOR.counts(Content(input=messages, tools=({"name": "x"},)), model=None).input

    assert bare == FRAMING + PER_MESSAGE + 5
    assert tools == bare + len('{"name": "x"}')


def test_an_unreadable_prompt_has_no_count() -> None:
    """The provider may store it under an ID."""
    assert ESTIMATOR.counts(Content(output=(_text("hi"),)), model=None).input is None


@given(st.text(max_size=40), st.integers(min_value=0, max_value=1200))
def test_long_texts_are_counted_in_slices(text: str, times: int) -> None:
    """No text is lost between slices."""
    content = Content(output=(_text(text * times),))

    assert ESTIMATOR.counts(content, model=None).output == len(
        (text * times).encode("utf-8", "surrogatepass")
    )


@pytest.mark.parametrize(
    ("model", "encoding"),
    [
        ("gpt-4o-mini", "o200k_base"),
        ("gpt-4", "cl100k_base"),
        ("claude-sonnet-4", "o200k_base"),
        ("text-davinci-003", "o200k_base"),
        (None, "o200k_base"),
    ],
)
def test_the_models_own_encoding_is_used_and_otherwise_the_latest(
    model: str | None, encoding: str
) -> None:
    """The latest encoding is used for unknown models."""
    seen: list[str] = []

    class Named:
        def __init__(self, name: str) -> None:
            self.name = name

        def encode_ordinary(self, text: str) -> list[int]:
            seen.append(self.name)
            return [0] * len(text)

    estimator = Estimator({name: Named(name) for name in ("o200k_base", "cl100k_base")})
    estimator.counts(Content(output=(_text("hi"),)), model=model)

    assert set(seen) == {encoding}
