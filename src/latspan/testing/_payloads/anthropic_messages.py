"""
Anthropic's ``/v1/messages``: typed events around content blocks.

Source: Anthropic API documentation, "Streaming Messages" and "Errors".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from latspan.testing._payloads._base import CALL_NAME, BlockPayloads, encode
from latspan.testing._script import TOKEN_PARTS, PayloadPart, ScriptStep
from latspan.testing._served import Ledger

_STOP_REASONS: Final = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
}
"""Anthropic's stop reasons, by the finish reason of chat completions in a script."""

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
    # There is no block type for a refusal: it is text with its own stop reason.
    PayloadPart.REFUSAL: ("text_delta", "text"),
}

_SIGNATURE: Final = "c2NyaXB0ZWQ="


class _Block:
    """
    One content block.

    Args:
        piece: Kind of content.
        index: Position in the content, from 0.
    """

    def __init__(self, piece: PayloadPart, index: int) -> None:
        self.piece = piece
        self.index = index
        self.text = ""

    @property
    def empty(self) -> dict[str, Any]:
        """The block as sent in its start event."""
        if self.piece is PayloadPart.TOOL_CALL:
            call = {"id": f"toolu_{self.index}", "name": CALL_NAME}
            return {"type": "tool_use", **call, "input": {}}
        if self.piece is PayloadPart.REASONING:
            return {"type": "thinking", "thinking": "", "signature": ""}
        return {"type": "text", "text": ""}

    @property
    def whole(self) -> dict[str, Any]:
        """The block with its complete content."""
        if self.piece is PayloadPart.TOOL_CALL:
            return self.empty | {"input": _arguments(self.text)}
        if self.piece is PayloadPart.REASONING:
            return self.empty | {"thinking": self.text, "signature": _SIGNATURE}
        return self.empty | {"text": self.text}


class AnthropicMessages(BlockPayloads):
    """Payloads of one message; token counts are included even if not requested."""

    requires = "messages"

    def step(self, step: ScriptStep) -> bytes:
        """Return the step's event, preceded by the events that open its block."""
        if step.piece is PayloadPart.EMPTY:
            return _event("ping")
        events = self._entered(step.piece)
        if step.piece not in TOKEN_PARTS:
            return events
        kind, field = _DELTAS[step.piece]
        return events + self._delta({"type": kind, field: step.text})

    def finish(self, ledger: Ledger) -> bytes:  # noqa: ARG002 - the API reports no timings
        """Return the events that end the last block, with the stop reason."""
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
        """Return an ``error`` event, as an overloaded server sends it."""
        return encode(self.error(529, self.script.error), event="error")

    def whole(self, ledger: Ledger) -> dict[str, Any]:  # noqa: ARG002 - the API reports no timings
        """Return the complete message."""
        blocks: list[_Block] = []
        for step in self.script.steps:
            if step.piece not in TOKEN_PARTS:
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

    def message_start(self) -> bytes:
        """Return ``message_start``."""
        start = self._message(content=[], stop_reason=None, usage=self._usage())
        return _event("message_start", message=start)

    def block_start(self, piece: PayloadPart) -> bytes:
        """Return ``content_block_start`` with an empty block."""
        block = _Block(piece, self._blocks - 1)
        return _event("content_block_start", index=block.index, content_block=block.empty)

    def _delta(self, delta: Mapping[str, Any]) -> bytes:
        return _event("content_block_delta", index=self._blocks - 1, delta=delta)

    def block_end(self, piece: PayloadPart) -> bytes:
        """Return ``content_block_stop``, preceded by the signature of reasoning."""
        signed = b""
        if piece is PayloadPart.REASONING:
            signed = self._delta({"type": "signature_delta", "signature": _SIGNATURE})
        return signed + _event("content_block_stop", index=self._blocks - 1)

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
        """Return the token counts at the start, before any output token."""
        script = self.script
        return {
            # Tokens read from or written to the cache are counted separately.
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
        # A complete message cannot hold arguments that are not JSON.
        return {"text": text}
