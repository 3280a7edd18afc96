"""
Prompts of a measurement: read from a file, or generated with mixed lengths.

The same seed gives the same prompts in the same order. A prompt set is described by fingerprints,
so that two recordings can be compared without their prompts, which are never recorded.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from latspan._base.shown import printable, without_repeats
from latspan.errors import ConfigError

_MAX_BYTES: Final = 1 << 30
_WORDS: Final = (
    "water", "stone", "light", "river", "market", "garden", "window", "letter", "winter", "summer",
    "bridge", "music", "paper", "silver", "morning", "evening", "engine", "harbour", "forest",
    "valley", "mountain", "island", "village", "station", "doctor", "teacher", "farmer", "painter",
    "captain", "child", "friend", "answer", "question", "story", "reason", "table", "number",
    "colour", "metal", "copper", "glass", "season", "journey", "signal", "weather", "compass",
)  # fmt: skip

LONG_EVERY: Final = 10
"""One generated prompt in this many is long."""

LONG_FACTOR: Final = 10
"""A long prompt has this many times the words of an ordinary one."""

_SPREAD: Final = 0.5
"""Standard deviation of the logarithm of a prompt's length."""

_MIN_WORDS: Final = 4
_TOKENS_PER_WORD: Final = 1.3
"""Tokens per English word, for prompts that imitate a recorded number of tokens."""

_MIN_REPEATED: Final = 16
"""Least length of a part of a prompt that is hidden in an error; less may be common words."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """
    Input of one request.

    Args:
        messages: Messages of a chat.
        id: Name in the file that it was read from; empty if it has none.
    """

    messages: tuple[Mapping[str, Any], ...]
    id: str = ""

    @property
    def text(self) -> str:
        """Text of the last message, for a callable that takes a text."""
        return _text_in(self.messages[-1])

    def hidden_in(self, text: str) -> str:
        """Return an error's text without the parts of the prompt that it repeats."""
        for message in self.messages:
            text = without_repeats(text, _text_in(message), min_length=_MIN_REPEATED)
        return text

    def beginning_with(self, text: str) -> Prompt:
        """Return the prompt with ``text`` in front of its first message."""
        first = self.messages[0]
        content: Any = first.get("content", "")
        if isinstance(content, str):
            content = f"{text}{content}"
        else:
            content = [{"type": "text", "text": text}, *content]
        return Prompt(({**first, "content": content}, *self.messages[1:]), self.id)


class PromptSet:
    """
    Prompts, and the order in which they are sent.

    Each pass over the prompts sends all of them once, in an order of its own.

    Args:
        prompts: At least one.
        seed: Seed of the order.
        source: Where they come from: ``file``, ``generated`` or ``recording``.
    """

    def __init__(self, prompts: Sequence[Prompt], *, seed: int, source: str) -> None:
        self.prompts: Final = tuple(prompts)
        self.source: Final = source
        self._seed = seed
        self._orders: dict[int, list[int]] = {}

    def number_of(self, index: int) -> int:
        """Return the number of the prompt of the request with that index."""
        passed, place = divmod(index, len(self.prompts))
        order = self._orders.get(passed)
        if order is None:
            order = list(range(len(self.prompts)))
            # A tuple would be hashed, and its hash differs between processes; a text is stable.
            random.Random(f"{self._seed} {passed}").shuffle(order)  # noqa: S311
            self._orders[passed] = order
        return order[place]

    def of(self, index: int) -> Prompt:
        """Return the prompt of the request with that index."""
        return self.prompts[self.number_of(index)]

    def conditions(self, count: int) -> dict[str, Any]:
        """
        Return the fingerprints of the prompts and of the order of the first ``count`` requests.

        They include the fraction of the text that is the same in all prompts.
        """
        return {
            "source": self.source,
            "count": len(self.prompts),
            "characters": sum(len(_plain(prompt)) for prompt in self.prompts),
            "shared": round(_shared(self.prompts), 4),
            "fingerprint": fingerprint(map(_plain, self.prompts)),
            "order": fingerprint(str(self.number_of(index)) for index in range(count)),
        }


def _shared(prompts: Sequence[Prompt]) -> float:
    """
    Return the fraction of the text that is the same in all prompts.

    For each message, the common beginning or the common end counts, whichever is longer: a template
    may have a time or a number before or after its stable text.
    """
    texts = [[_text_in(message) for message in prompt.messages] for prompt in prompts]
    total = sum(len(text) for each in texts for text in each)
    same = 0
    for position in range(min(map(len, texts))):
        begin, end = texts[0][position], texts[0][position][::-1]
        for each in texts:
            text = each[position]
            begin = _common(begin, text)
            end = _common(end, text[max(0, len(text) - len(end)) :][::-1])
        same += max(len(begin), len(end))
    return same * len(texts) / total if total else 0.0


def _common(begin: str, text: str) -> str:
    """Return the longest common beginning of two texts."""
    if text.startswith(begin):
        return begin
    pairs = enumerate(zip(begin, text, strict=False))
    return begin[: next((number for number, (a, b) in pairs if a != b), len(text))]


