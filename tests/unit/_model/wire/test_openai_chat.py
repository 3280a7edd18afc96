"""Chunks of the OpenAI chat API are classified, and responses are read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from latspan._model.tokens import TokenSource, counted_by_provider
from latspan._model.wire import ChunkKind
from latspan._model.wire.openai_chat import OPENAI_CHAT


def _chunk(**delta: Any) -> Any:
    """Return an object with the shape of the SDK's chunk."""
    fields: dict[str, Any] = {
        "content": None,
        "refusal": None,
        "tool_calls": None,
        "function_call": None,
        "model_extra": {},
        **delta,
    }
    # The SDK's objects have unknown fields as attributes too.
    fields = {**(fields["model_extra"] or {}), **fields}
    return SimpleNamespace(choices=[SimpleNamespace(delta=SimpleNamespace(**fields))])


def _tool_call(arguments: str | None) -> list[Any]:
    return [SimpleNamespace(function=SimpleNamespace(name="search", arguments=arguments))]


@pytest.mark.parametrize(
    ("chunk", "kind"),
    [
        (_chunk(content="Hello"), ChunkKind.VISIBLE),
        (_chunk(content=" "), ChunkKind.VISIBLE),
        (_chunk(refusal="I cannot"), ChunkKind.VISIBLE),
        (_chunk(tool_calls=_tool_call('{"q":')), ChunkKind.VISIBLE),
        (_chunk(function_call=SimpleNamespace(arguments="{")), ChunkKind.VISIBLE),
        (_chunk(model_extra={"audio": {"data": "UklG"}}), ChunkKind.VISIBLE),
        (_chunk(model_extra={"reasoning_content": "so"}), ChunkKind.REASONING),
        (_chunk(model_extra={"reasoning": "so"}), ChunkKind.REASONING),
        (_chunk(content="", role="assistant"), ChunkKind.EMPTY),
        (_chunk(tool_calls=_tool_call("")), ChunkKind.EMPTY),
        (_chunk(tool_calls=[SimpleNamespace(function=None)]), ChunkKind.EMPTY),
        (_chunk(model_extra={"audio": {"id": "a"}}), ChunkKind.EMPTY),
        (_chunk(model_extra=None), ChunkKind.EMPTY),
        (SimpleNamespace(choices=[]), ChunkKind.EMPTY),
        (SimpleNamespace(choices=None), ChunkKind.EMPTY),
        (SimpleNamespace(), ChunkKind.EMPTY),
        (None, ChunkKind.EMPTY),
    ],
)
def test_the_kind_of_a_chunk(chunk: Any, kind: ChunkKind) -> None:
    """Text, reasoning, arguments, a refusal or audio are tokens; a role or a name is not."""
    assert OPENAI_CHAT.classify_chunk(chunk) == kind


def _said(**more: Any) -> Any:
    """Return a chunk of text with additional fields."""
    text = SimpleNamespace(finish_reason=None, delta=SimpleNamespace(content="Hello"))
    return SimpleNamespace(**{"usage": None, "model_extra": {}, "choices": [text], **more})


def _finish(reason: str | None) -> Any:
    return SimpleNamespace(finish_reason=reason, delta=SimpleNamespace(content="."))


@pytest.mark.parametrize(
    ("chunk", "only_text"),
    [
        (_said(), True),
        (_said(model_extra={"obfuscation": "x"}), True),
        (_said(choices=[_finish("")]), True),
        (_said(choices=[_finish("stop")]), False),
        (_said(choices=[_finish(None), _finish("length")]), False),
        (_said(choices=[]), False),
        (_said(choices=None), False),
        (b'data: {"choices":[]}', False),
        (SimpleNamespace(), False),
        (None, False),
    ],
)
def test_a_chunk_with_only_text_takes_the_fast_path(chunk: Any, *, only_text: bool) -> None:
    """OpenAI adds an unknown field to each chunk of text; it must not prevent the fast path."""
    assert OPENAI_CHAT.only_text is not None
    assert OPENAI_CHAT.only_text(chunk) == (ChunkKind.VISIBLE if only_text else ChunkKind.EMPTY)


