"""
Payloads of the providers' APIs: server-sent events, chunks, token counts and content.

The functions here are pure functions over payloads. Every integration and the test servers use
them. They do not depend on a client library, a clock or OpenTelemetry.
"""

from __future__ import annotations

from latspan._model.wire._api_format import (
    FETCH_RESPONSE,
    INFERENCES,
    ApiFormat,
    ChunkKind,
    Framing,
    StreamFormat,
    framing_of,
)
from latspan._model.wire._body import (
    DEEPEST,
    Body,
    ResponseMetadata,
    copied,
    error_in,
    events_in,
    to_plain,
)
from latspan._model.wire._content import (
    Content,
    ContentShape,
    Fragment,
    FragmentKind,
    Message,
    Part,
    copy_fields,
    output_messages,
)
from latspan._model.wire._events import DONE, EventReader, encode_comment, encode_event
from latspan._model.wire._fields import choices_in, choices_requested, has_finish_reason
from latspan._model.wire._readers import open_reader
from latspan._model.wire._serialized import MAX_CONTENT_LENGTH, as_data, as_json, written
from latspan._model.wire._stream_reader import StreamReader
from latspan._model.wire._usage import Usage, get_path
from latspan._model.wire.server_timing import as_number

__all__ = [
    "DEEPEST",
    "DONE",
    "FETCH_RESPONSE",
    "INFERENCES",
    "MAX_CONTENT_LENGTH",
    "ApiFormat",
    "Body",
    "ChunkKind",
    "Content",
    "ContentShape",
    "EventReader",
    "Fragment",
    "FragmentKind",
    "Framing",
    "Message",
    "Part",
    "ResponseMetadata",
    "StreamFormat",
    "StreamReader",
    "Usage",
    "as_data",
    "as_json",
    "as_number",
    "choices_in",
    "choices_requested",
    "copied",
    "copy_fields",
    "encode_comment",
    "encode_event",
    "error_in",
    "events_in",
    "framing_of",
    "get_path",
    "has_finish_reason",
    "open_reader",
    "output_messages",
    "to_plain",
    "written",
]
