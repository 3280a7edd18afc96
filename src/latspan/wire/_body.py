"""A chunk or an answer as a plain mapping, whether a client library's object or bytes."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from latspan import semconv
from latspan.wire._usage import at

__all__ = ["Body", "error_in", "identity_in", "named_in", "plain"]

Body = Mapping[str, Any]
"""One body of an answer as a plain mapping: a chunk of a stream, or the whole."""

_NOTHING: Final[Body] = {}

_GZIP: Final = b"\x1f\x8b"

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


def _parsed(text: bytes) -> Body:
    try:
        text = gzip.decompress(text) if text.startswith(_GZIP) else text
    except (OSError, EOFError, zlib.error):
        return _NOTHING
    lines = [
        line.partition(b":")[2].removeprefix(b" ")
        for line in text.splitlines()
        if line.startswith(b"data:")
    ]
    try:
        value: object = json.loads(b"\n".join(lines) if lines else text)
    except ValueError:
        return _NOTHING
    return cast("Body", value) if isinstance(value, dict) else _NOTHING


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
