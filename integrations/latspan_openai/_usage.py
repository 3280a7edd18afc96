"""Asking a stream for its token counts, where somebody configured that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from openai import NotGiven, Omit

from latspan.instrument import asks_for_usage

__all__ = ["with_usage"]


def with_usage(kwargs: dict[str, Any]) -> dict[str, Any]:
    """
    Return the arguments of a chat or a completion, its stream asked for token counts.

    They are those that were given, unless ``include_usage`` is configured, the answer is to be
    streamed, and the caller said nothing of ``stream_options``. Nothing of the caller's is
    changed. A stream so asked ends with a chunk more, which has ``usage`` and no choices, and
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
