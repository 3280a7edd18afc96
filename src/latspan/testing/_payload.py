"""
Payloads: the JSON of an OpenAI-style chat answer, whole and in chunks.

Shapes are those that llama.cpp's server and the OpenAI API send; the timings that llama.cpp
reports are computed from what was written down, not from the plan.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final, cast

from latspan.testing._http import HttpRequest
from latspan.testing._script import Dialect, Piece, Script, Step
from latspan.testing._served import Ledger
from latspan.units import in_unit

__all__ = ["ChatRequest", "InvalidRequestError", "Payloads", "error_payload", "read_chat"]

_TEXT_FIELDS: Final = {
    Piece.TEXT: "content",
    Piece.REASONING: "reasoning_content",
    Piece.REFUSAL: "refusal",
}
_CALL_ID: Final = "call_0"
_CALL_NAME: Final = "look_up"


class InvalidRequestError(ValueError):
    """
    The request is answered with a JSON error at once.

    Args:
        status: The HTTP status.
        message: What is wrong.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """
    What a chat request asks for, as far as an answer depends on it.

    Args:
        model: The name to answer under.
        stream: Whether the answer comes in chunks.
        include_usage: Whether the stream's tokens are to be counted.
    """

    model: str
    stream: bool
    include_usage: bool


def read_chat(request: HttpRequest) -> ChatRequest:
    """
    Return what ``request`` asks for.

    Raises:
        InvalidRequestError: 404 for another path, 405 for another method, 400 for a body that is
            no chat request.
    """
    if request.path != "/v1/chat/completions":
        raise InvalidRequestError(404, f"nothing at {request.path}")
    if request.method != "POST":
        raise InvalidRequestError(405, f"{request.path} takes POST, not {request.method}")
    try:
        body = json.loads(request.body)
    except ValueError as error:
        raise InvalidRequestError(400, f"the body is no JSON: {error}") from error
    if not isinstance(body, dict) or "messages" not in body:
        raise InvalidRequestError(400, "'messages' is required")
    asked = cast("dict[str, Any]", body)
    options = cast("dict[str, Any]", asked.get("stream_options") or {})
    return ChatRequest(
        model=str(asked.get("model", "scripted")),
        stream=bool(asked.get("stream", False)),
        include_usage=bool(options.get("include_usage", False)),
    )


def error_payload(status: int, message: str) -> dict[str, Any]:
    """Return the JSON of an error."""
    kind = "invalid_request_error" if status in range(400, 500) else "server_error"
    return {"error": {"code": status, "message": message, "type": kind}}


class Payloads:
    """
    Every payload of one answer.

    Args:
        script: The plan.
        request: What was asked for.
        number: Number of the answer, from 0; its id is made of it.
        created_s: Unix time, in seconds, that every payload carries.
    """

    __slots__ = ("_first_call", "_request", "_script", "_stamp")

    def __init__(
        self, script: Script, request: ChatRequest, *, number: int, created_s: int
    ) -> None:
        self._script = script
        self._request = request
        self._stamp = {"id": f"chatcmpl-{number}", "created": created_s, "model": request.model}
        self._first_call = next((s for s in script.steps if s.piece is Piece.TOOL_CALL), None)

    def step(self, step: Step) -> dict[str, Any]:
        """Return the chunk that holds ``step``."""
        return self._chunk([_choice(self._delta(step))])

    def finish(self, ledger: Ledger) -> dict[str, Any]:
        """Return the chunk that says why the answer ends."""
        chunk = self._chunk([_choice({}, self._script.finish_reason)])
        return chunk if self.counts_usage else chunk | self._timings(ledger)

    def usage(self, ledger: Ledger) -> dict[str, Any]:
        """Return the chunk without choices that counts the tokens."""
        return self._chunk([]) | self._usage() | self._timings(ledger)

    def completion(self, ledger: Ledger) -> dict[str, Any]:
        """Return the whole answer."""
        choice = {
            "index": 0,
            "message": self._message(),
            "finish_reason": self._script.finish_reason,
        }
        whole = {**self._stamp, "object": "chat.completion", "choices": [choice]}
        return whole | self._usage() | self._timings(ledger)

    @property
    def counts_usage(self) -> bool:
        """Whether the stream ends with a chunk that counts the tokens."""
        return self._request.include_usage and self._script.reports_usage

    def _chunk(self, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {**self._stamp, "object": "chat.completion.chunk", "choices": choices}

    def _delta(self, step: Step) -> dict[str, Any]:
        if step.piece in _TEXT_FIELDS:
            return {_TEXT_FIELDS[step.piece]: step.text}
        if step.piece is Piece.TOOL_CALL:
            call: dict[str, Any] = {"index": 0, "function": {"arguments": step.text}}
            if step is self._first_call:
                call |= {"id": _CALL_ID, "type": "function"}
                call["function"]["name"] = _CALL_NAME
            return {"tool_calls": [call]}
        if step.piece is Piece.ROLE:
            llama = self._script.dialect is Dialect.LLAMA_CPP
            return {"role": "assistant", "content": None if llama else ""}
        return {}

    def _message(self) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": None}
        for piece, name in _TEXT_FIELDS.items():
            if text := self._text(piece):
                message[name] = text
        if arguments := self._text(Piece.TOOL_CALL):
            function = {"name": _CALL_NAME, "arguments": arguments}
            message["tool_calls"] = [{"id": _CALL_ID, "type": "function", "function": function}]
        return message

    def _text(self, piece: Piece) -> str:
        return "".join(step.text for step in self._script.steps if step.piece is piece)

    def _usage(self) -> dict[str, Any]:
        script = self._script
        usage: dict[str, Any] = {
            "prompt_tokens": script.prompt_tokens,
            "completion_tokens": script.tokens,
            "total_tokens": script.prompt_tokens + script.tokens,
            "prompt_tokens_details": {"cached_tokens": script.cached_tokens},
        }
        if script.dialect is Dialect.PLAIN:
            reasoning = sum(s.tokens for s in script.steps if s.piece is Piece.REASONING)
            usage["completion_tokens_details"] = {"reasoning_tokens": reasoning}
        return {"usage": usage}

    def _timings(self, ledger: Ledger) -> dict[str, Any]:
        if self._script.dialect is not Dialect.LLAMA_CPP or ledger.slot_ns is None:
            return {}
        tokens = [write.instant_ns for write in ledger.writes if write.piece.bears_token]
        if self._request.stream:
            first_ns = tokens[0] if tokens else ledger.writes[-1].instant_ns
            last_ns = tokens[-1] if tokens else first_ns
        else:
            first_ns = ledger.slot_ns + self._script.prefill_ns
            last_ns = max(first_ns, ledger.writes[-1].instant_ns)
        processed = self._script.prompt_tokens - self._script.cached_tokens
        return {
            "timings": {
                "cache_n": self._script.cached_tokens,
                **_rates("prompt", processed, first_ns - ledger.slot_ns),
                **_rates("predicted", self._script.tokens, last_ns - first_ns),
            }
        }


def _choice(delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "finish_reason": finish_reason}


def _rates(what: str, tokens: int, duration_ns: int) -> dict[str, float | None]:
    duration_ms = in_unit(duration_ns, "ms")
    return {
        f"{what}_n": tokens,
        f"{what}_ms": duration_ms,
        # llama.cpp divides regardless, and its JSON has null for what is not finite.
        f"{what}_per_token_ms": duration_ms / tokens if tokens else None,
        f"{what}_per_second": 1000 * tokens / duration_ms if duration_ms else None,
    }
