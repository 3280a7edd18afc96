"""
Scripts: the plan of one answer, piece by piece, with a time to each.

A script knows no clock, no socket and no client; the scripted server and the scripted transport
play the same one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any, Final

from latspan._units import from_unit

__all__ = ["Ending", "PayloadPart", "Script", "ServerFlavor", "Step"]


class PayloadPart(StrEnum):
    """What a written piece of an answer holds."""

    HEADERS = "headers"
    ROLE = "role"
    """What names the role, or starts the message; no token."""
    REASONING = "reasoning"
    TEXT = "text"
    TOOL_CALL = "tool_call"
    """Arguments of a tool call."""
    REFUSAL = "refusal"
    EMPTY = "empty"
    """A delta with nothing in it, a ping, a word of progress; no token."""
    COMMENT = "comment"
    """A comment that keeps the connection alive; no event at all."""
    FINISH = "finish"
    """Why the content ends, or what ends its last part."""
    USAGE = "usage"
    """A chunk without choices that counts the tokens."""
    ERROR = "error"
    """An error's payload inside a stream whose status was 200."""
    DONE = "done"
    """The end mark: ``[DONE]``, ``response.completed`` or its like, ``message_stop``."""
    BODY = "body"
    """The whole body of an answer that does not stream."""
    END = "end"
    """The end of a chunked body."""

    @property
    def bears_token(self) -> bool:
        """Whether a chunk of this kind holds at least one token."""
        return self in _TOKENS


_TOKENS: Final = frozenset(
    {PayloadPart.REASONING, PayloadPart.TEXT, PayloadPart.TOOL_CALL, PayloadPart.REFUSAL}
)
_ARGUMENTS: Final = '{"words": "'
_ARGUMENTS_END: Final = '"}'
_SCRIPTABLE: Final = _TOKENS | {PayloadPart.ROLE, PayloadPart.EMPTY, PayloadPart.COMMENT}


class ServerFlavor(StrEnum):
    """Whose habits the server has."""

    LLAMA_CPP = "llama.cpp"
    """
    Sends the headers when it takes the request out of its queue, and ``timings`` on the last
    chunk: the one with the usage if that was asked for, else the finish chunk.
    """
    PLAIN = "plain"
    """Sends the headers at once and says nothing of its own time."""


class Ending(StrEnum):
    """How an answer ends after its steps."""

    DONE = "done"
    """Finish chunk, usage if asked for, end mark."""
    UNMARKED = "unmarked"
    """As ``DONE``, but the body ends well-formed without the end mark."""
    TRUNCATED = "truncated"
    """The body ends well-formed straight after the steps."""
    CUT = "cut"
    """The connection is closed straight after the steps, inside the body."""
    RESET = "reset"
    """The connection is reset straight after the steps."""
    ERROR = "error"
    """An error's payload after the steps, then the body ends."""


@dataclass(frozen=True, slots=True)
class Step:
    """
    One event of a stream.

    Args:
        piece: What it holds; one of the kinds a script may write.
        gap_ns: Nanoseconds after the step before it, at least 0. Steps without a gap between
            them leave in one write, as a server sends role and first token.
        text: The text, arguments or comment that it holds.
        tokens: Tokens in it; several where a server merges them. 0 unless it bears tokens.

    Raises:
        ValueError: A kind that a script cannot write, a negative gap, or tokens that do not fit.
    """

    piece: PayloadPart
    gap_ns: int = 0
    text: str = ""
    tokens: int = 0

    def __post_init__(self) -> None:
        if self.piece not in _SCRIPTABLE:
            raise ValueError(f"the answer itself writes '{self.piece}', a script cannot")
        if self.gap_ns < 0:
            raise ValueError(f"a gap is at least 0 ns, not {self.gap_ns}")
        if (self.tokens > 0) is not self.piece.bears_token:
            raise ValueError(f"a step of kind '{self.piece}' cannot hold {self.tokens} tokens")


