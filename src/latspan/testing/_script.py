"""
Scripts: plans of a response, part by part, each part with its time.

A script is independent of clocks, sockets and clients. The scripted server and the scripted
transport can play the same script.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, TypeVar

from latspan._model.units import from_unit
from latspan.errors import UnknownNameError


class PayloadPart(StrEnum):
    """Kind of content of a part of a response."""

    HEADERS = "headers"
    ROLE = "role"
    """Names the role, or starts the message; not a token."""
    REASONING = "reasoning"
    TEXT = "text"
    TOOL_CALL = "tool_call"
    """Arguments of a tool call."""
    REFUSAL = "refusal"
    EMPTY = "empty"
    """Delta without content, a ping, or a progress event; not a token."""
    COMMENT = "comment"
    """Comment that keeps the connection alive; not an event."""
    FINISH = "finish"
    """Finish reason, or the event that ends the last content part."""
    USAGE = "usage"
    """Chunk without choices that has the token counts."""
    ERROR = "error"
    """Payload of an error inside a stream whose status was 200."""
    DONE = "done"
    """End mark: ``[DONE]``, ``response.completed``, ``message_stop`` or an equivalent."""
    BODY = "body"
    """Complete body of a response that does not stream."""
    END = "end"
    """End of a chunked body."""


TOKEN_PARTS: Final = frozenset(
    {PayloadPart.REASONING, PayloadPart.TEXT, PayloadPart.TOOL_CALL, PayloadPart.REFUSAL}
)
"""Kinds of content that consist of tokens: each chunk of such a kind holds at least one token."""

_Choice = TypeVar("_Choice", bound=StrEnum)

_ARGUMENTS: Final = '{"words": "'
_ARGUMENTS_END: Final = '"}'
_SCRIPTABLE: Final = TOKEN_PARTS | {PayloadPart.ROLE, PayloadPart.EMPTY, PayloadPart.COMMENT}


class ServerFlavor(StrEnum):
    """Server implementation whose behaviour is imitated."""

    LLAMA_CPP = "llama.cpp"
    """
    Sends the headers when it takes the request out of its queue, and ``timings`` on the last
    chunk: the one with the usage if that was requested, else the finish chunk.
    """
    PLAIN = "plain"
    """Sends the headers at once and reports no timings."""


class Ending(StrEnum):
    """How a response ends after its steps."""

    DONE = "done"
    """Finish chunk, usage if requested, end mark."""
    UNMARKED = "unmarked"
    """As ``DONE``, but the well-formed body ends without the end mark."""
    TRUNCATED = "truncated"
    """The well-formed body ends directly after the steps."""
    CUT = "cut"
    """The connection is closed directly after the steps, inside the body."""
    RESET = "reset"
    """The connection is reset directly after the steps."""
    ERROR = "error"
    """The payload of an error follows the steps, then the body ends."""


@dataclass(frozen=True, slots=True)
class ScriptStep:
    """
    One event of a stream.

    Args:
        piece: Kind of content: a kind with tokens, ``role``, ``empty`` or ``comment``.
        gap_ns: Nanoseconds after the previous step, at least 0. Steps without a gap between
            them are sent in one write, as a server sends role and first token.
        text: Text, arguments or comment.
        tokens: Number of tokens in it; several if a server merges them. 0 for a kind without
            tokens.

    Raises:
        ValueError: The kind cannot be scripted, the gap is negative, or the tokens do not fit.
    """

    piece: PayloadPart
    gap_ns: int = 0
    text: str = ""
    tokens: int = 0

    def __post_init__(self) -> None:
        if self.piece not in _SCRIPTABLE:
            raise ValueError(f"'{self.piece}' cannot be a step: the server adds it to the response")
        if self.gap_ns < 0:
            raise ValueError(f"a gap is at least 0 ns, not {self.gap_ns}")
        if (self.tokens > 0) is not (self.piece in TOKEN_PARTS):
            raise ValueError(f"a step of kind '{self.piece}' cannot hold {self.tokens} tokens")


@dataclass(frozen=True, slots=True)
class Script:
    """
    Plan of one response; every time is an integer number of nanoseconds, at least 0.

    Args:
        queue_ns: Wait before the server begins to work on the request.
        prefill_ns: From the end of the queue to the end of the prefill.
        steps: Steps written after the prefill. The gap of the first step begins at the end of the
            prefill; the gap of each further step begins at the previous step.
        lead: Steps written during the prefill: comments, empty deltas, a role that comes
            early. The gap of the first step begins at the end of the queue.
        finish_gap_ns: From the last step to the finish chunk.
        ending: End of the response after the steps.
        finish_reason: Reason that the response ends, as a value of chat completions; for other APIs
            it is translated. With ``error``, a response of OpenAI's Responses API fails.
        flavor: Server implementation to imitate.
        prompt_tokens: Tokens of the prompt, cached ones included.
        cached_tokens: Tokens of the prompt that were in the server's cache.
        cache_write_tokens: Tokens of the prompt that the server added to its cache.
        reports_usage: Whether OpenAI-style streams include token counts if requested.
        status: HTTP status; any but 200 is sent as a JSON error after queue and prefill, and
            takes no slot.
        retry_after_s: Seconds, sent as ``Retry-After``.
        error: Message of an error.
        unreachable: Whether the connection is refused; for the scripted transport only.
    """

    queue_ns: int = 0
    prefill_ns: int = 0
    steps: tuple[ScriptStep, ...] = ()
    lead: tuple[ScriptStep, ...] = ()
    finish_gap_ns: int = 0
    ending: Ending = Ending.DONE
    finish_reason: str = "stop"
    flavor: ServerFlavor = ServerFlavor.LLAMA_CPP
    prompt_tokens: int = 12
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    reports_usage: bool = True
    status: int = 200
    retry_after_s: float | None = None
    error: str = "scripted error"
    unreachable: bool = False

    def __post_init__(self) -> None:
        for name in ("queue_ns", "prefill_ns", "finish_gap_ns"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is at least 0, not {getattr(self, name)}")
        for cached in (self.cached_tokens, self.cache_write_tokens):
            if not 0 <= cached <= self.prompt_tokens:
                raise ValueError(f"{cached} of {self.prompt_tokens} prompt tokens cannot be cached")
        if self.cached_tokens + self.cache_write_tokens > self.prompt_tokens:
            raise ValueError("cached_tokens + cache_write_tokens exceed prompt_tokens")
        if any(step.tokens for step in self.lead):
            raise ValueError("a step of lead has tokens; they come after the prefill")

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
        flavor: ServerFlavor | str = ServerFlavor.LLAMA_CPP,
        ending: Ending | str = Ending.DONE,
        finish_reason: str | None = None,
        prompt_tokens: int = 12,
        cached_tokens: int = 0,
        cache_write_tokens: int = 0,
        reports_usage: bool = True,
    ) -> Script:
        """
        Return an ordinary chat response: a role, reasoning, text, tool-call arguments.

        Args:
            tokens: Tokens of visible text.
            queue_ms: Milliseconds in the queue.
            prefill_ms: Milliseconds from the end of the queue to the first token.
            gap_ms: Milliseconds from one chunk with tokens to the next.
            reasoning_tokens: Tokens of reasoning, before the text.
            tool_call_tokens: Tokens of the arguments (JSON) of one tool call, after the text.
            tokens_per_chunk: Number of tokens that the server merges into one chunk, at least 1.
            stalls_ms: Mapping from the number of a chunk to a delay in milliseconds, which is added
                to the chunk's gap. Only chunks with tokens are counted, from 0.
            role_ms: Time at which the role is sent, in milliseconds since the end of the queue;
                ``None`` sends it together with the first token.
            flavor: Server implementation to imitate.
            ending: End of the response after the last token.
            finish_reason: Finish reason; ``None`` means ``tool_calls`` if the response has tool
                calls, otherwise ``stop``.
            prompt_tokens: Tokens of the prompt, cached ones included.
            cached_tokens: Tokens of the prompt that were in the server's cache.
            cache_write_tokens: Tokens of the prompt that the server added to its cache.
            reports_usage: Whether OpenAI-style streams include token counts if requested.

        Raises:
            UnknownNameError: There is no such flavor or ending.
            ValueError: A number is out of its range.
        """
        for name, milliseconds in (
            ("queue_ms", queue_ms),
            ("prefill_ms", prefill_ms),
            ("gap_ms", gap_ms),
            ("role_ms", role_ms),
        ):
            if milliseconds is not None and milliseconds < 0:
                raise ValueError(f"{name} is at least 0, not {milliseconds:g}")
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
        role = ScriptStep(PayloadPart.ROLE)
        lead: tuple[ScriptStep, ...] = ()
        if role_ms is not None:
            lead = (replace(role, gap_ns=_ns(role_ms)),)
        elif steps:
            # The role shares the first token's write, so it takes over that token's gap.
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
            ending=_chosen(Ending, ending, "ending"),
            finish_reason=finish_reason or ("tool_calls" if tool_call_tokens else "stop"),
            flavor=_chosen(ServerFlavor, flavor, "flavor"),
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
        Return a response that is an HTTP error, such as 429, 500 or 503.

        Args:
            status: 400 to 599.
            retry_after_s: Seconds, sent as ``Retry-After``.
            after_ms: Milliseconds until the response.
            error: The message.

        Raises:
            ValueError: ``status`` is not an error status.
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

    @property
    def tokens(self) -> int:
        """Number of tokens in the steps, reasoning included."""
        return sum(step.tokens for step in self.steps)


def total_ns(script: Script) -> int:
    """Return the nanoseconds from acceptance to the response's end, without a wait for a slot."""
    steps_ns = sum(step.gap_ns for step in script.steps)
    return script.queue_ns + script.prefill_ns + steps_ns + script.finish_gap_ns


def _chosen(choices: type[_Choice], name: str, argument: str) -> _Choice:
    try:
        return choices(name)
    except ValueError:
        hint = f"one of {', '.join(choices)}"
        raise UnknownNameError(f"no {argument} '{name}'", hint=hint) from None


def _ns(milliseconds: float) -> int:
    return from_unit(milliseconds, "ms")


def _chunks(piece: PayloadPart, tokens: int, per_chunk: int) -> list[ScriptStep]:
    steps: list[ScriptStep] = []
    for first in range(0, tokens, per_chunk):
        last = min(first + per_chunk, tokens)
        text = "".join(f"{piece}{token} " for token in range(first, last))
        if piece is PayloadPart.TOOL_CALL:
            # Client libraries parse arguments, some of them while they arrive.
            text = f"{'' if first else _ARGUMENTS}{text}{_ARGUMENTS_END if last == tokens else ''}"
        steps.append(ScriptStep(piece, text=text, tokens=last - first))
    return steps
