"""Which chunk bears a token, and what a finished answer says."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from latspan._tokens import TokenSource, counted_by_provider
from latspan._wire import ChunkKind
from latspan._wire.openai_chat import OPENAI_CHAT


def _chunk(**delta: Any) -> Any:
    """Return an object of the shape of the SDK's chunk."""
    fields: dict[str, Any] = {
        "content": None,
        "refusal": None,
        "tool_calls": None,
        "function_call": None,
        "model_extra": {},
        **delta,
    }
    # The SDK's objects give their unknown fields as attributes too.
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
def test_what_a_chunk_bears(chunk: Any, kind: ChunkKind) -> None:
    """Text, reasoning, arguments, a refusal or audio; a role, a name or nothing is no token."""
    assert OPENAI_CHAT.kind_of(chunk) == kind


def _said(**more: Any) -> Any:
    """Return a chunk of text that says ``more``."""
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
def test_a_chunk_of_text_alone_needs_no_closer_look(chunk: Any, *, only_text: bool) -> None:
    """OpenAI adds an unknown field to each chunk of text, so that one is no reason to look."""
    assert OPENAI_CHAT.only_text is not None
    assert OPENAI_CHAT.only_text(chunk) == (ChunkKind.VISIBLE if only_text else ChunkKind.EMPTY)


def test_any_choice_may_bear_the_token() -> None:
    """Of several choices at once a chunk holds one, not always the first."""
    both = _chunk(role="assistant")
    both.choices.append(_chunk(content="x").choices[0])
    assert OPENAI_CHAT.kind_of(both) == ChunkKind.VISIBLE


def test_finish_reasons_are_by_choice() -> None:
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
    # Some servers count in every chunk; that is no end.
    (({"choices": [{"finish_reason": None}], "usage": {"prompt_tokens": 1}},), False),
    (({"choices": []}, {}), False),
    (({"choices": [{"finish_reason": ""}]},), False),
]


@pytest.mark.parametrize(("bodies", "ended"), ENDINGS)
def test_what_ends_a_stream(bodies: tuple[dict[str, Any], ...], ended: bool) -> None:
    """A finish reason, or usage in a chunk of its own."""
    assert OPENAI_CHAT.ended(bodies) is ended


def test_usage_is_the_last_one_and_a_missing_detail_is_not_zero() -> None:
    """Counts grow while a stream runs; what nobody said is ``None``."""
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


def test_without_usage_nobody_counted() -> None:
    """No number, and it says so."""
    assert counted_by_provider(OPENAI_CHAT.usage(({},))).source is TokenSource.UNKNOWN


@pytest.mark.parametrize(
    "choices",
    [[{"index": "zero", "finish_reason": "stop"}], [{"index": {}, "finish_reason": "stop"}, 7]],
)
def test_a_choice_without_a_number_is_the_first(choices: list[Any]) -> None:
    """What is wrong with it costs no other field of the answer."""
    assert OPENAI_CHAT.finish_reasons([{"choices": choices}]) == {0: "stop"}


def test_choices_that_are_no_list_have_no_reasons() -> None:
    """A server may send anything."""
    assert OPENAI_CHAT.finish_reasons([{"choices": {"index": 0}}, {"choices": 5}]) == {}