def test_any_choice_may_contain_the_token() -> None:
    """With several choices, a chunk contains one, not always the first."""
    both = _chunk(role="assistant")
    both.choices.append(_chunk(content="x").choices[0])
    assert OPENAI_CHAT.classify_chunk(both) == ChunkKind.VISIBLE


def test_finish_reasons_are_read_per_choice() -> None:
    """In the order of the choices, whichever finished first."""
    bodies: tuple[dict[str, Any], ...] = (
        {"choices": [{"index": 1, "finish_reason": "length"}]},
        {"choices": [{"index": 0, "finish_reason": "stop"}]},
        {"choices": []},
        {},
    )
    assert OPENAI_CHAT.finish_reasons(bodies) == {0: "stop", 1: "length"}


ENDINGS: list[tuple[tuple[dict[str, Any], ...], bool]] = [
    (({"choices": [{"finish_reason": "stop"}]},), True),
    (({"choices": [], "usage": {"prompt_tokens": 1}},), True),
    # Some servers send usage in every chunk; that does not end the stream.
    (({"choices": [{"finish_reason": None}], "usage": {"prompt_tokens": 1}},), False),
    (({"choices": []}, {}), False),
    (({"choices": [{"finish_reason": ""}]},), False),
]


@pytest.mark.parametrize(("bodies", "ended"), ENDINGS)
def test_a_finish_reason_or_separate_usage_ends_a_stream(
    bodies: tuple[dict[str, Any], ...], ended: bool
) -> None:
    assert OPENAI_CHAT.is_finished(bodies) is ended


def test_the_last_usage_counts_and_a_missing_detail_is_not_zero() -> None:
    """Counts grow during a stream; a missing count is ``None``."""
    bodies = (
        {"usage": {"prompt_tokens": 5, "completion_tokens": 1}},
        {
            "usage": {
                "prompt_tokens": 5,
                "completion_tokens": 9,
                "completion_tokens_details": {"reasoning_tokens": 4},
                "prompt_tokens_details": None,
            }
        },
        {"usage": None},
    )
    tokens = counted_by_provider(OPENAI_CHAT.usage(bodies))
    assert (tokens.input, tokens.cached, tokens.output, tokens.reasoning) == (5, None, 9, 4)
    assert tokens.source is TokenSource.PROVIDER


def test_without_usage_the_token_source_is_unknown() -> None:
    assert counted_by_provider(OPENAI_CHAT.usage(({},))).source is TokenSource.UNKNOWN


@pytest.mark.parametrize(
    "choices",
    [[{"index": "zero", "finish_reason": "stop"}], [{"index": {}, "finish_reason": "stop"}, 7]],
)
def test_a_choice_without_a_valid_index_is_the_first(choices: list[Any]) -> None:
    """Other fields of the response are still read."""
    assert OPENAI_CHAT.finish_reasons([{"choices": choices}]) == {0: "stop"}


def test_choices_that_are_not_a_list_are_ignored() -> None:
    """A server may send anything."""
    assert OPENAI_CHAT.finish_reasons([{"choices": {"index": 0}}, {"choices": 5}]) == {}


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"content": None, "tool_calls": None, "reasoning": "hm"}, ChunkKind.REASONING),
        ({"content": None, "tool_calls": _tool_call("{")}, ChunkKind.VISIBLE),
        ({"content": None}, ChunkKind.EMPTY),
        ({"content": "Hi"}, ChunkKind.VISIBLE),
    ],
    ids=["reasoning", "tool call", "empty", "text"],
)
def test_classes_of_other_sdks_need_not_have_every_field(
    fields: dict[str, Any], kind: ChunkKind
) -> None:
    """Groq's classes have the shape of OpenAI's, without ``refusal`` and ``function_call``."""
    choice = SimpleNamespace(index=0, delta=SimpleNamespace(**fields), finish_reason=None)
    chunk = SimpleNamespace(choices=[choice])
    assert OPENAI_CHAT.classify_chunk(chunk) == kind


def test_groqs_usage_is_a_field_of_its_own() -> None:
    """In the last chunk of a stream."""
    body: dict[str, Any] = {
        "choices": [],
        "x_groq": {"usage": {"prompt_tokens": 3, "completion_tokens": 2}},
    }
    found = OPENAI_CHAT.usage([body])
    assert found is not None
    assert (found.input, found.output) == (3, 2)
