"""
Google's ``:streamGenerateContent`` and ``:generateContent``: responses with a piece of the content.

A stream has no end mark. The server always sends events, as the service does with ``alt=sse``.

Source: Gemini API reference, ``GenerateContentResponse``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from latspan.testing._payloads._base import CALL_ID, CALL_NAME, StreamPayloads, encode
from latspan.testing._script import TOKEN_PARTS, PayloadPart, ScriptStep
from latspan.testing._served import Ledger

_PATH: Final = re.compile(r"/([^/:]+):(stream)?[gG]enerateContent$")

_REASONS: Final = {
    "stop": "STOP",
    "tool_calls": "STOP",
    "length": "MAX_TOKENS",
    "content_filter": "SAFETY",
}
"""Google's finish reasons, by the finish reason of chat completions in a script."""

_STATUSES: Final = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
}


class GeminiGenerate(StreamPayloads):
    """Payloads of one response."""

    requires = "contents"

    @classmethod
    def from_path(cls, path: str) -> Mapping[str, Any]:
        """Return the model and whether to stream, both of which the path defines."""
        found = _PATH.search(path)
        return {} if found is None else {"model": found[1], "stream": found[2] is not None}

    def step(self, step: ScriptStep) -> bytes:
        """Return the event for ``step``; each step of a tool call is a call of its own."""
        if step.piece is PayloadPart.TOOL_CALL:
            # Google sends the arguments of a call in one piece.
            return self._event([_call(step.text)])
        return self._event([_part(step.piece, step.text)])

    def finish(self, ledger: Ledger) -> bytes:  # noqa: ARG002 - the API reports no timings
        """Return the event with the finish reason and the token counts."""
        return self._event([_part(PayloadPart.TEXT, "")], last=True)

    def end_mark(self) -> bytes:
        """Return nothing: the finish reason is the last event."""
        return b""

    def whole(self, ledger: Ledger) -> dict[str, Any]:  # noqa: ARG002 - the API reports no timings
        """Return the complete response."""
        kinds = (PayloadPart.REASONING, PayloadPart.TEXT, PayloadPart.REFUSAL)
        parts = [_part(piece, text) for piece in kinds if (text := self.text(piece))]
        if arguments := self.text(PayloadPart.TOOL_CALL):
            parts.append(_call(arguments))
        return self._response(parts, last=True)

    @classmethod
    def error(cls, status: int, message: str) -> dict[str, Any]:
        """Return the body of an error."""
        name = _STATUSES.get(status, "INTERNAL")
        return {"error": {"code": status, "message": message, "status": name}}

    def _event(self, parts: list[dict[str, Any]], *, last: bool = False) -> bytes:
        # Google's server ends its lines in CRLF.
        return encode(self._response(parts, last=last)).replace(b"\n", b"\r\n")

    def _response(self, parts: list[dict[str, Any]], *, last: bool) -> dict[str, Any]:
        candidate: dict[str, Any] = {"content": {"parts": parts, "role": "model"}, "index": 0}
        if last:
            reason = self.script.finish_reason
            candidate["finishReason"] = _REASONS.get(reason, reason.upper())
        return {
            "candidates": [candidate],
            **({"usageMetadata": self._usage(last=last)} if self.script.reports_usage else {}),
            "modelVersion": self.model,
            "responseId": f"response_{self.number}",
        }

    def _usage(self, *, last: bool) -> dict[str, Any]:
        script = self.script
        usage = {"promptTokenCount": script.prompt_tokens, "totalTokenCount": script.prompt_tokens}
        if script.cached_tokens:
            usage["cachedContentTokenCount"] = script.cached_tokens
        if last:
            # Reasoning is counted separately, and a count that is zero is omitted.
            usage["candidatesTokenCount"] = script.tokens - self.reasoning_tokens
            usage["thoughtsTokenCount"] = self.reasoning_tokens
            usage["totalTokenCount"] += script.tokens
        return {name: count for name, count in usage.items() if count}


def _part(piece: PayloadPart, text: str) -> dict[str, Any]:
    thought = {"thought": True} if piece is PayloadPart.REASONING else {}
    return {"text": text if piece in TOKEN_PARTS else "", **thought}


def _call(arguments: str) -> dict[str, Any]:
    try:
        parsed = json.loads(arguments)
    except ValueError:
        parsed = {"text": arguments}
    return {"functionCall": {"id": CALL_ID, "name": CALL_NAME, "args": parsed}}
