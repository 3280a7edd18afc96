"""
Ollama's ``/api/chat`` and ``/api/generate``: one JSON object per line.

The durations that Ollama reports are computed from the recorded writes, not from the plan. The wait
in the queue of a script is the time in which Ollama loads the model.

Source: Ollama, ``docs/api.md``.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from latspan.testing._payloads._base import CALL_ID, CALL_NAME, StreamPayloads, to_json
from latspan.testing._script import TOKEN_PARTS, PayloadPart, ScriptStep, ServerFlavor
from latspan.testing._served import Ledger

_REASONS: Final = {"tool_calls": "stop"}
"""Ollama's reasons, by the finish reason of chat completions in a script, if they differ."""

_TEXTS: Final = (PayloadPart.TEXT, PayloadPart.REFUSAL)


class _Ollama(StreamPayloads):
    """Payloads of one response, which streams unless the request declines that."""

    media_type = "application/x-ndjson"

    @property
    def streams(self) -> bool:
        """Whether the response is to be streamed as lines."""
        return bool(self.body.get("stream", True))

    def step(self, step: ScriptStep) -> bytes:
        """Return the line for ``step``."""
        return self._line(self.content({step.piece: step.text}))

    def finish(self, ledger: Ledger) -> bytes:
        """Return the last line, with the token counts and the durations."""
        return self._line(self.content({}), self._last(ledger))

    def end_mark(self) -> bytes:
        """Return nothing: the line with ``done`` is the last one."""
        return b""

    def comment(self, text: str) -> bytes:  # noqa: ARG002 - lines of JSON have no comments
        """Return nothing."""
        return b""

    def error_event(self) -> bytes:
        """Return the line of an error."""
        return to_json(self.error(500, self.script.error)).encode() + b"\n"

    def whole(self, ledger: Ledger) -> dict[str, Any]:
        """Return the complete response."""
        pieces = {step.piece for step in self.script.steps if step.piece in TOKEN_PARTS}
        content = self.content({piece: self.text(piece) for piece in pieces})
        return {**self._head, **content, **self._last(ledger)}

    @classmethod
    def error(cls, status: int, message: str) -> dict[str, Any]:  # noqa: ARG003 - not in the body
        """Return the body of an error."""
        return {"error": message}

    @abstractmethod
    def content(self, texts: Mapping[PayloadPart, str]) -> dict[str, Any]:
        """Return the fields that hold the content."""

    @property
    def _head(self) -> dict[str, Any]:
        created = datetime.fromtimestamp(self.created_s, UTC)
        return {"model": self.model, "created_at": created.strftime("%Y-%m-%dT%H:%M:%SZ")}

    def _line(self, content: Mapping[str, Any], last: Mapping[str, Any] | None = None) -> bytes:
        payload = {**self._head, **content, **(last or {"done": False})}
        return to_json(payload).encode() + b"\n"

    def _last(self, ledger: Ledger) -> dict[str, Any]:
        script = self.script
        reason = _REASONS.get(script.finish_reason, script.finish_reason)
        counts = {"prompt_eval_count": script.prompt_tokens, "eval_count": script.tokens}
        return {
            "done": True,
            "done_reason": reason,
            **(counts if script.reports_usage else {}),
            **self._durations(ledger),
        }

    def _durations(self, ledger: Ledger) -> dict[str, int]:
        if self.script.flavor is ServerFlavor.PLAIN or ledger.slot_ns is None:
            return {}
        now_ns = ledger.writes[-1].instant_ns
        tokens = [write.instant_ns for write in ledger.writes if write.piece in TOKEN_PARTS]
        first_ns = tokens[0] if tokens else min(now_ns, ledger.slot_ns + self.script.prefill_ns)
        last_ns = tokens[-1] if tokens else now_ns
        return {
            "total_duration": now_ns - ledger.accepted_ns,
            "load_duration": ledger.slot_ns - ledger.accepted_ns,
            "prompt_eval_duration": first_ns - ledger.slot_ns,
            "eval_duration": last_ns - first_ns,
        }


class OllamaChat(_Ollama):
    """Payloads of one chat."""

    requires = "messages"

    def content(self, texts: Mapping[PayloadPart, str]) -> dict[str, Any]:
        """Return the message."""
        message: dict[str, Any] = {
            "role": "assistant",
            "content": "".join(texts.get(piece, "") for piece in _TEXTS),
        }
        if thought := texts.get(PayloadPart.REASONING):
            message["thinking"] = thought
        if (arguments := texts.get(PayloadPart.TOOL_CALL)) is not None:
            function = {"name": CALL_NAME, "arguments": _arguments(arguments)}
            message["tool_calls"] = [{"id": CALL_ID, "function": function}]
        return {"message": message}


class OllamaGenerate(_Ollama):
    """Payloads of one completion of a prompt; the arguments of a tool call are text."""

    requires = "prompt"

    def content(self, texts: Mapping[PayloadPart, str]) -> dict[str, Any]:
        """Return the fields with the text."""
        thought = texts.get(PayloadPart.REASONING)
        pieces = (*_TEXTS, PayloadPart.TOOL_CALL)
        response = "".join(texts.get(piece, "") for piece in pieces)
        return {"response": response, **({"thinking": thought} if thought else {})}


def _arguments(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        # Ollama sends arguments as an object; a step with a part of them has this one.
        return {"text": text}
