"""Asking a stream for its token counts, where somebody configured that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from openai import NotGiven, Omit

from latspan.integrations import asks_for_usage

__all__ = ["with_usage"]


def with_usage(kwargs: dict[str, Any]) -> dict[str, Any]:
    """
    Return the arguments of a chat or a completion, its stream asked for token counts.

    These are the caller's, unless ``request_stream_usage`` is configured, the answer is streamed,
    and the caller does not set ``stream_options``. The caller's own objects are not changed.
    Such a stream ends with one more chunk, which has ``usage`` and no choices, and
    which the caller gets like any other.

    Args:
        kwargs: What the SDK's method was called with.
    """
    if not kwargs.get("stream") or not asks_for_usage() or _says_options(kwargs):
        return kwargs
    return {**kwargs, "stream_options": {"include_usage": True}}


def _says_options(kwargs: Mapping[str, Any]) -> bool:
    body: object = kwargs.get("extra_body")
    if isinstance(body, Mapping) and "stream_options" in cast("Mapping[str, Any]", body):
        return True
    # What is not given is a sentinel of the SDK's, or absent; `None` is something said.
    given = kwargs.get("stream_options", NotGiven())
    return not isinstance(given, NotGiven | Omit)
