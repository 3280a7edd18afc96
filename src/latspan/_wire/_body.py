"""A chunk or an answer as a plain mapping, whether a client library's object or bytes."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

from latspan import semconv
from latspan._wire._usage import at

__all__ = [
    "DEEPEST",
    "Body",
    "beside_text",
    "copied",
    "error_in",
    "events_in",
    "identity_in",
    "named_in",
    "plain",
]

Body = Mapping[str, Any]
"""One body of an answer as a plain mapping: a chunk of a stream, or the whole."""

_NOTHING: Final[Body] = {}

_GZIP: Final = b"\x1f\x8b"
_GZIP_HEADER: Final = 31
"""The window bits that make zlib expect gzip's header and checksum."""

_LONGEST_TEXT: Final = 1 << 24
"""Bytes of a decompressed answer above which it is not parsed: zeros compress a thousandfold."""

_OTHER: Final = "_OTHER"


def plain(answer: Any) -> Body:
    """
    Return a chunk or answer as a plain mapping, ``{}`` for what has no body.

    Args:
        answer: An object of an SDK's, a mapping, or bytes: one server-sent event, or a JSON text,
            compressed or not.
    """
    if isinstance(answer, bytes):
        return _parsed(answer)
    if isinstance(answer, Mapping):
        return cast("Body", answer)
    dump = getattr(answer, "model_dump", None)
    # The SDKs build their models without checking them; what they warn of is the server's affair.
    return cast("Body", dump(warnings=False)) if callable(dump) else _NOTHING


def events_in(text: bytes) -> tuple[bytes, ...]:
    """Return the events of a whole stream, without its end mark; any other text as it is."""
    if b"\n\n" not in text and b"\r\n\r\n" not in text:
        return (text,)
    events = text.replace(b"\r\n", b"\n").split(b"\n\n")
    if not any(line.startswith(b"data:") for line in events[0].splitlines()):
        return (text,)
    return tuple([each for each in events if b"data:" in each and not each.endswith(b"[DONE]")])


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
    return cast("Body", value) if isinstance(value, dict) else _NOTHING


def _decompressed(text: bytes) -> bytes:
    inflate = zlib.decompressobj(_GZIP_HEADER)
    try:
        whole = inflate.decompress(text, _LONGEST_TEXT)
    except zlib.error:
        return b""
    return whole if inflate.eof else b""


DEEPEST: Final = 64
"""
Lists and mappings inside each other that are kept of what is asked and answered.

Python recurses, and fails some hundred levels deep; any client or model can send that. An event
keeps fewer levels as data, see :func:`~latspan._spans.encodable_data`.
"""


_UNCHANGEABLE: Final = frozenset({str, int, float, bool})
_SCALARS: Final = (str, int, float)


def copied(
    value: Any,
    deepest: int = DEEPEST,
    left_out: list[object] | None = None,
    path: tuple[int, ...] = (),
) -> Any:
    """
    Return plain data that shares nothing changeable with ``value``.

    What is no plain data and no model of an SDK's is left out; an iterator is not consumed.

    Args:
        value: Data.
        deepest: Levels of lists and mappings to keep; ``None`` stands for what is deeper.
        left_out: Gets what is left out because of its type.
        path: The identities of what ``value`` is in.

    Raises:
        ValueError: Something is inside itself, which no client can send as JSON.
    """
    if value is None or isinstance(value, _SCALARS):
        return value
    if deepest == 0:
        return None
    identity = id(value)
    if identity in path:
        raise ValueError("a list or a mapping is inside itself")
    path = (*path, identity)
    # Asking an abstract class takes ten times as long, and this is done for the usage of each call.
    if isinstance(value, dict) or (not hasattr(value, "model_dump") and isinstance(value, Mapping)):
        pairs = cast("Mapping[object, Any]", value).items()
        return {
            str(name): inner
            if type(inner) in _UNCHANGEABLE
            else copied(inner, deepest - 1, left_out, path)
            for name, inner in pairs
        }
    if isinstance(value, list | tuple):
        items = cast("Sequence[Any]", value)
        return [copied(inner, deepest - 1, left_out, path) for inner in items]
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json", warnings=False, exclude_unset=True)
    if left_out is not None:
        left_out.append(value)
    return None


_NO_MODEL: Final = object()


def beside_text(model: Any, *texts: str) -> dict[str, Any] | None:
    """
    Return the fields of an SDK's object, without those that hold text, which may be long.

    Args:
        model: The object; what a server adds to it is where the SDK keeps unknown fields.
        texts: The names of the fields to leave out.

    Returns:
        ``None`` for what is no object of an SDK's. What is ``None`` in the object is left out.
    """
    extra: Any = getattr(model, "model_extra", _NO_MODEL)
    if extra is _NO_MODEL:
        return None
    own: dict[str, Any] = model.__dict__
    kept: dict[str, Any] = {}
    fields: dict[str, Any]
    for fields in (own, extra) if extra else (own,):
        for name, value in fields.items():
            if value.__class__ in _UNCHANGEABLE:
                if name not in texts:
                    kept[name] = value
            elif value is not None and name not in texts:
                inner = beside_text(value)
                kept[name] = copied(value) if inner is None else inner
    return kept


def named_in(bodies: Iterable[Body], names: Mapping[str, str]) -> dict[str, str | int | bool]:
    """
    Return the last text of each field that bodies have.

    Args:
        bodies: In the order in which they came.
        names: What each field is called in the answer, by the API's name.
    """
    found: dict[str, str | int | bool] = {}
    for body in bodies:
        for field, name in names.items():
            value = body.get(field)
            if isinstance(value, str):
                found[name] = value
    return found


_IDENTITY: Final = {"id": semconv.GEN_AI_RESPONSE_ID, "model": semconv.GEN_AI_RESPONSE_MODEL}


def identity_in(bodies: Iterable[Body]) -> dict[str, str | int | bool]:
    """Return an answer's id and the model that gave it, as attributes of its span."""
    return named_in(bodies, _IDENTITY)


def error_in(bodies: Iterable[Body]) -> str | None:
    """
    Return the type of the error that came in place of an answer, after HTTP 200.

    Returns:
        The provider's code or type, never its message; ``None`` where there is no error.
    """
    for body in bodies:
        error = body.get("error")
        if not error and body.get("type") != "error":
            continue
        said = (at(body, "error", "code"), at(body, "error", "type"), body.get("code"))
        return next((str(each) for each in said if isinstance(each, str | int) and each), _OTHER)
    return None