@dataclass(frozen=True, slots=True)
class Script:
    """
    The plan of one answer; every time is an integer of nanoseconds, at least 0.

    Args:
        queue_ns: Wait before the server begins to work on the request.
        prefill_ns: From then to the first of ``steps``.
        steps: What is written from the end of the prefill on. The first one's gap counts from
            there, each other's from the step before.
        lead: What is written during the prefill: comments, empty deltas, a role that comes
            early. The first one's gap counts from the end of the queue.
        finish_gap_ns: From the last step to the finish chunk.
        ending: What comes after the steps.
        finish_reason: Why the answer ends, in the words of chat completions; other APIs say it
            in their own. With ``error`` a response of OpenAI's fails.
        dialect: Whose habits the server has.
        prompt_tokens: Tokens of the prompt, cached ones included.
        cached_tokens: Tokens of the prompt that the server had in its cache.
        cache_write_tokens: Tokens of the prompt that the server added to its cache.
        reports_usage: Whether OpenAI-style streams count their tokens when asked to.
        status: The HTTP status; any but 200 is answered with a JSON error after queue and
            prefill, and takes no slot.
        retry_after_s: Seconds, sent as ``Retry-After``.
        error: The message of an error.
        unreachable: The connection itself is refused; for the scripted transport only.
    """

    queue_ns: int = 0
    prefill_ns: int = 0
    steps: tuple[Step, ...] = ()
    lead: tuple[Step, ...] = ()
    finish_gap_ns: int = 0
    ending: Ending = Ending.DONE
    finish_reason: str = "stop"
    dialect: ServerFlavor = ServerFlavor.LLAMA_CPP
    prompt_tokens: int = 12
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    reports_usage: bool = True
    status: int = 200
    retry_after_s: float | None = None
    error: str = "the script says so"
    unreachable: bool = False

    def __post_init__(self) -> None:
        for name in ("queue_ns", "prefill_ns", "finish_gap_ns"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is at least 0, not {getattr(self, name)}")
        for cached in (self.cached_tokens, self.cache_write_tokens):
            if not 0 <= cached <= self.prompt_tokens:
                raise ValueError(f"{cached} of {self.prompt_tokens} prompt tokens cannot be cached")
        if self.cached_tokens + self.cache_write_tokens > self.prompt_tokens:
            raise ValueError("what was in the cache is not written to it")
        if any(step.tokens for step in self.lead):
            raise ValueError("no token comes before the end of the prefill")

    @classmethod
    def chat(
        cls,
        *,
        tokens: int = 20,
        queue_ms: float = 0,
        prefill_ms: float = 30,
        gap_ms: float = 10,
        reasoning_tokens: int = 0,
        tool_call_tokens: int = 0,
        tokens_per_chunk: int = 1,
        stalls_ms: Mapping[int, float] | None = None,
        role_ms: float | None = None,
        dialect: ServerFlavor | str = ServerFlavor.LLAMA_CPP,
        ending: Ending | str = Ending.DONE,
        finish_reason: str | None = None,
        prompt_tokens: int = 12,
        cached_tokens: int = 0,
        cache_write_tokens: int = 0,
        reports_usage: bool = True,
    ) -> Script:
        """
        Return an ordinary chat answer: a role, reasoning, text, tool-call arguments.

        Args:
            tokens: Tokens of visible text.
            queue_ms: Milliseconds in the queue.
            prefill_ms: Milliseconds from the end of the queue to the first token.
            gap_ms: Milliseconds from one chunk with tokens to the next.
            reasoning_tokens: Tokens of reasoning, before the text.
            tool_call_tokens: Tokens of arguments of one tool call, after the text; JSON.
            tokens_per_chunk: How many tokens the server merges into one chunk, at least 1.
            stalls_ms: Milliseconds by which the chunk of that number comes later than its gap
                says; chunks with tokens are counted from 0.
            role_ms: When the role comes, in milliseconds since the end of the queue;
                ``None``: together with the first token.
            dialect: Whose habits the server has.
            ending: What comes after the last token.
            finish_reason: ``None``: ``tool_calls`` if there are any, else ``stop``.
            prompt_tokens: Tokens of the prompt, cached ones included.
            cached_tokens: Tokens of the prompt that the server had in its cache.
            cache_write_tokens: Tokens of the prompt that the server added to its cache.
            reports_usage: Whether OpenAI-style streams count their tokens when asked to.

        Raises:
            ValueError: A number out of its range.
        """
        if tokens_per_chunk < 1:
            raise ValueError(f"a chunk holds at least 1 token, not {tokens_per_chunk}")
        plan = [
            *_chunks(PayloadPart.REASONING, reasoning_tokens, tokens_per_chunk),
            *_chunks(PayloadPart.TEXT, tokens, tokens_per_chunk),
            *_chunks(PayloadPart.TOOL_CALL, tool_call_tokens, tokens_per_chunk),
        ]
        stalls = stalls_ms or {}
        steps = [
            replace(step, gap_ns=_ns(stalls.get(at, 0) + (gap_ms if at else 0)))
            for at, step in enumerate(plan)
        ]
        role = Step(PayloadPart.ROLE)
        lead: tuple[Step, ...] = ()
        if role_ms is not None:
            lead = (replace(role, gap_ns=_ns(role_ms)),)
        elif steps:
            # The role shares the first token's write, so it takes over its gap.
            steps = [
                replace(role, gap_ns=steps[0].gap_ns),
                replace(steps[0], gap_ns=0),
                *steps[1:],
            ]
        else:
            steps = [role]
        return cls(
            queue_ns=_ns(queue_ms),
            prefill_ns=_ns(prefill_ms),
            steps=tuple(steps),
            lead=lead,
            ending=Ending(ending),
            finish_reason=finish_reason or ("tool_calls" if tool_call_tokens else "stop"),
            dialect=ServerFlavor(dialect),
            prompt_tokens=prompt_tokens,
            cached_tokens=cached_tokens,
            cache_write_tokens=cache_write_tokens,
            reports_usage=reports_usage,
        )

    @classmethod
    def refused(
        cls,
        status: int = 429,
        *,
        retry_after_s: float | None = None,
        after_ms: float = 0,
        error: str = "too many requests",
    ) -> Script:
        """
        Return an answer that is an HTTP error, such as 429, 500 or 503.

        Args:
            status: 400 to 599.
            retry_after_s: Seconds, sent as ``Retry-After``.
            after_ms: Milliseconds until the answer.
            error: The message.

        Raises:
            ValueError: ``status`` is no error.
        """
        if not 400 <= status <= 599:
            raise ValueError(f"an error's status is 400 to 599, not {status}")
        return cls(
            prefill_ns=_ns(after_ms), status=status, retry_after_s=retry_after_s, error=error
        )

    @classmethod
    def unreachable_server(cls) -> Script:
        """Return the plan of a server that refuses the connection (scripted transport only)."""
        return cls(unreachable=True)

    def slower(self, factor: float) -> Script:
        """
        Return this plan with every time multiplied.

        Args:
            factor: At least 0; below 1 the answer is faster.
        """
        return replace(
            self,
            queue_ns=round(self.queue_ns * factor),
            prefill_ns=round(self.prefill_ns * factor),
            steps=_slower(self.steps, factor),
            lead=_slower(self.lead, factor),
            finish_gap_ns=round(self.finish_gap_ns * factor),
        )

    @property
    def tokens(self) -> int:
        """Tokens that the steps hold, reasoning included."""
        return sum(step.tokens for step in self.steps)

    @property
    def total_ns(self) -> int:
        """Nanoseconds from acceptance to the end of the answer, if no slot is waited for."""
        steps_ns = sum(step.gap_ns for step in self.steps)
        return self.queue_ns + self.prefill_ns + steps_ns + self.finish_gap_ns

    def to_json(self) -> dict[str, Any]:
        """Return the plan as what ``json.dumps`` takes."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Script:
        """Return the plan that :meth:`to_json` wrote."""
        fields: dict[str, Any] = {
            **data,
            "steps": _steps_from_json(data["steps"]),
            "lead": _steps_from_json(data["lead"]),
            "ending": Ending(data["ending"]),
            "dialect": ServerFlavor(data["dialect"]),
        }
        return cls(**fields)


def _ns(milliseconds: float) -> int:
    return from_unit(milliseconds, "ms")


def _chunks(piece: PayloadPart, tokens: int, per_chunk: int) -> list[Step]:
    steps: list[Step] = []
    for first in range(0, tokens, per_chunk):
        last = min(first + per_chunk, tokens)
        text = "".join(f"{piece}{token} " for token in range(first, last))
        if piece is PayloadPart.TOOL_CALL:
            # Client libraries parse arguments, some while they come.
            text = f"{'' if first else _ARGUMENTS}{text}{_ARGUMENTS_END if last == tokens else ''}"
        steps.append(Step(piece, text=text, tokens=last - first))
    return steps


def _slower(steps: Sequence[Step], factor: float) -> tuple[Step, ...]:
    return tuple(replace(step, gap_ns=round(step.gap_ns * factor)) for step in steps)


def _steps_from_json(data: Sequence[Mapping[str, Any]]) -> tuple[Step, ...]:
    return tuple(
        Step(PayloadPart(step["piece"]), step["gap_ns"], step["text"], step["tokens"])
        for step in data
    )
