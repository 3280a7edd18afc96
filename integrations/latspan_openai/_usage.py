"""Request for the token counts of a stream, made if ``request_stream_usage`` is configured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from openai import NotGiven, Omit

__all__ = ["with_usage"]


def with_usage(kwargs: dict[str, Any]) -> dict[str, Any]:
    """
    Return the arguments of a chat or completion, changed to request token counts for the stream.

    The arguments are changed only if the response is streamed and the caller does not set
    ``stream_options``. The caller's own objects are never changed. A stream with token counts ends
    with one more chunk, which has ``usage`` and no choices. The caller receives that chunk like any
    other.

    Args:
        kwargs: The arguments of the SDK's method.
    """
    if not kwargs.get("stream") or _sets_stream_options(kwargs):
        return kwargs
    return {**kwargs, "stream_options": {"include_usage": True}}


def _sets_stream_options(kwargs: Mapping[str, Any]) -> bool:
    body: object = kwargs.get("extra_body")
    if isinstance(body, Mapping) and "stream_options" in cast("Mapping[str, Any]", body):
        return True
    # An argument that the caller omitted is a sentinel of the SDK, or absent. An explicit `None`
    # counts as set by the caller.
    given = kwargs.get("stream_options", NotGiven())
    return not isinstance(given, NotGiven | Omit)
