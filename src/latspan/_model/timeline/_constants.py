"""
Constants of a call's timeline: marks, segment names and sources, each looked up once.

Each access to a member of an enumeration costs a lookup, up to Python 3.11 as much as a function
call, and a timeline needs about sixty. The names of segments are plain strings here, as in
:class:`~latspan._model.segments.Segment`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

from latspan._model.segments import Mark, SegmentName, Source

START: Final = Mark.START
SENT: Final = Mark.SENT
HEADERS: Final = Mark.HEADERS
FIRST_CHUNK: Final = Mark.FIRST_CHUNK
FIRST_TOKEN: Final = Mark.FIRST_TOKEN
FIRST_VISIBLE: Final = Mark.FIRST_VISIBLE
LAST_TOKEN: Final = Mark.LAST_TOKEN
STREAM_END: Final = Mark.STREAM_END
DONE: Final = Mark.DONE

MEASURED: Final = Source.MEASURED
SERVER_REPORTED: Final = Source.SERVER_REPORTED
ESTIMATED: Final = Source.ESTIMATED
UNKNOWN: Final = Source.UNKNOWN

PREPARE: Final[str] = SegmentName.PREPARE.value
RETRY: Final[str] = SegmentName.RETRY.value
POOL_WAIT: Final[str] = SegmentName.POOL_WAIT.value
CONNECT: Final[str] = SegmentName.CONNECT.value
DNS: Final[str] = SegmentName.DNS.value
TCP: Final[str] = SegmentName.TCP.value
TLS: Final[str] = SegmentName.TLS.value
SEND: Final[str] = SegmentName.SEND.value
SERVER_WAIT: Final[str] = SegmentName.SERVER_WAIT.value
NETWORK: Final[str] = SegmentName.NETWORK.value
GATEWAY: Final[str] = SegmentName.GATEWAY.value
QUEUE: Final[str] = SegmentName.QUEUE.value
MODEL_LOAD: Final[str] = SegmentName.MODEL_LOAD.value
PREFILL: Final[str] = SegmentName.PREFILL.value
REASONING: Final[str] = SegmentName.REASONING.value
DECODE: Final[str] = SegmentName.DECODE.value
CONSUMER: Final[str] = SegmentName.CONSUMER.value
STREAM_CLOSE: Final[str] = SegmentName.STREAM_CLOSE.value
POSTPROCESS: Final[str] = SegmentName.POSTPROCESS.value
EVENT_LOOP: Final[str] = SegmentName.EVENT_LOOP.value
UNATTRIBUTED: Final[str] = SegmentName.UNATTRIBUTED.value

new_tuple: Final = cast("Callable[..., Any]", tuple.__new__)  # pyright: ignore[reportUnknownMemberType]
"""
Constructor of a named tuple from its type and all its fields, in order.

Unlike the constructor that Python generates for the type, it runs in C: for use with ``map``.
"""
