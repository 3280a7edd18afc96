"""
Chunks and responses as plain mappings, read from SDK objects or from bytes.

The latest of them, and the headers, are the metadata of a response.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from latspan import semconv
from latspan._model.wire._usage import get_path

Body = Mapping[str, Any]
"""One body of a response as a plain mapping: a chunk of a stream, or the whole response."""

_NOTHING: Final[Body] = {}

_GZIP: Final = b"\x1f\x8b"
_GZIP_HEADER: Final = 31
"""Value of ``wbits`` with which zlib expects the header and checksum of gzip."""

_MAX_TEXT_BYTES: Final = 1 << 24
"""
Maximum size of a decompressed response in bytes; a larger one is not parsed.

The limit is needed because zeros compress a thousandfold.
"""

_OTHER: Final = "_OTHER"


@dataclass(frozen=True, slots=True)
class ResponseMetadata:
    """
    Metadata of a response, without its content.

    Args:
        streamed: ``True`` if the response arrived in chunks.
        bodies: The last bodies as plain mappings, oldest first: up to three chunks of a stream,
            or the only body of a response that was not streamed.
        headers: Response headers, names in lower case.
    """

    streamed: bool
    bodies: tuple[Body, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


def to_plain(response: Any) -> Body:
    """
    Return a chunk or response as a plain mapping, ``{}`` if it has no body.

    Args:
        response: An SDK object, a mapping, or bytes: one server-sent event, or JSON text,
            compressed with gzip or not.
    """
    if isinstance(response, bytes):
        return _parsed(response)
    if isinstance(response, Mapping):
        return cast("Body", response)
    dump = getattr(response, "model_dump", None)
    # The SDKs build their models without validation. A warning would be about data of the server,
    # which the application cannot fix.
    return cast("Body", dump(warnings=False)) if callable(dump) else _NOTHING


def events_in(text: bytes) -> tuple[bytes, ...]:
    """Return the events of a complete stream without its end mark; other text unchanged."""
    if b"\n\n" not in text and b"\r\n\r\n" not in text:
        return (text,)
    events = text.replace(b"\r\n", b"\n").split(b"\n\n")
    if not any(line.startswith(b"data:") for line in events[0].splitlines()):
        return (text,)
    return tuple([each for each in events if b"data:" in each and not each.endswith(b"[DONE]")])


_ERROR_EVENT: Final = re.compile(rb"^event:[ ]?error[ ]*$", re.MULTILINE)
"""Name of an event that reports an error, whatever its data is."""


def _parsed(text: bytes) -> Body:
    if text.startswith(_GZIP):
        text = _decompressed(text)
    lines = [
        line.partition(b":")[2].removeprefix(b" ")
        for line in text.splitlines()
        if line.startswith(b"data:")
    ]
    try:
        value: object = json.loads(b"\n".join(lines) if lines else text)
    except (ValueError, RecursionError):
        return _NOTHING
    body = cast("Body", value) if isinstance(value, dict) else _NOTHING
    if lines and "type" not in body and _ERROR_EVENT.search(text):
        return {**body, "type": "error"}
    return body


def _decompressed(text: bytes) -> bytes:
    inflate = zlib.decompressobj(_GZIP_HEADER)
    try:
        whole = inflate.decompress(text, _MAX_TEXT_BYTES)
    except zlib.error:
        return b""
    return whole if inflate.eof else b""


DEEPEST: Final = 64
"""
Maximum nesting of lists and mappings that is kept of requests and responses.

