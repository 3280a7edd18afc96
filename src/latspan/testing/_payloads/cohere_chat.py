"""
Cohere's ``/v2/chat``: typed events around the blocks of a message.

Source: Cohere API reference, "Chat with Streaming".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from latspan._model.wire import DONE
from latspan.testing._payloads._base import CALL_ID, CALL_NAME, BlockPayloads, encode
from latspan.testing._script import TOKEN_PARTS, PayloadPart, ScriptStep
from latspan.testing._served import Ledger

_REASONS: Final = {
    "stop": "COMPLETE",
    "length": "MAX_TOKENS",
    "tool_calls": "TOOL_CALL",
    "content_filter": "ERROR",
}
"""Cohere's finish reasons, by the finish reason of chat completions in a script."""

_FIELDS: Final = {
    PayloadPart.TEXT: "text",
    PayloadPart.REASONING: "thinking",
    # There is no block type for a refusal: it is text.
    PayloadPart.REFUSAL: "text",
}


class CohereChat(BlockPayloads):
    """Payloads of one message; token counts are included even if not requested."""

    requires = "messages"

    def step(self, step: ScriptStep) -> bytes:
        """Return the step's event, preceded by the events that open its block."""
        events = self._entered(step.piece)
        if step.piece not in TOKEN_PARTS:
            return events
        if step.piece is PayloadPart.TOOL_CALL:
            called = {"tool_calls": {"function": {"arguments": step.text}}}
            return events + self._block("tool-call-delta", called)
        return events + self._block("content-delta", {"content": {_FIELDS[step.piece]: step.text}})

    def finish(self, ledger: Ledger) -> bytes:  # noqa: ARG002 - the API reports no timings
        """Return the events that end the last block, and the end of the message."""
        return self._begun() + self._closed() + _event("message-end", delta=self._last)

    def end_mark(self) -> bytes:
        """Return ``[DONE]``."""
        return DONE

    def error_event(self) -> bytes:
        """Return the end of a message that the server could not complete."""
        last = {"finish_reason": "ERROR", "error": self.script.error}
        return self._begun() + _event("message-end", delta=last)

    def whole(self, ledger: Ledger) -> dict[str, Any]:  # noqa: ARG002 - the API reports no timings
        """Return the complete message."""
        content = [
            {"type": _FIELDS[piece], _FIELDS[piece]: text}
            for piece in (PayloadPart.REASONING, PayloadPart.TEXT, PayloadPart.REFUSAL)
            if (text := self.text(piece))
        ]
        message: dict[str, Any] = {"role": "assistant", "content": content}
        if arguments := self.text(PayloadPart.TOOL_CALL):
            function = {"name": CALL_NAME, "arguments": arguments}
            message["tool_calls"] = [{"id": CALL_ID, "type": "function", "function": function}]
        return {"id": f"message-{self.number}", "message": message, **self._last}

    @classmethod
    def error(cls, status: int, message: str) -> dict[str, Any]:  # noqa: ARG003 - not in the body
        """Return the body of an error."""
        return {"message": message}

    @property
    def _last(self) -> dict[str, Any]:
        script = self.script
        counts = {"input_tokens": script.prompt_tokens, "output_tokens": script.tokens}
        usage = {"billed_units": counts, "tokens": counts, "cached_tokens": script.cached_tokens}
        reason = _REASONS.get(script.finish_reason, script.finish_reason)
        return {"finish_reason": reason, **({"usage": usage} if script.reports_usage else {})}

    def message_start(self) -> bytes:
        """Return ``message-start``."""
        empty: dict[str, Any] = {"content": [], "tool_plan": "", "tool_calls": [], "citations": []}
        delta = {"message": {"role": "assistant", **empty}}
        return _event("message-start", id=f"message-{self.number}", delta=delta)

    def block_start(self, piece: PayloadPart) -> bytes:
        """Return the start of the content or of the tool call."""
        if piece is PayloadPart.TOOL_CALL:
            function = {"name": CALL_NAME, "arguments": ""}
            call = {"id": CALL_ID, "type": "function", "function": function}
            return self._block("tool-call-start", {"tool_calls": call})
        field = _FIELDS[piece]
        return self._block("content-start", {"content": {"type": field, field: ""}})

    def block_end(self, piece: PayloadPart) -> bytes:
        """Return the end of the content or of the tool call."""
        name = "tool-call-end" if piece is PayloadPart.TOOL_CALL else "content-end"
        return _event(name, index=self._blocks - 1)

    def _block(self, name: str, message: Mapping[str, Any]) -> bytes:
        return _event(name, index=self._blocks - 1, delta={"message": message})


def _event(name: str, /, **fields: Any) -> bytes:
    return encode({"type": name, **fields}, event=name)
