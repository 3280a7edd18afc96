"""Responses of the scripted server, generated without a clock."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from latspan.testing import PayloadPart, Script
from latspan.testing._http import HttpRequest, parse_request
from latspan.testing._payloads import read_request
from latspan.testing._scripted_response import ScriptedResponse
from latspan.testing._served import Ledger, WriteRecord


def as_request(
    body: dict[str, Any] | bytes, *, path: str = "/v1/chat/completions", method: str = "POST"
) -> HttpRequest:
    """Return a request to a model server."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\ncontent-length: {len(data)}\r\n\r\n"
    return parse_request(head.encode() + data)


@dataclass(frozen=True)
class Played:
    """
    A generated response.

    Args:
        pieces: What the server's own record contains about each write.
        frames: The bytes, one item per write.
        answer: The response that produced the frames.
    """

    pieces: list[PayloadPart]
    frames: tuple[bytes, ...]
    answer: ScriptedResponse

    @property
    def written(self) -> bytes:
        """All bytes of the response."""
        return b"".join(self.frames)

    @property
    def events(self) -> list[Any]:
        """The data of every event of a stream except ``[DONE]``."""
        lines = [line for line in self.written.split(b"\n") if line.startswith(b"data: {")]
        return [json.loads(line.removeprefix(b"data: ")) for line in lines]

    @property
    def body(self) -> Any:
        """The body of a non-streaming response."""
        return json.loads(self.written.partition(b"\r\n\r\n")[2])


def play(
    script: Script,
    *,
    path: str = "/v1/chat/completions",
    method: str = "POST",
    late_ns: int = 0,
    **asked: Any,
) -> Played:
    """
    Generate the response of ``script`` to one request.

    Args:
        script: The plan of the response.
        path: Path of the API.
        method: HTTP method.
        late_ns: Delay of every frame behind the plan, in nanoseconds.
        asked: Fields of the request's body, except the model's name.
    """
    request = as_request({"model": "m", **asked}, path=path, method=method)
    answer = ScriptedResponse(script, read_request(request), number=7, created_s=1)
    ledger = Ledger(0, 0, request, accepted_ns=0, slot_ns=script.queue_ns)
    frames: list[bytes] = []
    for frame in (*answer.greeting, *answer.frames):
        instant_ns = script.queue_ns + frame.offset_ns + late_ns
        ledger.writes += [WriteRecord(instant_ns, part.piece) for part in frame.parts]
        frames.append(answer.render(frame, ledger))
    return Played([write.piece for write in ledger.writes], tuple(frames), answer)
