"""
Anthropic's ``/v1/messages``: typed events around blocks of content.

Source: Anthropic API documentation, "Streaming Messages" and "Errors".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from latspan.testing._payloads._base import CALL_NAME, StreamPayloads, encode
from latspan.testing._script import PayloadPart, Script, Step
from latspan.testing._served import Ledger

__all__ = ["AnthropicMessages"]

_STOP_REASONS: Final = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
}
"""What a script says in the words of chat completions, in Anthropic's."""

_ERRORS: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}

_DELTAS: Final = {
    PayloadPart.TEXT: ("text_delta", "text"),
    PayloadPart.REASONING: ("thinking_delta", "thinking"),
    PayloadPart.TOOL_CALL: ("input_json_delta", "partial_json"),
    # There is no block for it: a refusal is text, and a reason to stop.
    PayloadPart.REFUSAL: ("text_delta", "text"),
}

_SIGNATURE: Final = "c2NyaXB0ZWQ="


class _Block:
    """
    One block of content.

    Args:
        piece: What it holds.
        index: Its place in the content, from 0.
    """

    def __init__(self, piece: PayloadPart, index: int) -> None:
        self.piece = piece
        self.index = index
        self.text = ""

    @property
    def empty(self) -> dict[str, Any]:
        """The block as it stands where it starts."""
        if self.piece is PayloadPart.TOOL_CALL:
            call = {"id": f"toolu_{self.index}", "name": CALL_NAME}
            return {"type": "tool_use", **call, "input": {}}
        if self.piece is PayloadPart.REASONING:
            return {"type": "thinking", "thinking": "", "signature": ""}
        return {"type": "text", "text": ""}

    @property
    def whole(self) -> dict[str, Any]:
        """The block with all that it holds."""
        if self.piece is PayloadPart.TOOL_CALL:
            return self.empty | {"input": _arguments(self.text)}
        if self.piece is PayloadPart.REASONING:
            return self.empty | {"thinking": self.text, "signature": _SIGNATURE}
        return self.empty | {"text": self.text}


class AnthropicMessages(StreamPayloads):
    """Every payload of one message; its tokens are counted whether that was asked for or not."""

    requires = "messages"

    def __init__(
        self, script: Script, body: Mapping[str, Any], *, number: int, created_s: int
    ) -> None:
        super().__init__(script, body, number=number, created_s=created_s)
        self._started = False
        self._open: _Block | None = None
        self._blocks = 0

    def step(self, step: Step) -> bytes:
        """Return the step's event, after those that open what it needs."""
        if step.piece is PayloadPart.EMPTY:
            return _event("ping")
        events = self._begun()
        if not step.piece.bears_token:
            return events
        if self._open is None or self._open.piece is not step.piece:
            events += self._closed() + self._opened(step.piece)
        kind, field = _DELTAS[step.piece]
        return events + self._delta({"type": kind, field: step.text})

    def finish(self, ledger: Ledger) -> bytes:  # noqa: ARG002 - says nothing of its time
        """Return what ends the last block, and why the message stops."""
        stop = {"stop_reason": self._stop_reason, "stop_sequence": None}
        return (
            self._begun()
            + self._closed()
            + _event("message_delta", delta=stop, usage=self._final_usage())
        )

    def end_mark(self) -> bytes:
        """Return ``message_stop``."""
        return _event("message_stop")

    def error_event(self) -> bytes:
        """Return an ``error`` event, as a server sends that has too much to do."""
        return encode(self.error(529, self.script.error), event="error")

    def whole(self, ledger: Ledger) -> dict[str, Any]:  # noqa: ARG002 - says nothing of its time
        """Return the whole message."""
        blocks: list[_Block] = []
        for step in self.script.steps:
            if not step.piece.bears_token:
                continue
            if not blocks or blocks[-1].piece is not step.piece:
                blocks.append(_Block(step.piece, len(blocks)))
            blocks[-1].text += step.text
        return self._message(
            content=[block.whole for block in blocks],
            stop_reason=self._stop_reason,
            usage=self._final_usage(),
        )

    @classmethod
    def error(cls, status: int, message: str) -> dict[str, Any]:
        """Return the body of an error."""
        kind = _ERRORS.get(status, "api_error")
        return {"type": "error", "error": {"type": kind, "message": message}}

    @property
    def _stop_reason(self) -> str:
        reason = self.script.finish_reason
        return _STOP_REASONS.get(reason, reason)

    def _begun(self) -> bytes:
        if self._started:
            return b""
        self._started = True
        start = self._message(content=[], stop_reason=None, usage=self._usage())
        return _event("message_start", message=start)

    def _opened(self, piece: PayloadPart) -> bytes:
        block = self._open = _Block(piece, self._blocks)
        self._blocks += 1
        return _event("content_block_start", index=block.index, content_block=block.empty)

    def _delta(self, delta: Mapping[str, Any]) -> bytes:
        return _event("content_block_delta", index=self._blocks - 1, delta=delta)

    def _closed(self) -> bytes:
        block, self._open = self._open, None
        if block is None:
            return b""
        signed = b""
        if block.piece is PayloadPart.REASONING:
            signed = self._delta({"type": "signature_delta", "signature": _SIGNATURE})
        return signed + _event("content_block_stop", index=block.index)

    def _message(
        self, *, content: list[dict[str, Any]], stop_reason: str | None, usage: dict[str, Any]
    ) -> dict[str, Any]:
        return {
            "id": f"msg_{self.number}",
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": content,
            "stop_reason": stop_reason,
            "stop_sequence": None,
            "usage": usage,
        }

    def _usage(self) -> dict[str, Any]:
        """Return the counts at the start, when no token is there yet."""
        script = self.script
        return {
            # What the cache has to do with is counted apart.
            "input_tokens": script.prompt_tokens - script.cached_tokens - script.cache_write_tokens,
            "cache_creation_input_tokens": script.cache_write_tokens,
            "cache_read_input_tokens": script.cached_tokens,
            "output_tokens": 0,
        }

    def _final_usage(self) -> dict[str, Any]:
        thinking = {"output_tokens_details": {"thinking_tokens": self.reasoning_tokens}}
        usage = self._usage() | {"output_tokens": self.script.tokens}
        return usage | (thinking if self.reasoning_tokens else {})


def _event(name: str, /, **fields: Any) -> bytes:
    return encode({"type": name, **fields}, event=name)


def _arguments(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        # A whole message has no place for arguments that are no JSON.
        return {"text": text}
