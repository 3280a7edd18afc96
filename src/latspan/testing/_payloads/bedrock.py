"""
Amazon Bedrock's ``converse-stream`` and ``invoke-with-response-stream``: binary messages.

A model that is invoked responds in its own format; the scripted one is Anthropic's. The latencies
that Bedrock reports are computed from the recorded writes, not from the plan.

Source: Amazon Bedrock API reference, ``ConverseStream`` and ``InvokeModelWithResponseStream``;
"Amazon event stream specification" (Smithy) for the binary messages.
"""

from __future__ import annotations

import base64
import json
import re
import struct
import zlib
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote

from latspan._model.units import in_unit
from latspan.testing._payloads._base import (
    CALL_ID,
    CALL_NAME,
    BlockPayloads,
    StreamPayloads,
    to_json,
)
from latspan.testing._payloads.anthropic_messages import AnthropicMessages
from latspan.testing._script import TOKEN_PARTS, PayloadPart, Script, ScriptStep, ServerFlavor
from latspan.testing._served import Ledger

_STRING: Final = 7
"""Type of a header whose value is text."""

_PATH: Final = re.compile(r"/model/([^/]+)/[a-z-]*?(stream)?$")

_REASONS: Final = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "content_filtered",
}
"""Bedrock's stop reasons, by the finish reason of chat completions in a script."""

_ERRORS: Final = {
    400: "ValidationException",
    403: "AccessDeniedException",
    404: "ResourceNotFoundException",
    429: "ThrottlingException",
    503: "ServiceUnavailableException",
}


class _Bedrock(StreamPayloads):
    """Payloads of one response in binary messages."""

    media_type = "application/vnd.amazon.eventstream"
    requires = "messages"

    @classmethod
    def from_path(cls, path: str) -> Mapping[str, Any]:
        """Return the model and whether to stream, both of which the path defines."""
        found = _PATH.search(path)
        if found is None:
            return {}
        return {"model": unquote(found[1]), "stream": found[2] is not None}

    def comment(self, text: str) -> bytes:  # noqa: ARG002 - binary messages have no comments
        """Return nothing."""
        return b""

    def error_event(self) -> bytes:
        """Return the exception of a model that failed while it responded."""
        return encode_exception("modelStreamErrorException", {"message": self.script.error})

    @classmethod
    def error(cls, status: int, message: str) -> dict[str, Any]:
        """Return the body of an error."""
        return {"__type": _ERRORS.get(status, "InternalServerException"), "message": message}

    def latencies_ms(self, ledger: Ledger) -> tuple[int, int] | None:
        """Return the times to the first token and to now, ``None`` if they are not reported."""
        if self.script.flavor is ServerFlavor.PLAIN:
            return None
        now_ns = ledger.writes[-1].instant_ns
        first_ns = next((w.instant_ns for w in ledger.writes if w.piece in TOKEN_PARTS), now_ns)
        first_ms, now_ms = (
            int(in_unit(instant_ns - ledger.accepted_ns, "ms")) for instant_ns in (first_ns, now_ns)
        )
        return first_ms, now_ms


