"""Base classes for the payloads of every API."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from latspan._wire import encode_event
from latspan.testing._script import PayloadPart, Script, Step
from latspan.testing._served import Ledger

__all__ = [
    "CALL_ID",
    "CALL_NAME",
    "Payloads",
    "StreamPayloads",
    "encode",
    "error_payload",
    "to_json",
]

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

    @property
    def streams(self) -> bool:
        """Whether the response is to be streamed as events."""
        return bool(self.body.get("stream", False))

    @property
    def usage_has_a_chunk(self) -> bool:
        """Whether the stream has its token counts in a separate event."""
        return False

    @abstractmethod
    def step(self, step: Step) -> bytes:
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

    def text(self, piece: PayloadPart) -> str:
        """Return the combined text of the script's steps of one kind."""
        return "".join(step.text for step in self.script.steps if step.piece is piece)

    @property
    def reasoning_tokens(self) -> int:
        """Number of reasoning tokens, which are included in the total."""
        return sum(s.tokens for s in self.script.steps if s.piece is PayloadPart.REASONING)
