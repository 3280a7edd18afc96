"""Base classes for the payloads of every API."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from latspan._model.wire import encode_comment, encode_event
from latspan.testing._script import TOKEN_PARTS, PayloadPart, Script, ScriptStep
from latspan.testing._served import Ledger

CALL_ID: Final = "call_0"
CALL_NAME: Final = "look_up"
"""Name of the tool that scripted responses call."""


def to_json(payload: Mapping[str, Any]) -> str:
    """Return ``payload`` as compact JSON without ASCII escapes, as servers send it."""
    return json.dumps(payload, ensure_ascii=False, separators=(",", ":"))


def encode(payload: Mapping[str, Any], *, event: str | None = None) -> bytes:
    """Return one server-sent event with ``payload`` as its data."""
    return encode_event(to_json(payload), event=event)


def error_payload(status: int, message: str) -> dict[str, Any]:
    """Return the JSON of an error, in OpenAI's format."""
    kind = "invalid_request_error" if status in range(400, 500) else "server_error"
    return {"error": {"code": status, "message": message, "type": kind}}


class Payloads(ABC):
    """
    Payloads of one response.

    Args:
        script: The plan.
        body: Body of the request.
        number: Number of the response, from 0; its id is derived from it.
        created_s: Unix time, in seconds, in every payload.
    """

    method: ClassVar[str] = "POST"
    requires: ClassVar[str | None]
    """Field that a request's body must have for this API; ``None``: requests have no body."""
    needs_model: ClassVar[bool] = True
    """Whether a model generates the response, so that a script defines it."""

    def __init__(
        self, script: Script, body: Mapping[str, Any], *, number: int, created_s: int
    ) -> None:
        self.script = script
        self.body = body
        self.number = number
        self.created_s = created_s

    @classmethod
    def from_path(cls, path: str) -> Mapping[str, Any]:  # noqa: ARG003 - for APIs that use it
        """Return the fields that the path defines, as if the request's body had them."""
        return {}

    @property
    def model(self) -> str:
        """Model name in the response."""
        return str(self.body.get("model", "scripted"))

    @abstractmethod
    def whole(self, ledger: Ledger) -> dict[str, Any]:
        """Return the body of a response that does not stream."""

    @classmethod
    def error(cls, status: int, message: str) -> dict[str, Any]:
        """Return the body of an error."""
        return error_payload(status, message)


class StreamPayloads(Payloads):
    """
    Payloads of one response of an API that can stream.

    The methods that return events are called in the order in which their events are written.
    """

    media_type: ClassVar[str] = "text/event-stream"
    """Media type of the stream."""

    @property
    def streams(self) -> bool:
        """Whether the response is to be streamed as events."""
        return bool(self.body.get("stream", False))

    @property
    def usage_has_a_chunk(self) -> bool:
        """Whether the stream has its token counts in a separate event."""
        return False

    @abstractmethod
    def step(self, step: ScriptStep) -> bytes:
        """Return the events for ``step``, which is not a comment."""

    @abstractmethod
    def finish(self, ledger: Ledger) -> bytes:
        """Return the events that end the content."""

    def usage(self, ledger: Ledger) -> bytes:  # noqa: ARG002 - for APIs with a separate usage event
        """Return the event that only has the token counts; empty if there is none."""
        return b""

    @abstractmethod
    def end_mark(self) -> bytes:
        """Return the last event of the stream."""

    def error_event(self) -> bytes:
        """Return the event of an error inside a stream whose status was 200."""
        return encode(self.error(500, self.script.error))

    def comment(self, text: str) -> bytes:
        """Return a comment; empty if the media type has none."""
        return encode_comment(text)

    def text(self, piece: PayloadPart) -> str:
        """Return the combined text of the script's steps of one kind."""
        return "".join(step.text for step in self.script.steps if step.piece is piece)

    @property
    def reasoning_tokens(self) -> int:
        """Number of reasoning tokens, which are included in the total."""
        return sum(s.tokens for s in self.script.steps if s.piece is PayloadPart.REASONING)


class BlockPayloads(StreamPayloads):
    """Payloads of an API whose stream has events around blocks, each of one kind of content."""

    def __init__(
        self, script: Script, body: Mapping[str, Any], *, number: int, created_s: int
    ) -> None:
        super().__init__(script, body, number=number, created_s=created_s)
        self._started = False
        self._open: PayloadPart | None = None
        self._blocks = 0

    @abstractmethod
    def message_start(self) -> bytes:
        """Return the event that begins the message."""

    @abstractmethod
    def block_start(self, piece: PayloadPart) -> bytes:
        """Return the event that begins the latest block, if it has one."""

    @abstractmethod
    def block_end(self, piece: PayloadPart) -> bytes:
        """Return the events that end the latest block."""

    def _begun(self) -> bytes:
        """Return the event that begins the message, once."""
        if self._started:
            return b""
        self._started = True
        return self.message_start()

    def _entered(self, piece: PayloadPart) -> bytes:
        """Return the events that must precede content of this kind."""
        events = self._begun()
        if piece not in TOKEN_PARTS or self._open is piece:
            return events
        events += self._closed()
        self._open = piece
        self._blocks += 1
        return events + self.block_start(piece)

    def _closed(self) -> bytes:
        """Return the events that end the open block, if there is one."""
        piece, self._open = self._open, None
        return b"" if piece is None else self.block_end(piece)
