"""
Encoders in place of the SDK's: a message is encoded in small parts, which are joined as bytes.

**Why.** The SDK's encoders copy a whole message several times in calls of C code, which keep the
interpreter's lock: two milliseconds for 512 spans. In parts of 64 spans no call takes longer than a
fraction of a millisecond, and the thread gives way between two parts.

**How.** In Protocol Buffers, a message whose bytes are those of two messages has the repeated
fields of both. So the bytes of the spans of one scope are put one after another, under the scope
and the resource of the first part. The result equals that of the SDK.

**Where.** The SDK's exporters have no hook for an encoder: a method calls a global function of its
module. The private methods around that call differ in every version, but the names of the function
and the method are the same from 1.39 on. `with_encoder` returns a subclass whose method has the
same code, with another function under that name; the exporter's module and class stay unchanged. If
a later version has no such call, the class is returned unchanged, and the SDK's encoder is used.

**Fields.** Fields of Protocol Buffers are put together from the bytes of their contents. A list of
pieces stands for the bytes, so that a message of many nested fields is joined only once.

Source: OTLP 1.9, ``trace.proto`` and ``logs.proto``, which number these fields alike; Protocol
Buffers, "Encoding", "Last One Wins".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, Final, TypeVar, cast

from latspan._base.slices import PacedList, give_way

_MORE: Final = 0x80
"""Bit of a byte that means that another byte follows."""

_AT_ONCE: Final = 16
"""
Number of spans or log records that are encoded together.

The SDK's encoder puts them together in C code, which cannot give way: 16 take 0.2 ms.
"""

# Tags of length-delimited fields: the field's number times eight, plus two.
_RESOURCE: Final = b"\x0a"
_SCOPE: Final = b"\x12"

_Encode = Callable[[Sequence[Any]], Any]
_Exporter = TypeVar("_Exporter")


def field(tag: bytes, content: Sequence[bytes]) -> list[bytes]:
    """
    Return a length-delimited field in pieces.

    Args:
        tag: Tag of the field: its number times eight, plus two.
        content: The content in pieces.
    """
    return [tag + varint(sum(map(len, content))), *content]


def varint(number: int) -> bytes:
    """Return an integer of at least 0 in base 128, the lowest digit first."""
    encoded = bytearray()
    while number >= _MORE:
        encoded.append(number & (_MORE - 1) | _MORE)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


class EncodedBatch:
    """
    Encoded message, with the methods of a generated class that the SDK's exporters use.

    Args:
        pieces: The bytes of the message.
    """

    __slots__ = ("_pieces",)

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = pieces

    def SerializeToString(self) -> bytes:  # noqa: N802 - the name in the generated class
        """Return the message as bytes."""
        return b"".join(self._pieces)

    SerializePartialToString = SerializeToString


def spans_in_parts(encode: _Encode) -> Callable[[Sequence[Any]], EncodedBatch]:
    """Return an encoder of spans that calls the encoder ``encode`` for a few at a time."""
    return lambda items: _in_parts(encode, items, "spans")


def logs_in_parts(encode: _Encode) -> Callable[[Sequence[Any]], EncodedBatch]:
    """Return an encoder of log records that calls the encoder ``encode`` for a few at a time."""
    return lambda items: _in_parts(encode, items, "logs")


_Scopes = dict[tuple[bytes, str], list[bytes]]
"""Pieces of each scope, by its identity."""


def _in_parts(encode: _Encode, items: Sequence[Any], kind: str) -> EncodedBatch:
    resources: dict[tuple[bytes, str], tuple[bytes, _Scopes]] = {}
    for begin in range(0, len(items), _AT_ONCE):
        # The SDK's encoder loops over the items, so it gives way between two of them.
        part = encode(PacedList(items[begin : begin + _AT_ONCE]))
        for resource in getattr(part, f"resource_{kind}"):
            identity = resource.resource.SerializeToString(), resource.schema_url
            scopes = list(getattr(resource, f"scope_{kind}"))
            if identity not in resources:
                resource.ClearField(f"scope_{kind}")
                resources[identity] = resource.SerializeToString(), {}
            for scope in scopes:
                _add_scope(resources[identity][1], scope)
        give_way()
    pieces: list[bytes] = []
    for encoded, held in resources.values():
        in_resource = [encoded]
        for in_scope in held.values():
            in_resource += field(_SCOPE, in_scope)
        pieces += field(_RESOURCE, in_resource)
    return EncodedBatch(pieces)


def _add_scope(held: _Scopes, scope: Any) -> None:
    identity = scope.scope.SerializeToString(), scope.schema_url
    pieces = held.get(identity)
    if pieces is None:
        held[identity] = [scope.SerializeToString()]
        return
    # Only what repeats is left: the first piece has the rest.
    scope.ClearField("scope")
    scope.ClearField("schema_url")
    pieces.append(scope.SerializeToString())


def with_encoder(
    exporter: type[_Exporter],
    name: str,
    encoder: Callable[[Callable[..., Any]], Callable[..., Any]],
) -> type[_Exporter]:
    """
    Return a subclass of an exporter that encodes with another function than the SDK's.

    Args:
        exporter: Class whose method ``export`` calls the encoder.
        name: Name of the encoder in the module of that class.
        encoder: Returns the function to call, given the SDK's encoder.

    Returns:
        The subclass; the class itself if its method does not call a function of that name.
    """
    plain: Any = getattr(exporter, "export", None)
    if not isinstance(plain, FunctionType) or name not in plain.__code__.co_names:
        return exporter
    scope: dict[str, Any] = plain.__globals__
    if name not in scope:
        return exporter
    ours = FunctionType(
        plain.__code__,
        {**scope, name: encoder(scope[name])},
        plain.__name__,
        plain.__defaults__,
        plain.__closure__,
    )
    ours.__kwdefaults__ = plain.__kwdefaults__
    return cast("type[_Exporter]", type(exporter.__name__, (exporter,), {"export": ours}))
