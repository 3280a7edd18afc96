"""``/v1/chat/completions``: chunks with deltas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from latspan.testing._payloads._base import CALL_ID, CALL_NAME
from latspan.testing._payloads._openai_chunks import OpenAIChunks
from latspan.testing._script import PayloadPart, Script, ServerFlavor, Step

__all__ = ["OpenAIChat"]

_TEXT_FIELDS: Final = {
    PayloadPart.TEXT: "content",
    PayloadPart.REASONING: "reasoning_content",
    PayloadPart.REFUSAL: "refusal",
}


class OpenAIChat(OpenAIChunks):
    """Payloads of one chat completion."""

    requires = "messages"
    id_prefix = "chatcmpl"
    whole_object = "chat.completion"
    chunk_object = "chat.completion.chunk"

    def __init__(
        self, script: Script, body: Mapping[str, Any], *, number: int, created_s: int
    ) -> None:
        super().__init__(script, body, number=number, created_s=created_s)
        self._first_call = next((s for s in script.steps if s.piece is PayloadPart.TOOL_CALL), None)

    def choice(self, step: Step | None) -> dict[str, Any]:
        """Return a choice with a delta."""
        reason = self.script.finish_reason if step is None else None
        delta = {} if step is None else self._delta(step)
        return {"index": 0, "delta": delta, "finish_reason": reason}

    def whole_choice(self) -> dict[str, Any]:
        """Return the choice with the message."""
        message: dict[str, Any] = {"role": "assistant", "content": None}
        for piece, name in _TEXT_FIELDS.items():
            if text := self.text(piece):
                message[name] = text
        if arguments := self.text(PayloadPart.TOOL_CALL):
            function = {"name": CALL_NAME, "arguments": arguments}
            message["tool_calls"] = [{"id": CALL_ID, "type": "function", "function": function}]
        return {"index": 0, "message": message, "finish_reason": self.script.finish_reason}

    def _delta(self, step: Step) -> dict[str, Any]:
        if step.piece in _TEXT_FIELDS:
            return {_TEXT_FIELDS[step.piece]: step.text}
        if step.piece is PayloadPart.TOOL_CALL:
            call: dict[str, Any] = {"index": 0, "function": {"arguments": step.text}}
            if step is self._first_call:
                call |= {"id": CALL_ID, "type": "function"}
                call["function"]["name"] = CALL_NAME
            return {"tool_calls": [call]}
        if step.piece is PayloadPart.ROLE:
            llama = self.script.flavor is ServerFlavor.LLAMA_CPP
            return {"role": "assistant", "content": None if llama else ""}
        return {}
