"""Chats with a real model, several at once, by the OpenAI SDK's synchronous client."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

import openai

from latspan._clock import SystemClock
from latspan._recording import RequestRecord

__all__ = [
    "SLACK_MS",
    "Chat",
    "MonotonicClock",
    "ask",
    "duration_ms",
    "most_cut_ms",
    "source_of",
]

MS: Final = 1_000_000
SLACK_MS: Final = 5.0
"""By how much latspan cuts a report that does not fit by a little: so much, or 1 % of the time."""


class MonotonicClock(SystemClock):
    """The machine's clock, on which a record's calendar time is its monotonic instant."""

    __slots__ = ()

    def epoch_offset_ns(self) -> int:
        """Return nothing to add, so that a record lies on the same axis as a server's log."""
        return 0


@dataclass(frozen=True, slots=True)
class Chat:
    """
    What the application saw of one chat.

    Args:
        identity: The answer's own id.
        text: What was said.
        chunks: How many chunks held text.
        duration_ms: From the call to the end of the stream.
    """

    identity: str
    text: str
    chunks: int
    duration_ms: float


def ask(
    base_url: str, prompts: Sequence[str], *, model: str, at_once: int = 1, tokens: int = 16
) -> list[Chat]:
    """
    Stream an answer to each prompt, and return them in the order of the prompts.

    Args:
        base_url: What the client takes.
        prompts: One chat each.
        model: As the server calls it.
        at_once: How many clients there are.
        tokens: How long each answer is, exactly: a small model may have nothing to say.
    """
    with (
        openai.OpenAI(
            base_url=base_url,
            api_key="none",
            max_retries=0,
            # llama.cpp promises to keep a connection alive, but closes it after every stream.
            default_headers={"Connection": "close"},
        ) as client,
        ThreadPoolExecutor(at_once) as threads,
    ):

        def one(prompt: str) -> Chat:
            return _ask(client, prompt, model=model, tokens=tokens)

        return list(threads.map(one, prompts))


def _ask(client: openai.OpenAI, prompt: str, *, model: str, tokens: int) -> Chat:
    began_ns = time.perf_counter_ns()
    identity, said = "", list[str]()
    stream: Any = client.chat.completions.create(
        model=model,
        messages=[{"role": "user", "content": prompt}],
        max_tokens=tokens,
        temperature=0,
        stream=True,
        stream_options={"include_usage": True},
        extra_body={"ignore_eos": True},
    )
    for chunk in stream:
        identity = chunk.id
        said += [choice.delta.content for choice in chunk.choices if choice.delta.content]
    return Chat(identity, "".join(said), len(said), (time.perf_counter_ns() - began_ns) / MS)


def duration_ms(record: RequestRecord, *segments: str) -> float:
    """Return all time of a record under those segments' names; 0 where there is none."""
    return sum(each.duration_ns for each in record.segments if each.name in segments) / MS


def source_of(record: RequestRecord, segment: str) -> str | None:
    """Return how a segment's time is known, ``None`` where there is no such segment."""
    sources = {total.name: total.source.value for total in record.segment_totals}
    return sources.get(segment)


def most_cut_ms(record: RequestRecord) -> float:
    """
    Return how much of a report has no room in a record, at most, though it fits.

    The server may have begun inside the client's `send`, which stays as measured; and what the
    client held while it got no processor is its own time, whatever the server did meanwhile.
    """
    slack_ms = max(SLACK_MS, record.duration_ns / MS / 100)
    return slack_ms + duration_ms(record, "send", "consumer")
