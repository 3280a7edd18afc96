"""
``/v1/responses``: typed events around items; the last event holds the complete response.

Source: OpenAI API reference, "Streaming events" of the Responses API.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from latspan.testing._payloads._base import CALL_ID, CALL_NAME, StreamPayloads, encode
from latspan.testing._script import TOKEN_PARTS, PayloadPart, Script, ScriptStep
from latspan.testing._served import Ledger

_INCOMPLETE: Final = {"length": "max_output_tokens", "content_filter": "content_filter"}
"""Reasons of an incomplete response, by the finish reason of chat completions."""


class _Item:
    """
    One output item: a message, a reasoning summary, or a tool call.

    Args:
        piece: Kind of content.
        index: Position in the output, from 0.
    """

    def __init__(self, piece: PayloadPart, index: int) -> None:
        self.piece = piece
        self.index = index
        self.text = ""
        prefix = {PayloadPart.REASONING: "rs", PayloadPart.TOOL_CALL: "fc"}.get(piece, "msg")
        self.id = f"{prefix}_{index}"

    @property
    def place(self) -> dict[str, Any]:
        """Fields of its events that identify the item."""
        place: dict[str, Any] = {"item_id": self.id, "output_index": self.index}
        if self.piece is PayloadPart.TOOL_CALL:
            return place
        return place | {
            f"{'summary' if self.piece is PayloadPart.REASONING else 'content'}_index": 0
        }

    @property
    def part(self) -> dict[str, Any]:
        """Content part with the text of the item."""
        if self.piece is PayloadPart.REASONING:
            return {"type": "summary_text", "text": self.text}
        if self.piece is PayloadPart.REFUSAL:
            return {"type": "refusal", "refusal": self.text}
        return {"type": "output_text", "text": self.text, "annotations": [], "logprobs": []}

    def payload(self, status: str) -> dict[str, Any]:
        """Return the item as it is in the output; without its part while it is in progress."""
        parts = [] if status == "in_progress" else [self.part]
        if self.piece is PayloadPart.REASONING:
            return {"id": self.id, "type": "reasoning", "summary": parts}
        kept = {"id": self.id, "status": status}
        if self.piece is PayloadPart.TOOL_CALL:
            call = {"call_id": CALL_ID, "name": CALL_NAME, "arguments": self.text}
            return kept | {"type": "function_call"} | call
        return kept | {"type": "message", "role": "assistant", "content": parts}


_NAMES: Final = {
    PayloadPart.TEXT: "output_text",
    PayloadPart.REFUSAL: "refusal",
    PayloadPart.REASONING: "reasoning_summary_text",
    PayloadPart.TOOL_CALL: "function_call_arguments",
}


class OpenAIResponses(StreamPayloads):
    """Payloads of one response."""

    requires = "input"

    def __init__(
        self, script: Script, body: Mapping[str, Any], *, number: int, created_s: int
    ) -> None:
        super().__init__(script, body, number=number, created_s=created_s)
        self._sequence = 0
        self._items: list[_Item] = []
        self._open: _Item | None = None

    def step(self, step: ScriptStep) -> bytes:
        """Return the step's event, preceded by the events that open its item."""
        events = self._begun()
        if step.piece not in TOKEN_PARTS:
            # The API has no event for a role or an empty delta: a progress event is sent.
            return events + self._event("response.in_progress", response=self._response())
        if self._open is None or self._open.piece is not step.piece:
            events += self._closed() + self._opened(step.piece)
        item = self._item
        item.text += step.text
        more: dict[str, Any] = {"logprobs": []} if step.piece is PayloadPart.TEXT else {}
        name = f"response.{_NAMES[step.piece]}.delta"
        return events + self._event(name, **item.place, delta=step.text, **more)

    def finish(self, ledger: Ledger) -> bytes:  # noqa: ARG002 - the API reports no timings
        """Return the events that complete the last item."""
        return self._begun() + self._closed()

    def end_mark(self) -> bytes:
        """Return the event with the complete response."""
        status = self._status
        return self._event(f"response.{status}", response=self._response(status))

    def error_event(self) -> bytes:
        """Return an ``error`` event."""
        return self._event("error", code="server_error", message=self.script.error, param=None)

    def whole(self, ledger: Ledger) -> dict[str, Any]:  # noqa: ARG002 - the API reports no timings
        """Return the complete response."""
        for step in self.script.steps:
            if step.piece in TOKEN_PARTS:
                self.step(step)
        self._open = None
        return self._response(self._status)

    @property
    def _status(self) -> str:
        reason = self.script.finish_reason
        if reason in _INCOMPLETE:
            return "incomplete"
        return "failed" if reason == "error" else "completed"

    @property
    def _item(self) -> _Item:
        return self._items[-1]

    def _begun(self) -> bytes:
        if self._sequence:
            return b""
        return self._event("response.created", response=self._response())

    def _opened(self, piece: PayloadPart) -> bytes:
        item = self._open = _Item(piece, len(self._items))
        self._items.append(item)
        events = self._event(
            "response.output_item.added",
            output_index=item.index,
            item=item.payload("in_progress"),
        )
        return events + self._part_event(item, "added")

    def _closed(self) -> bytes:
        item, self._open = self._open, None
        if item is None:
            return b""
        field = {PayloadPart.REFUSAL: "refusal", PayloadPart.TOOL_CALL: "arguments"}.get(
            item.piece, "text"
        )
        more: dict[str, Any] = {"logprobs": []} if item.piece is PayloadPart.TEXT else {}
        if item.piece is PayloadPart.TOOL_CALL:
            more["name"] = CALL_NAME
        return (
            self._event(
                f"response.{_NAMES[item.piece]}.done", **item.place, **{field: item.text}, **more
            )
            + self._part_event(item, "done")
            + self._event(
                "response.output_item.done",
                output_index=item.index,
                item=item.payload("completed"),
            )
        )

    def _part_event(self, item: _Item, what: str) -> bytes:
        if item.piece is PayloadPart.TOOL_CALL:
            return b""
        part = "reasoning_summary_part" if item.piece is PayloadPart.REASONING else "content_part"
        return self._event(f"response.{part}.{what}", **item.place, part=item.part)

    def _event(self, name: str, /, **fields: Any) -> bytes:
        number, self._sequence = self._sequence, self._sequence + 1
        return encode({"type": name, "sequence_number": number, **fields}, event=name)

    def _response(self, status: str = "in_progress") -> dict[str, Any]:
        done = status != "in_progress"
        reason = _INCOMPLETE.get(self.script.finish_reason)
        failure = {"code": "server_error", "message": self.script.error}
        return {
            "id": f"resp_{self.number}",
            "object": "response",
            "created_at": self.created_s,
            "status": status,
            "error": failure if status == "failed" else None,
            "incomplete_details": {"reason": reason} if status == "incomplete" else None,
            "instructions": None,
            "metadata": {},
            "model": self.model,
            "output": [item.payload("completed") for item in self._items] if done else [],
            "parallel_tool_calls": True,
            "temperature": 1.0,
            "tool_choice": "auto",
            "tools": [],
            "top_p": 1.0,
            "usage": self._usage() if done and self.script.reports_usage else None,
        }

    def _usage(self) -> dict[str, Any]:
        script = self.script
        return {
            "input_tokens": script.prompt_tokens,
            "input_tokens_details": {
                "cached_tokens": script.cached_tokens,
                "cache_write_tokens": script.cache_write_tokens,
            },
            "output_tokens": script.tokens,
            "output_tokens_details": {"reasoning_tokens": self.reasoning_tokens},
            "total_tokens": script.prompt_tokens + script.tokens,
        }