class BedrockConverse(BlockPayloads, _Bedrock):
    """Payloads of one conversation, in the shape that is the same for all models."""

    def step(self, step: ScriptStep) -> bytes:
        """Return the step's event, preceded by the events that open its block."""
        events = self._entered(step.piece)
        if step.piece not in TOKEN_PARTS:
            return events
        delta: dict[str, Any] = {"text": step.text}
        if step.piece is PayloadPart.TOOL_CALL:
            delta = {"toolUse": {"input": step.text}}
        elif step.piece is PayloadPart.REASONING:
            delta = {"reasoningContent": delta}
        return events + self._block("contentBlockDelta", delta=delta)

    def finish(self, ledger: Ledger) -> bytes:
        """Return the events that end the message, and the event with the token counts."""
        return (
            self._begun()
            + self._closed()
            + encode_message("messageStop", {"stopReason": self._stop_reason})
            + encode_message("metadata", self._metadata(ledger))
        )

    def end_mark(self) -> bytes:
        """Return nothing: the token counts are the last event."""
        return b""

    def whole(self, ledger: Ledger) -> dict[str, Any]:
        """Return the complete response."""
        content: list[dict[str, Any]] = []
        if thought := self.text(PayloadPart.REASONING):
            content.append({"reasoningContent": {"reasoningText": {"text": thought}}})
        pieces = (PayloadPart.TEXT, PayloadPart.REFUSAL)
        content += [{"text": text} for piece in pieces if (text := self.text(piece))]
        if arguments := self.text(PayloadPart.TOOL_CALL):
            call = {"toolUseId": CALL_ID, "name": CALL_NAME, "input": json.loads(arguments)}
            content.append({"toolUse": call})
        message = {"role": "assistant", "content": content}
        return {
            "output": {"message": message},
            "stopReason": self._stop_reason,
            **self._metadata(ledger),
        }

    @property
    def _stop_reason(self) -> str:
        return _REASONS.get(self.script.finish_reason, self.script.finish_reason)

    def message_start(self) -> bytes:
        """Return ``messageStart``."""
        return encode_message("messageStart", {"role": "assistant"})

    def block_start(self, piece: PayloadPart) -> bytes:
        """Return ``contentBlockStart`` for a tool call."""
        if piece is not PayloadPart.TOOL_CALL:
            # Only the block of a tool call has a start.
            return b""
        start = {"toolUse": {"toolUseId": CALL_ID, "name": CALL_NAME}}
        return self._block("contentBlockStart", start=start)

    def block_end(self, piece: PayloadPart) -> bytes:  # noqa: ARG002 - equal for all kinds
        """Return ``contentBlockStop``."""
        return self._block("contentBlockStop")

    def _block(self, event: str, **fields: Any) -> bytes:
        return encode_message(event, {"contentBlockIndex": self._blocks - 1, **fields})

    def _metadata(self, ledger: Ledger) -> dict[str, Any]:
        script = self.script
        # Tokens read from or written to the cache are counted separately.
        fresh = script.prompt_tokens - script.cached_tokens - script.cache_write_tokens
        usage = {
            "inputTokens": fresh,
            "outputTokens": script.tokens,
            "totalTokens": script.prompt_tokens + script.tokens,
            "cacheReadInputTokens": script.cached_tokens,
            "cacheWriteInputTokens": script.cache_write_tokens,
        }
        latencies = self.latencies_ms(ledger)
        metrics = {} if latencies is None else {"metrics": {"latencyMs": latencies[1]}}
        return {**({"usage": usage} if script.reports_usage else {}), **metrics}


class BedrockInvoke(_Bedrock):
    """Payloads of one message in Anthropic's format, each of its events in a ``chunk``."""

    def __init__(
        self, script: Script, body: Mapping[str, Any], *, number: int, created_s: int
    ) -> None:
        super().__init__(script, body, number=number, created_s=created_s)
        self._message = AnthropicMessages(script, body, number=number, created_s=created_s)

    def step(self, step: ScriptStep) -> bytes:
        """Return the chunks for ``step``."""
        return _chunks(self._message.step(step))

    def finish(self, ledger: Ledger) -> bytes:
        """Return the chunks that end the message, the last one with Bedrock's own metrics."""
        script = self.script
        metrics: dict[str, int] = {}
        if script.reports_usage:
            metrics = {"inputTokenCount": script.prompt_tokens, "outputTokenCount": script.tokens}
        latencies = self.latencies_ms(ledger)
        if latencies is not None:
            metrics |= {"firstByteLatency": latencies[0], "invocationLatency": latencies[1]}
        stop = {"type": "message_stop", "amazon-bedrock-invocationMetrics": metrics}
        return _chunks(self._message.finish(ledger)) + _chunk(to_json(stop).encode())

    def end_mark(self) -> bytes:
        """Return nothing: the metrics are in the last event."""
        return b""

    def whole(self, ledger: Ledger) -> dict[str, Any]:
        """Return the complete message."""
        return self._message.whole(ledger)


def _chunks(events: bytes) -> bytes:
    """Return server-sent events as messages."""
    lines = (line for line in events.splitlines() if line.startswith(b"data: "))
    return b"".join(_chunk(line.removeprefix(b"data: ")) for line in lines)


def _chunk(event: bytes) -> bytes:
    return encode_message("chunk", {"bytes": base64.b64encode(event).decode()})


def encode_message(event: str, payload: Mapping[str, Any]) -> bytes:
    """Return one event as a binary message with ``payload`` as its JSON."""
    return _encode({":event-type": event, ":message-type": "event"}, payload)


def encode_exception(name: str, payload: Mapping[str, Any]) -> bytes:
    """Return one exception, which ends the stream, as a binary message."""
    return _encode({":exception-type": name, ":message-type": "exception"}, payload)


def _encode(headers: Mapping[str, str], payload: Mapping[str, Any]) -> bytes:
    block = b"".join(
        _header(name, value)
        for name, value in {**headers, ":content-type": "application/json"}.items()
    )
    body = to_json(payload).encode()
    size = 12 + len(block) + len(body) + 4
    prelude = struct.pack(">II", size, len(block))
    message = prelude + struct.pack(">I", zlib.crc32(prelude)) + block + body
    return message + struct.pack(">I", zlib.crc32(message))


def _header(name: str, value: str) -> bytes:
    name_bytes, value_bytes = name.encode(), value.encode()
    head = struct.pack(">B", len(name_bytes)) + name_bytes
    return head + struct.pack(">BH", _STRING, len(value_bytes)) + value_bytes