The copy is recursive and fails at a depth of some hundred levels, which any client or model can
send. An event keeps fewer levels as data, see :func:`~latspan._live.otel.spans.encodable_data`.
"""


_UNCHANGEABLE: Final = frozenset({str, int, float, bool})
_SCALARS: Final = (str, int, float)


def copied(
    value: Any,
    deepest: int = DEEPEST,
    left_out: list[object] | None = None,
    path: tuple[int, ...] = (),
    *,
    defaults: bool = False,
) -> Any:
    """
    Return plain data that shares nothing mutable with ``value``.

    A value that is neither plain data nor an SDK model is left out. Iterators are not consumed.

    Args:
        value: Data.
        deepest: Levels of lists and mappings to keep; deeper values are replaced by ``None``.
        left_out: Receives the values that are left out because of their type.
        path: The identities of the containers around ``value``.
        defaults: Whether the fields of an SDK model that have a default value are kept. A default
            may be sent, for example the role of a message, but is not a value that was received.

    Raises:
        ValueError: A container contains itself, which no client can send as JSON.
    """
    if value is None or isinstance(value, _SCALARS):
        return value
    if deepest == 0:
        return None
    identity = id(value)
    if identity in path:
        raise ValueError("a list or a mapping contains itself")
    path = (*path, identity)
    # `dict` is tested first: `isinstance` with an abstract class takes ten times as long, and this
    # runs for the usage of each call.
    if isinstance(value, dict) or (not hasattr(value, "model_dump") and isinstance(value, Mapping)):
        pairs = cast("Mapping[object, Any]", value).items()
        return {
            name if type(name) is str else str(name): inner
            if type(inner) in _UNCHANGEABLE
            else copied(inner, deepest - 1, left_out, path, defaults=defaults)
            for name, inner in pairs
        }
    if isinstance(value, list | tuple):
        items = cast("Sequence[Any]", value)
        return [copied(inner, deepest - 1, left_out, path, defaults=defaults) for inner in items]
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json", warnings=False, exclude_unset=not defaults)
    if left_out is not None:
        left_out.append(value)
    return None


_NO_MODEL: Final = object()


def fields_without(model: Any, *texts: str) -> dict[str, Any] | None:
    """
    Return the fields of an SDK object except those that hold text, which may be long.

    Args:
        model: The object. Fields that a server adds are read from the SDK's unknown fields.
        texts: The names of the fields to leave out.

    Returns:
        ``None`` if ``model`` is not an SDK object. Fields that are ``None`` are left out.
    """
    # Where `model_extra` of pydantic 2 reads it: the property would be a function call per object.
    extra: Any = getattr(model, "__pydantic_extra__", _NO_MODEL)
    if extra is _NO_MODEL:
        extra = getattr(model, "model_extra", _NO_MODEL)
        if extra is _NO_MODEL:
            return None
    own: dict[str, Any] = model.__dict__
    kept: dict[str, Any] = {}
    fields: dict[str, Any]
    for fields in (own, extra) if extra else (own,):
        for name, value in fields.items():
            if value is None or name in texts:
                continue
            kind = value.__class__
            if kind in _UNCHANGEABLE:
                kept[name] = value
            elif kind is dict or (inner := fields_without(value)) is None:
                kept[name] = copied(value)
            else:
                kept[name] = inner
    return kept


def named_in(bodies: Iterable[Body], names: Mapping[str, str]) -> dict[str, str | int | bool]:
    """
    Return the last text of each field in ``bodies`` that is not empty.

    Args:
        bodies: In order of arrival.
        names: The key to return for each field, by the API's name of the field.
    """
    found: dict[str, str | int | bool] = {}
    for body in bodies:
        for sent, name in names.items():
            value = body.get(sent)
            # Some servers send empty values in later chunks, which replace no known one.
            if isinstance(value, str) and (value or name not in found):
                found[name] = value
    return found


_TEXTS_OF_ERRORS: Final = ("message", "detail")
"""Fields with the text of an error; a body that has one, and no choices, is no response."""

_FAILED: Final = ("error", "abort")
"""Finish reasons of a choice that the server could not complete."""

IDENTITY: Final = {"id": semconv.GEN_AI_RESPONSE_ID, "model": semconv.GEN_AI_RESPONSE_MODEL}
"""Attributes of the response id and the response model, by the API's names of the fields."""


def identity_in(bodies: Iterable[Body]) -> dict[str, str | int | bool]:
    """Return the response id and the response model, as attributes of the span."""
    return named_in(bodies, IDENTITY)


def error_in(bodies: Iterable[Body]) -> str | None:
    """
    Return the type of an error that the server sent instead of a response, after HTTP 200.

    An error is an object ``error`` of the response or of a choice, a body whose ``type`` or
    ``object`` is ``error``, a body that has only a text ``message`` or ``detail``, a choice whose
    finish reason is ``error`` or ``abort``, and a response that was cancelled.

    Returns:
        The provider's code or type, never its message; ``None`` if there is no error.
    """
    for body in bodies:
        if body.get("error") or body.get("type") == "error" or body.get("object") == "error":
            return _code_in(body)
        if not body.get("object") and not body.get("choices") and _is_text(body):
            return _code_in(body)
        choices: Any = body.get("choices")
        if choices and isinstance(choices, list):
            for choice in cast("list[dict[str, Any]]", choices):
                if not isinstance(choice, dict):  # pyright: ignore[reportUnnecessaryIsInstance]
                    continue
                reason = choice.get("finish_reason")
                if choice.get("error") or reason in _FAILED:
                    return _code_in(choice, reason)
        elif body.get("object") == "response" and body.get("status") == "cancelled":
            return "cancelled"
    return None


def _is_text(body: Body) -> bool:
    """Return whether a body is only a text for people, as frameworks send it after a failure."""
    return any(isinstance(body.get(name), str) for name in _TEXTS_OF_ERRORS)


def _code_in(body: Body, reason: object = None) -> str:
    """Return the code or the type of an error, or the finish reason of a choice that failed."""
    codes = (
        get_path(body, "error", "code"),
        get_path(body, "error", "type"),
        body.get("code"),
        reason if reason in _FAILED else None,
    )
    return next((str(each) for each in codes if isinstance(each, str | int) and each), _OTHER)
