"""Concurrent chats with a real model through the OpenAI SDK's synchronous client."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

import openai

from latspan._base.clock import SystemClock
from latspan.testing import RequestRecord

MS: Final = 1_000_000
SLACK_MS: Final = 5.0
"""Maximum time by which latspan shortens a report that is slightly too long: this, or 1 %."""


class MonotonicClock(SystemClock):
    """The machine's clock, with monotonic time in place of calendar time."""

    __slots__ = ()

    def epoch_offset_ns(self) -> int:
        """Return 0, so that a record uses the same time axis as a server's log."""
        return 0


@dataclass(frozen=True, slots=True)
class Chat:
    """
    One chat as the application saw it.

    Args:
        identity: Id of the response.
        text: Text of the response.
        chunks: Number of chunks that contained text.
        duration_ms: Time from the call to the end of the stream.
    """

    identity: str
    text: str
    chunks: int
    duration_ms: float


def ask(
    base_url: str, prompts: Sequence[str], *, model: str, at_once: int = 1, tokens: int = 16
) -> list[Chat]:
    """
    Stream a response to each prompt, and return the chats in the order of the prompts.

    Args:
        base_url: Base URL of the client.
        prompts: One prompt per chat.
        model: Name of the model at the server.
        at_once: Number of concurrent chats.
        tokens: Exact length of each response; without it, a small model may return no text.
    """
    with (
        openai.OpenAI(
            base_url=base_url,
            api_key="none",
            max_retries=0,
            # llama.cpp announces keep-alive, but closes the connection after every stream.
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
    """Return the total time of a record's segments with those names; 0 if there are none."""
    return sum(each.duration_ns for each in record.segments if each.name in segments) / MS


def source_of(record: RequestRecord, segment: str) -> str | None:
    """Return the source of a segment's time, ``None`` if there is no such segment."""
    sources = {total.name: total.source.value for total in record.segment_totals}
    return sources.get(segment)


def most_cut_ms(record: RequestRecord) -> float:
    """
    Return the maximum part of a fitting report that does not appear in the record.

    The server may have started during the client's `send`, which keeps its measured time. Time in
    which the client held the stream because it had no processor is its own time, even if the server
    worked meanwhile.
    """
    slack_ms = max(SLACK_MS, record.duration_ns / MS / 100)
    return slack_ms + duration_ms(record, "send", "consumer")
