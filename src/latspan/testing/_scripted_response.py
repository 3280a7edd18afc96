"""
Responses: a script and a request rendered as byte frames, each with a time.

Only this module defines what a model server writes, and in which order. It does not read a clock:
the caller that plays a response records when each frame is sent, and renders the frame after that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from itertools import groupby
from typing import Any, Final

from latspan.testing._http import LAST_CHUNK, HttpRequest, encode_chunk, encode_head
from latspan.testing._payloads import (
    InvalidRequestError,
    ModelRequest,
    StreamPayloads,
    to_json,
)
from latspan.testing._script import Ending, PayloadPart, Script, ScriptStep, ServerFlavor, total_ns
from latspan.testing._served import Ledger

_OK: Final = 200


class Farewell(Enum):
    """What happens to the connection after a response."""

    KEEP = auto()
    CLOSE = auto()
    RESET = auto()


@dataclass(frozen=True, slots=True)
class Part:
    """
    One part of a response, with its due time.

    Args:
        offset_ns: Due time in nanoseconds since the end of the queue.
        piece: Kind of content.
        step: ScriptStep of the script; ``None`` for parts that are not in the script.
    """

    offset_ns: int
    piece: PayloadPart
    step: ScriptStep | None = None


@dataclass(frozen=True, slots=True)
class Frame:
    """
    Parts that are sent in one write.

    Args:
        offset_ns: Due time in nanoseconds since the end of the queue.
        parts: Parts to write; empty if only the connection's end is due.
    """

    offset_ns: int
    parts: tuple[Part, ...]


class Rotation:
    """
    Scripts that are served in order, repeatedly.

    Args:
        scripts: One script, or several.

    Raises:
        ValueError: There is no script.
    """

    __slots__ = ("_next", "_scripts")

    def __init__(self, scripts: Script | Iterable[Script]) -> None:
        self._scripts = (scripts,) if isinstance(scripts, Script) else tuple(scripts)
        if not self._scripts:
            raise ValueError("a server needs at least one script")
        self._next = 0

    @property
    def scripts(self) -> tuple[Script, ...]:
        """All of them, in order."""
        return self._scripts

    @property
    def upcoming(self) -> Script:
        """Script that :meth:`take` returns next."""
        return self._scripts[self._next]

    def take(self) -> Script:
        """Return the next script and advance to the one after it."""
        script = self.upcoming
        self._next = (self._next + 1) % len(self._scripts)
        return script


class ScriptedResponse:
    """
    Response of a script to one request; its frames are rendered in order, each once.

    Args:
        script: The script.
        request: The request.
        number: Number of the response, from 0; its id is derived from it.
        created_s: Unix time, in seconds, in every payload.
        keeps_alive: Whether the connection serves further requests; if not, a response header
            announces its end.
    """

    __slots__ = ("_headers", "_payloads", "_script", "_stream")

    def __init__(
        self,
        script: Script,
        request: ModelRequest,
        *,
        number: int,
        created_s: int,
        keeps_alive: bool = True,
    ) -> None:
        self._script = script
        self._headers = {} if keeps_alive else {"connection": "close"}
        payloads = request.api(script, request.body, number=number, created_s=created_s)
        self._payloads = payloads
        self._stream = None
        if isinstance(payloads, StreamPayloads) and payloads.streams and script.status == _OK:
            self._stream = payloads

    @property
    def needs_slot(self) -> bool:
        """Whether the response needs a slot of the model."""
        return self._payloads.needs_model and self._script.status == _OK

    @property
    def farewell(self) -> Farewell:
        """What happens to the connection afterwards."""
        ending = self._script.ending
        if ending is Ending.RESET:
            return Farewell.RESET
        # A body with a content length can be cut short only by closing the connection.
        if ending is Ending.CUT or (ending is Ending.TRUNCATED and self._stream is None):
            return Farewell.CLOSE
        return Farewell.KEEP

    @property
    def greeting(self) -> tuple[Frame, ...]:
        """Frames that are written as soon as the request is accepted, whatever the queue."""
        if self._stream is not None and self._script.flavor is ServerFlavor.PLAIN:
            return (Frame(0, (Part(0, PayloadPart.HEADERS),)),)
        return ()

    @property
    def frames(self) -> tuple[Frame, ...]:
        """Frames that are written from the end of the queue on, in order of time."""
        stream = self._stream
        return tuple(self._whole_frames() if stream is None else self._stream_frames(stream))

    def render(self, frame: Frame, ledger: Ledger) -> bytes:
        """
        Return the bytes of ``frame``.

        Args:
            frame: A frame of this response.
            ledger: Record of what has been written so far, this frame included.
        """
        pieces = [part.piece for part in frame.parts]
        stream = self._stream
        if PayloadPart.BODY in pieces:
            return self._whole(ledger)
        if stream is None:
            return b""
        if PayloadPart.END in pieces:
            return LAST_CHUNK
        if PayloadPart.HEADERS in pieces:
            head = {"content-type": stream.media_type, "transfer-encoding": "chunked"}
            return encode_head(_OK, {**head, **self._headers})
        events = b"".join(_event(stream, part, ledger) for part in frame.parts)
        return encode_chunk(events) if events else b""

    def _whole_frames(self) -> Iterator[Frame]:
        script = self._script
        refused = script.status != _OK
        due_ns = script.prefill_ns if refused else total_ns(script) - script.queue_ns
        parts = (Part(due_ns, PayloadPart.HEADERS), Part(due_ns, PayloadPart.BODY))
        yield Frame(due_ns, () if self.farewell is Farewell.RESET else parts)

    def _stream_frames(self, stream: StreamPayloads) -> Iterator[Frame]:
        if not self.greeting:
            yield Frame(0, (Part(0, PayloadPart.HEADERS),))
        script = self._script
        steps = sorted(
            [*_timed(script.lead, 0), *_timed(script.steps, script.prefill_ns)],
            key=lambda part: part.offset_ns,
        )
        for offset_ns, parts in groupby(steps, key=lambda part: part.offset_ns):
            yield Frame(offset_ns, tuple(parts))
        due_ns = total_ns(script) - script.queue_ns
        for pieces in self._endings(stream):
            yield Frame(due_ns, tuple(Part(due_ns, piece) for piece in pieces))

    def _endings(self, stream: StreamPayloads) -> Iterator[tuple[PayloadPart, ...]]:
        ending = self._script.ending
        if ending in {Ending.DONE, Ending.UNMARKED}:
            apart = stream.usage_has_a_chunk
            yield (PayloadPart.FINISH, PayloadPart.USAGE) if apart else (PayloadPart.FINISH,)
        if ending is Ending.DONE:
            yield (PayloadPart.DONE,)
        if ending is Ending.ERROR:
            yield (PayloadPart.ERROR,)
        yield (PayloadPart.END,) if self.farewell is Farewell.KEEP else ()

    def _whole(self, ledger: Ledger) -> bytes:
        script = self._script
        if script.status != _OK:
            retry = script.retry_after_s
            retry_after = {} if retry is None else {"retry-after": f"{retry:g}"}
            payload = self._payloads.error(script.status, script.error)
            return encode_json(script.status, payload, {**retry_after, **self._headers})
        if script.ending is Ending.ERROR:
            return encode_json(500, self._payloads.error(500, script.error), self._headers)
        whole = encode_json(_OK, self._payloads.whole(ledger), self._headers)
        return whole[:-1] if self.farewell is Farewell.CLOSE else whole


def encode_json(
    status: int, payload: Mapping[str, Any], headers: Mapping[str, str] | None = None
) -> bytes:
    """Return a complete response with a JSON body."""
    body = to_json(payload).encode()
    head = {"content-type": "application/json", "content-length": str(len(body))}
    return encode_head(status, head | dict(headers or {})) + body


def refuse(request: HttpRequest, error: InvalidRequestError) -> bytes:
    """
    Return the response to a request that is not for a model; without its body for ``HEAD``.

    Source: RFC 9110, 9.3.2.
    """
    whole = encode_json(error.status, error.payload)
    head, blank, _ = whole.partition(b"\r\n\r\n")
    return head + blank if request.method == "HEAD" else whole


def _timed(steps: Iterable[ScriptStep], start_ns: int) -> Iterator[Part]:
    offset_ns = start_ns
    for step in steps:
        offset_ns += step.gap_ns
        yield Part(offset_ns, step.piece, step)


def _event(stream: StreamPayloads, part: Part, ledger: Ledger) -> bytes:
    if part.step is not None:
        if part.piece is PayloadPart.COMMENT:
            return stream.comment(part.step.text)
        return stream.step(part.step)
    if part.piece is PayloadPart.FINISH:
        return stream.finish(ledger)
    if part.piece is PayloadPart.USAGE:
        return stream.usage(ledger)
    if part.piece is PayloadPart.DONE:
        return stream.end_mark()
    return stream.error_event()
