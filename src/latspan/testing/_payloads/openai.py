"""
OpenAI's ``/v1/chat/completions``, ``/v1/completions``, ``/v1/embeddings`` and ``/v1/models``.

Chat completions are chunks with deltas. The older completions are chunks that have only text,
whatever the kind of token. The timings that llama.cpp reports with both are computed from the
recorded writes, not from the plan. The list of models has the fields of Anthropic's API too,
because the clients of both request the same path.
"""

from __future__ import annotations

import base64
import struct
from abc import abstractmethod
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, ClassVar, Final, cast

from latspan._model.units import in_unit
from latspan._model.wire import DONE
from latspan.testing._payloads._base import CALL_ID, CALL_NAME, Payloads, StreamPayloads, encode
from latspan.testing._script import TOKEN_PARTS, PayloadPart, Script, ScriptStep, ServerFlavor
from latspan.testing._served import Ledger

_TEXT_FIELDS: Final = {
    PayloadPart.TEXT: "content",
    PayloadPart.REASONING: "reasoning_content",
    PayloadPart.REFUSAL: "refusal",
}

_VECTOR: Final = (0.5, -0.25, 0.125, 0.0)
"""Numbers that a 32-bit float represents exactly, so that both encodings are equal."""


class _Chunks(StreamPayloads):
    """Payloads of one response that consists of chunks with choices."""

    id_prefix: ClassVar[str]
    whole_object: ClassVar[str]
    chunk_object: ClassVar[str]

    def __init__(
        self, script: Script, body: Mapping[str, Any], *, number: int, created_s: int
    ) -> None:
        super().__init__(script, body, number=number, created_s=created_s)
        self._stamp = {
            "id": f"{self.id_prefix}-{number}",
            "created": created_s,
            "model": self.model,
        }

    def step(self, step: ScriptStep) -> bytes:
        """Return the chunk for ``step``."""
        return encode(self._chunk([self.choice(step)]))

    def finish(self, ledger: Ledger) -> bytes:
        """Return the chunk with the finish reason."""
        chunk = self._chunk([self.choice(None)])
        return encode(chunk if self.usage_has_a_chunk else chunk | self._timings(ledger))

    def usage(self, ledger: Ledger) -> bytes:
        """Return the chunk without choices that has the token counts."""
        return encode(self._chunk([]) | self._usage() | self._timings(ledger))

    def end_mark(self) -> bytes:
        """Return ``[DONE]``."""
        return DONE

    def whole(self, ledger: Ledger) -> dict[str, Any]:
        """Return the complete response."""
        whole = {**self._stamp, "object": self.whole_object, "choices": [self.whole_choice()]}
        return whole | self._usage() | self._timings(ledger)

    @abstractmethod
    def choice(self, step: ScriptStep | None) -> dict[str, Any]:
        """Return a chunk's choice for ``step``; for ``None``, the one with the finish reason."""

    @abstractmethod
    def whole_choice(self) -> dict[str, Any]:
        """Return the choice with the complete content."""

    @property
    def usage_has_a_chunk(self) -> bool:
        """Whether token counts were requested for the stream."""
        options = cast("dict[str, Any]", self.body.get("stream_options") or {})
        return bool(options.get("include_usage", False)) and self.script.reports_usage

    def _chunk(self, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {**self._stamp, "object": self.chunk_object, "choices": choices}

    def _usage(self) -> dict[str, Any]:
        script = self.script
        read = {"cached_tokens": script.cached_tokens}
        written = {"cache_write_tokens": script.cache_write_tokens}
        usage: dict[str, Any] = {
            "prompt_tokens": script.prompt_tokens,
            "completion_tokens": script.tokens,
            "total_tokens": script.prompt_tokens + script.tokens,
            "prompt_tokens_details": read | (written if script.cache_write_tokens else {}),
        }
        if script.flavor is ServerFlavor.PLAIN:
            usage["completion_tokens_details"] = {"reasoning_tokens": self.reasoning_tokens}
        return {"usage": usage}

    def _timings(self, ledger: Ledger) -> dict[str, Any]:
        if self.script.flavor is not ServerFlavor.LLAMA_CPP or ledger.slot_ns is None:
            return {}
        tokens = [write.instant_ns for write in ledger.writes if write.piece in TOKEN_PARTS]
        if self.streams:
            first_ns = tokens[0] if tokens else ledger.writes[-1].instant_ns
            last_ns = tokens[-1] if tokens else first_ns
        else:
            first_ns = ledger.slot_ns + self.script.prefill_ns
            last_ns = max(first_ns, ledger.writes[-1].instant_ns)
        processed = self.script.prompt_tokens - self.script.cached_tokens
        return {
            "timings": {
                "cache_n": self.script.cached_tokens,
                **_rates("prompt", processed, first_ns - ledger.slot_ns),
                **_rates("predicted", self.script.tokens, last_ns - first_ns),
            }
        }


def _rates(what: str, tokens: int, duration_ns: int) -> dict[str, float | None]:
    duration_ms = in_unit(duration_ns, "ms")
    return {
        f"{what}_n": tokens,
        f"{what}_ms": duration_ms,
        # llama.cpp divides regardless, and its JSON has null for values that are not finite.
        f"{what}_per_token_ms": duration_ms / tokens if tokens else None,
        f"{what}_per_second": 1000 * tokens / duration_ms if duration_ms else None,
    }


class OpenAIChat(_Chunks):
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

    def choice(self, step: ScriptStep | None) -> dict[str, Any]:
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

    def _delta(self, step: ScriptStep) -> dict[str, Any]:
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


class OpenAICompletions(_Chunks):
    """Payloads of one text completion."""

    requires = "prompt"
    id_prefix = "cmpl"
    whole_object = chunk_object = "text_completion"

    def choice(self, step: ScriptStep | None) -> dict[str, Any]:
        """Return a choice with a piece of the text; empty text for a role."""
        text = step.text if step is not None and step.piece in TOKEN_PARTS else ""
        return self._choice(text, self.script.finish_reason if step is None else None)

    def whole_choice(self) -> dict[str, Any]:
        """Return the choice with the complete text."""
        text = "".join(step.text for step in self.script.steps if step.piece in TOKEN_PARTS)
        return self._choice(text, self.script.finish_reason)

    def _choice(self, text: str, finish_reason: str | None) -> dict[str, Any]:
        return {"index": 0, "text": text, "logprobs": None, "finish_reason": finish_reason}


class OpenAIEmbeddings(Payloads):
    """Payload of one response with embeddings."""

    requires = "input"

    def whole(self, ledger: Ledger) -> dict[str, Any]:  # noqa: ARG002 - the API reports no timings
        """Return the vectors, in the requested encoding."""
        tokens = self.script.prompt_tokens
        return {
            "object": "list",
            "data": [
                {"object": "embedding", "index": index, "embedding": self._embedding()}
                for index in range(self._inputs())
            ],
            "model": self.model,
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        }

    def _inputs(self) -> int:
        inputs: object = self.body["input"]
        if not isinstance(inputs, list):
            return 1
        several = cast("list[object]", inputs)
        # A list of numbers is one input, given as tokens.
        return 1 if several and isinstance(several[0], int) else len(several)

    def _embedding(self) -> list[float] | str:
        if self.body.get("encoding_format") == "base64":
            return base64.b64encode(struct.pack(f"<{len(_VECTOR)}f", *_VECTOR)).decode()
        return list(_VECTOR)


class Models(Payloads):
    """Payload of one list of models."""

    method = "GET"
    requires = None
    needs_model = False

    def whole(self, ledger: Ledger) -> dict[str, Any]:  # noqa: ARG002 - the API reports no timings
        """Return a list of one model."""
        created = datetime.fromtimestamp(self.created_s, UTC)
        model = {
            "id": self.model,
            "object": "model",
            "created": self.created_s,
            "owned_by": "latspan",
            "type": "model",
            "display_name": self.model,
            "created_at": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "lifecycle": "active",
        }
        ends = {"has_more": False, "first_id": self.model, "last_id": self.model}
        return {"object": "list", "data": [model], **ends}
