"""What the payloads of every API have in common."""

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
"""The one tool that scripted answers call."""


def to_json(payload: Mapping[str, Any]) -> str:
    """Return ``payload`` as compact JSON, its text as it is, as servers send it."""
    return json.dumps(payload, ensure_ascii=False, separators=(",", ":"))


def encode(payload: Mapping[str, Any], *, event: str | None = None) -> bytes:
    """Return one server-sent event that holds ``payload``."""
    return encode_event(to_json(payload), event=event)


def error_payload(status: int, message: str) -> dict[str, Any]:
    """Return the JSON of an error, in OpenAI's shape."""
    kind = "invalid_request_error" if status in range(400, 500) else "server_error"
    return {"error": {"code": status, "message": message, "type": kind}}


class Payloads(ABC):
    """
    Every payload of one answer.

    Args:
        script: The plan.
        body: The request's.
        number: Number of the answer, from 0; its id is made of it.
        created_s: Unix time, in seconds, that every payload carries.
    """

    method: ClassVar[str] = "POST"
    requires: ClassVar[str | None]
    """The field of a request's body that makes it one of this API's; ``None``: it has no body."""
    needs_model: ClassVar[bool] = True
    """Whether a model has to work for the answer; else no script says what it is."""

    def __init__(
        self, script: Script, body: Mapping[str, Any], *, number: int, created_s: int
    ) -> None:
        self.script = script
        self.body = body
        self.number = number
        self.created_s = created_s

    @property
    def model(self) -> str:
        """The name to answer under."""
        return str(self.body.get("model", "scripted"))

    @abstractmethod
    def whole(self, ledger: Ledger) -> dict[str, Any]:
        """Return the body of an answer that does not stream."""

    @classmethod
    def error(cls, status: int, message: str) -> dict[str, Any]:
        """Return the body of an error."""
        return error_payload(status, message)


class StreamPayloads(Payloads):
    """
    Every payload of one answer of an API that can stream.

    The methods that return events are called in the order in which their events are written.
    """

    @property
    def streams(self) -> bool:
        """Whether the answer is to come in events."""
        return bool(self.body.get("stream", False))

    @property
    def usage_has_a_chunk(self) -> bool:
        """Whether the stream counts its tokens in an event of its own."""
        return False

    @abstractmethod
    def step(self, step: Step) -> bytes:
        """Return the events for ``step``, which is no comment."""

    @abstractmethod
    def finish(self, ledger: Ledger) -> bytes:
        """Return the events that end the content."""

    def usage(self, ledger: Ledger) -> bytes:  # noqa: ARG002 - for those that count apart
        """Return the event that does nothing but count the tokens, if there is one."""
        return b""

    @abstractmethod
    def end_mark(self) -> bytes:
        """Return the event after which nothing more comes."""

    def error_event(self) -> bytes:
        """Return the event of an error inside a stream whose status was 200."""
        return encode(self.error(500, self.script.error))

    def text(self, piece: PayloadPart) -> str:
        """Return all that the script's steps of one kind hold."""
        return "".join(step.text for step in self.script.steps if step.piece is piece)

    @property
    def reasoning_tokens(self) -> int:
        """Tokens of reasoning, which are among all tokens."""
        return sum(s.tokens for s in self.script.steps if s.piece is PayloadPart.REASONING)
