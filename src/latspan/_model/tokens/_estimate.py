"""Local token counts: the text of a call, counted in the encoding of its model."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from latspan._model.tokens._counts import TokenCounts, TokenSource
from latspan._model.tokens._encodings import Encoding
from latspan._model.wire import Content, FragmentKind, Message, Part

_LATEST: Final = "o200k_base"
"""Encoding for a model whose encoding is not known."""

_TOKENS_PER_MESSAGE: Final = 4
_TOKENS_BEFORE_RESPONSE: Final = 3
"""
Tokens that frame a chat: those around each message, and those before the response.

Source: OpenAI Cookbook, "How to count tokens with tiktoken", section 6.
"""

_SLICE: Final = 16_384
"""
Number of characters encoded at once.

tiktoken overflows its stack on a run of a million blanks, and takes seconds on such a run of any
other character. A cut in the middle of a word adds one token to about 4,000.
"""


@dataclass(frozen=True, slots=True)
class Estimator:
    """
    Token counter for calls without a provider's count.

    Args:
        encodings: Encodings by name; at least one.
    """

    encodings: Mapping[str, Encoding]

    def counts(self, content: Content, *, model: str | None) -> TokenCounts:
        """
        Return the token counts of ``content``.

        The prompt's count is ``None`` if the prompt contains anything other than text, for example
        an image.

        Args:
            content: Input and output of a call.
            model: Model whose encoding is used.
        """
        encoding = self._encoding_of(model)
        return TokenCounts(
            input=_asked(encoding, content),
            output=_count_output(encoding, content.output, None),
            reasoning=_count_output(encoding, content.output, FragmentKind.REASONING) or None,
            source=TokenSource.ESTIMATED,
        )

    def _encoding_of(self, model: str | None) -> Encoding:
        from tiktoken.model import encoding_name_for_model

        try:
            name = _LATEST if model is None else encoding_name_for_model(model)
        except KeyError:
            name = _LATEST
        fallback = self.encodings.get(_LATEST) or next(iter(self.encodings.values()))
        return self.encodings.get(name, fallback)


def _asked(encoding: Encoding, content: Content) -> int | None:
    if not content.input:
        # The API stores the conversation on its side, or the request could not be parsed.
        return None
    messages = [*content.input, *([{"parts": content.system}] if content.system else ())]
    parts = [_tokens(encoding, part) for message in messages for part in _parts(message)]
    counted = [count for count in parts if count is not None]
    if len(counted) < len(parts):
        return None
    framing = (
        _TOKENS_PER_MESSAGE * len(messages) + _TOKENS_BEFORE_RESPONSE if content.is_chat else 0
    )
    tools = sum(_length(encoding, json.dumps(each)) for each in content.tools)
    return sum(counted) + framing + tools


def _count_output(
    encoding: Encoding, messages: Iterable[Message], kind: FragmentKind | None
) -> int:
    return sum(
        _tokens(encoding, part) or 0
        for message in messages
        for part in _parts(message)
        if kind is None or part["type"] == kind
    )


def _parts(message: Message) -> Sequence[Part]:
    return cast("Sequence[Part]", message["parts"])


_WORDS: Final = frozenset({FragmentKind.TEXT, FragmentKind.REASONING})


def _tokens(encoding: Encoding, part: Part) -> int | None:
    """Return the number of tokens in a part, ``None`` if it is not text."""
    if part["type"] in _WORDS:
        return _length(encoding, part["content"])
    if part["type"] == FragmentKind.TOOL_CALL:
        return _length(encoding, part["name"]) + _length(encoding, _as_text(part["arguments"]))
    if "response" not in part:
        return None
    response: Any = part["response"]
    if not isinstance(response, list):
        return _length(encoding, _as_text(response))
    counts = [_tokens(encoding, each) for each in cast("list[Part]", response)]
    return None if None in counts else sum(count or 0 for count in counts)


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _length(encoding: Encoding, text: str) -> int:
    return sum(
        len(encoding.encode_ordinary(text[start : start + _SLICE]))
        for start in range(0, len(text), _SLICE)
    )
