"""
Incremental reader of Amazon's event stream encoding, in which Bedrock streams its responses.

A message has its length, the length of its headers, a checksum of the two, the headers, the payload
and a checksum of all. The header ``:event-type`` names the event, and Bedrock's payloads are JSON.
Each message becomes one JSON text with the event's name as its only key, which is the shape in
which boto3 returns events: ``{"contentBlockDelta":{"delta":{"text":"a"}}}``. The event ``chunk`` of
a model's own format has it in base64; here it is decoded: ``{"chunk":{"outputText":"a"}}``.

The checksums are not verified, because the client does that. Lengths are checked before they are
used. If one is impossible, the rest of the body cannot be split, and it is ignored.

Source: AWS, "Amazon event stream specification" (Smithy).
"""

from __future__ import annotations

import binascii
import json
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Final

from latspan._model.wire._api_format import ApiFormat
from latspan._model.wire._stream_reader import MAX_FIRST_BYTES, NO_EVENTS, StreamReader

_PRELUDE: Final = struct.Struct(">II")
_PRELUDE_SIZE: Final = 12
"""Size of the two lengths and their checksum."""
_CHECKSUM_SIZE: Final = 4
_MIN_SIZE: Final = _PRELUDE_SIZE + _CHECKSUM_SIZE
_MAX_SIZE: Final = 1 << 25
"""Maximum size of a message in bytes; the specification allows 24 MiB of payload."""

_MAX_HEADERS_SIZE: Final = 1 << 12
"""Maximum size in bytes of the headers that are read; those of Bedrock take about 100."""

_STRING: Final = 7
_BYTES: Final = 6
_FIXED: Final = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
"""Size of a header's value in bytes, by its type; strings and bytes have a length of their own."""

_CODED: Final = re.compile(rb'"bytes"\s*:\s*"([A-Za-z0-9+/=]*)"')


class MessageReader(StreamReader):
    """
    Reader of one stream of binary messages; each message is one event.

    A message counts once its last byte has arrived, because a client verifies its checksum.
    """

    __slots__ = ("_damaged", "_needed")

    def __init__(self, known: Sequence[ApiFormat], keep: Callable[[bytes], object]) -> None:
        super().__init__(known, keep)
        self._needed = _PRELUDE_SIZE
        self._damaged = False

    def feed(self, data: bytes) -> Sequence[int]:
        """Return the chunk kinds of the messages that ``data`` completes, in order."""
        if self.foreign or self._damaged:
            return NO_EVENTS
        self._parts.append(data)
        self._length += len(data)
        if self._length < self._needed:
            return NO_EVENTS
        kinds: list[int] = []
        for event in self._messages(b"".join(self._parts)):
            kinds.append(self._classified(event))
            if self.foreign:
                return NO_EVENTS
        return kinds

    def _messages(self, data: bytes) -> Iterator[bytes]:
        """Yield the events of the complete messages, and keep the bytes after the last one."""
        at, self._needed = 0, _PRELUDE_SIZE
        while len(data) - at >= _PRELUDE_SIZE:
            size, headers_size = _PRELUDE.unpack_from(data, at)
            longest = MAX_FIRST_BYTES if self.api_format is None else _MAX_SIZE
            if not _MIN_SIZE <= size <= longest or headers_size > size - _MIN_SIZE:
                self._stop()
                return
            if len(data) - at < size:
                self._needed = size
                break
            payload_at = at + _PRELUDE_SIZE + headers_size
            if headers_size <= _MAX_HEADERS_SIZE:
                name = _event_name(data[at + _PRELUDE_SIZE : payload_at])
                if name is not None:
                    yield _event(name, data[payload_at : at + size - _CHECKSUM_SIZE])
            at += size
        rest = data[at:]
        self._parts, self._length = ([rest] if rest else []), len(rest)

    def _stop(self) -> None:
        """Ignore the rest: the length of a message is not possible."""
        if self.api_format is None:
            self._give_up()
        self._damaged = True
        self._parts.clear()


def _event(name: bytes, payload: bytes) -> bytes:
    if name == b"chunk":
        coded = _CODED.search(payload)
        if coded is not None:
            try:
                payload = binascii.a2b_base64(coded[1])
            except binascii.Error:
                payload = b""
    elif name.startswith(b"!"):
        # The message of an error may contain a part of the prompt, so only its name is kept.
        name, payload = b"error", b'{"type":"%s"}' % name[1:]
    return b'{"%s":%s}' % (name, payload or b"{}")


# The messages of one kind have the same headers, and a stream has few kinds. The limit bounds the
# memory if a server sends arbitrary headers.
@lru_cache(maxsize=64)
def _event_name(headers: bytes) -> bytes | None:
    """
    Return the name of the event that a message holds, as it is written inside a JSON string.

    Returns:
        ``!`` and the name for an exception; ``None`` for a message that is not an event, or whose
        headers cannot be read.
    """
    try:
        found = dict(_headers(headers))
    except (IndexError, KeyError, struct.error):
        return None
    kind = found.get(b":message-type", b"event")
    if kind == b"event":
        name, mark = found.get(b":event-type"), b""
    else:
        name, mark = found.get(b":exception-type") or found.get(b":error-code"), b"!"
    if name is None:
        return None
    return mark + json.dumps(name.decode(errors="replace"))[1:-1].encode()


def _headers(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the names and values of the headers that are strings."""
    at = 0
    while at < len(block):
        name_at = at + 1
        at = name_at + block[at]
        name, kind = block[name_at:at], block[at]
        at += 1
        if kind in {_BYTES, _STRING}:
            (size,) = struct.unpack_from(">H", block, at)
            at += 2
            if kind == _STRING:
                yield name, block[at : at + size]
        else:
            size = _FIXED[kind]
        at += size
