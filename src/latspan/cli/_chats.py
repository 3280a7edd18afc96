"""
Chats of the demo, and runs of its agent: the same in every run of the command.

A chat is a short question; every tenth has a long prompt. A run of the agent is a chat that plans,
two tools and a chat that answers; the first tool of every fourth run is slow. All prompts differ in
their first words, so that no prefix cache hides the cost of processing a prompt.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from threading import Event
from typing import Final, Protocol

from latspan.errors import MissingExtraError

MODEL: Final = "smollm2-135m"

OUTPUT_TOKENS: Final = 16
"""Maximum number of tokens of a response."""

LONG_EVERY: Final = 10
"""One chat in this many has a long prompt, which a slow core processes in about 7 s."""

SLOW_EVERY: Final = 4
"""One run of the agent in this many searches what is not cached."""

_FIRST_LONG: Final = 3
_SEARCH_S: Final = 0.06
_SLOW_SEARCH_S: Final = 1.5
_CALCULATION_S: Final = 0.02
_LONG_WORDS: Final = 950
_TIMEOUT_S: Final = 120.0

_TOPICS: Final = (
    "the tides", "glass", "bees", "printing", "salt", "copper", "maps", "sourdough", "lighthouses",
    "clocks", "paper", "bridges", "snow", "tea", "kites", "owls", "harbours", "violins",
)  # fmt: skip

_WORDS: Final = (
    "water", "stone", "light", "river", "market", "garden", "window", "letter", "winter", "summer",
    "bridge", "music", "paper", "silver", "morning", "evening", "engine", "harbour", "forest",
    "valley", "mountain", "island", "village", "station", "doctor", "teacher", "farmer", "painter",
    "captain", "child", "friend", "answer", "question", "story", "reason",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Chat:
    """
    One question to the model.

    Args:
        prompt: Text of the user's message.
        long: Whether the prompt has about 1,000 tokens instead of about 40.
    """

    prompt: str
    long: bool

    def run(self, ask: Callable[[Chat], None]) -> None:
        """Ask the model once."""
        ask(self)


@dataclass(frozen=True, slots=True)
class AgentRun:
    """
    One run of an agent: a model call, the tools ``search`` and ``calculate``, and a second call.

    Args:
        plan: Chat that decides which tools to run.
        answer: Chat that answers from their results.
        slow: Whether the search takes 1.5 s, instead of 60 ms.
    """

    plan: Chat
    answer: Chat
    slow: bool

    def run(self, ask: Callable[[Chat], None]) -> None:
        """Run the agent as one request; the model is asked with ``ask``."""
        import latspan

        with latspan.request("agent"):
            ask(self.plan)
            with latspan.tool("search"):
                time.sleep(_SLOW_SEARCH_S if self.slow else _SEARCH_S)
            with latspan.tool("calculate"):
                time.sleep(_CALCULATION_S)
            ask(self.answer)


class ModelServer(Protocol):
    """A running model server."""

    @property
    def base_url(self) -> str:
        """Address for an OpenAI client's ``base_url``."""
        ...


def chats(number: int) -> tuple[Chat, ...]:
    """Return the first ``number`` chats of the demo."""
    return tuple(_chat(index) for index in range(number))


def agent_runs(number: int) -> tuple[AgentRun, ...]:
    """Return the first ``number`` runs of the demo's agent."""
    return tuple(
        AgentRun(
            _short(2 * index), _short(2 * index + 1), slow=index % SLOW_EVERY == SLOW_EVERY - 1
        )
        for index in range(number)
    )


def send(
    work: Sequence[Chat | AgentRun],
    server: AbstractContextManager[ModelServer],
    *,
    concurrency: int,
    headers: Callable[[Chat], dict[str, str]],
    started: Callable[[], None],
    advance: Callable[[], None],
) -> list[Exception]:
    """
    Start the server, do the work, read every response to its end, and stop the server.

    Args:
        work: Chats or runs of the agent, in the order in which they begin.
        server: Model server; always stopped before this returns or raises.
        concurrency: Maximum number of them in flight, at least 1.
        headers: Returns the headers to add to a chat's request.
        started: Called once, when the server is ready and before the first chat.
        advance: Called after each of them, on the caller's thread.

    Returns:
        Errors of those that failed.

    Raises:
        MissingExtraError: The package ``openai`` is not installed.
    """
    try:
        import openai
    except ModuleNotFoundError as error:
        raise MissingExtraError("openai", extra="demo") from error

    stopping = Event()
    failures: list[Exception] = []

    # Exited in reverse: once the server has stopped no read can block, so the threads end at once.
    with ExitStack() as last, ThreadPoolExecutor(concurrency) as pool, server as served:
        started()
        client = last.enter_context(
            openai.OpenAI(
                base_url=served.base_url,
                api_key="latspan-demo",
                max_retries=0,
                timeout=_TIMEOUT_S,
                # No proxy, whatever the environment sets: the server is on this machine.
                http_client=openai.DefaultHttpxClient(trust_env=False),
            )
        )

        def ask(chat: Chat) -> None:
            stream = client.chat.completions.create(
                model=MODEL,
                messages=[{"role": "user", "content": chat.prompt}],
                max_tokens=OUTPUT_TOKENS,
                temperature=0,
                stream=True,
                stream_options={"include_usage": True},
                extra_headers=headers(chat),
            )
            with stream:
                for _ in stream:
                    if stopping.is_set():
                        return

        try:
            for future in as_completed([pool.submit(each.run, ask) for each in work]):
                error = future.exception()
                if isinstance(error, Exception):
                    failures.append(error)
                advance()
        except BaseException:
            stopping.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return failures


def _chat(index: int) -> Chat:
    # The same words in every run; nothing here is secret.
    words = random.Random(index)  # noqa: S311
    if index % LONG_EVERY == _FIRST_LONG:
        notes = " ".join(words.choice(_WORDS) for _ in range(_LONG_WORDS))
        return Chat(f"{index}: {notes}. Sum up these notes in one sentence.", long=True)
    return _short(index)


def _short(index: int) -> Chat:
    topic = _TOPICS[index % len(_TOPICS)]
    return Chat(f"{index}: what should I know about {topic}? One sentence, please.", long=False)