def _text_in(message: Mapping[str, Any]) -> str:
    content = message.get("content", "")
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)


def fingerprint(parts: Iterable[str]) -> str:
    """Return the SHA-256 of texts in sequence, as ``sha256:`` and 64 hexadecimal digits."""
    digest = hashlib.sha256()
    for part in parts:
        encoded = part.encode("utf-8", "surrogatepass")
        digest.update(b"%d:" % len(encoded))
        digest.update(encoded)
    return f"sha256:{digest.hexdigest()}"


def _plain(prompt: Prompt) -> str:
    return json.dumps(prompt.messages, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def read_prompts(file: str | os.PathLike[str], *, seed: int) -> PromptSet:
    """
    Return the prompts of a JSONL file: one object with ``prompt`` or ``messages`` per line.

    Raises:
        ConfigError: The file cannot be read, has no prompt, or a line is not a prompt.
    """
    path = Path(file)
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise ConfigError(f"{path} is larger than 1 GiB", hint="use fewer prompts")
        # Editors of Windows put a byte order mark first.
        text = path.read_text("utf-8-sig")
    except OSError as error:
        raise ConfigError(
            f"cannot read the prompts in {path}: {error.strerror}",
            hint='write a file with one {"prompt": "..."} per line, or omit --prompts to generate'
            " them",
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text", hint=_EXAMPLE) from error
    prompts = [
        _prompt_in(line, f"{path}, line {number}")
        for number, line in enumerate(text.split("\n"), 1)
        if line.strip()
    ]
    if not prompts:
        raise ConfigError(f"{path} contains no prompt", hint=_EXAMPLE)
    return PromptSet(prompts, seed=seed, source="file")


_EXAMPLE: Final = (
    'each line is a JSON object, for example {"prompt": "What is the tide?"} or'
    ' {"messages": [{"role": "user", "content": "What is the tide?"}]}'
)


def _prompt_in(line: str, where: str) -> Prompt:
    try:
        data: Any = json.loads(line)
    except (ValueError, RecursionError):
        raise ConfigError(f"{where} is not JSON", hint=_EXAMPLE) from None
    if not isinstance(data, dict):
        raise ConfigError(f"{where} is not a JSON object", hint=_EXAMPLE)
    fields = cast("dict[str, Any]", data)
    name = fields.get("id", "")
    if isinstance(fields.get("prompt"), str) and fields["prompt"]:
        return Prompt(({"role": "user", "content": fields["prompt"]},), str(name))
    messages: Any = fields.get("messages")
    if (
        isinstance(messages, list)
        and messages
        and all(map(_is_message, cast("list[Any]", messages)))
    ):
        return Prompt(tuple(cast("list[dict[str, Any]]", messages)), str(name))
    known = printable(", ".join(map(str, fields))) or "no field"
    raise ConfigError(f"{where} has neither 'prompt' nor 'messages', but {known}", hint=_EXAMPLE)


def _is_message(message: object) -> bool:
    return isinstance(message, dict) and "role" in message


def generated(count: int, *, seed: int, words: int = 100) -> PromptSet:
    """
    Return prompts of mixed lengths, all different from their first words on.

    Lengths are lognormal around ``words``, and one prompt in ten is ten times longer.

    Args:
        count: Number of prompts, at least 1.
        seed: Seed of the texts and of the order.
        words: Median number of words of an ordinary prompt, at least 1.
    """
    source = random.Random(f"{seed} lengths")  # noqa: S311 - the same in every run
    lengths = [
        words * source.lognormvariate(0, _SPREAD) * (LONG_FACTOR if _is_long(number) else 1)
        for number in range(count)
    ]
    return PromptSet(list(_written(lengths, seed)), seed=seed, source="generated")


def _is_long(number: int) -> bool:
    return number % LONG_EVERY == LONG_EVERY - 1


def prompts_like(input_tokens: Sequence[int], count: int, *, seed: int) -> PromptSet:
    """
    Return generated prompts with the lengths of recorded ones, drawn at random.

    Args:
        input_tokens: Input tokens of the recorded requests, at least one.
        count: Number of prompts.
        seed: Seed of the lengths, the texts and the order.
    """
    source = random.Random(f"{seed} lengths")  # noqa: S311 - the same in every run
    lengths = [source.choice(input_tokens) / _TOKENS_PER_WORD for _ in range(count)]
    return PromptSet(list(_written(lengths, seed)), seed=seed, source="recording")


def _written(lengths: Iterable[float], seed: int) -> Iterator[Prompt]:
    source = random.Random(f"{seed} words")  # noqa: S311 - the same in every run
    for number, length in enumerate(lengths):
        words = " ".join(source.choices(_WORDS, k=max(_MIN_WORDS, round(length))))
        text = f"{seed}-{number}: {words}. Continue these notes."
        yield Prompt(({"role": "user", "content": text},))
