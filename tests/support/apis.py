"""The APIs of the scripted server that no SDK's integration reads, as a plain HTTP client asks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

_QUESTION: Final = "Where is it?"


@dataclass(frozen=True, kw_only=True)
class Api:
    """
    One API.

    Args:
        name: Its name.
        path: Path and query of a request that streams.
        body: Body of the request.
        provider: Provider's name in the conventions.
        model: Requested model.
        operation: Operation's name in the conventions.
        reasons: Its finish reasons for ``stop``, ``length`` and ``tool_calls``.
        cached: Whether it counts cached tokens.
        counts_reasoning: Whether it counts reasoning tokens.
    """

    name: str
    path: str
    body: Mapping[str, Any] = field(hash=False)
    provider: str
    model: str = "m"
    operation: str = "chat"
    reasons: tuple[str, str, str] = ("stop", "length", "tool_calls")
    cached: bool = True
    counts_reasoning: bool = False


_BEDROCK: Final = "/model/eu.anthropic.claude-x-v1%3A0"
_BEDROCK_MODEL: Final = "eu.anthropic.claude-x-v1:0"

APIS: Final = (
    Api(
        name="gemini",
        path="/v1beta/models/gemini-x:streamGenerateContent?alt=sse",
        body={"contents": [{"role": "user", "parts": [{"text": _QUESTION}]}]},
        provider="gcp.gemini",
        model="gemini-x",
        operation="generate_content",
        reasons=("STOP", "MAX_TOKENS", "STOP"),
        counts_reasoning=True,
    ),
    Api(
        name="cohere",
        path="/v2/chat",
        body={
            "model": "m",
            "stream": True,
            "messages": [{"role": "user", "content": _QUESTION}],
        },
        provider="cohere",
        reasons=("COMPLETE", "MAX_TOKENS", "TOOL_CALL"),
    ),
    Api(
        name="ollama",
        path="/api/chat",
        body={"model": "m", "messages": [{"role": "user", "content": _QUESTION}]},
        provider="ollama",
        reasons=("stop", "length", "stop"),
        cached=False,
    ),
    Api(
        name="ollama-generate",
        path="/api/generate",
        body={"model": "m", "prompt": _QUESTION},
        provider="ollama",
        operation="text_completion",
        reasons=("stop", "length", "stop"),
        cached=False,
    ),
    Api(
        name="bedrock-converse",
        path=f"{_BEDROCK}/converse-stream",
        body={"messages": [{"role": "user", "content": [{"text": _QUESTION}]}]},
        provider="aws.bedrock",
        model=_BEDROCK_MODEL,
        reasons=("end_turn", "max_tokens", "tool_use"),
    ),
    Api(
        name="bedrock-invoke",
        path=f"{_BEDROCK}/invoke-with-response-stream",
        body={
            "anthropic_version": "bedrock-2023-05-31",
            "max_tokens": 9,
            "messages": [{"role": "user", "content": _QUESTION}],
        },
        provider="aws.bedrock",
        model=_BEDROCK_MODEL,
        reasons=("end_turn", "max_tokens", "tool_use"),
        counts_reasoning=True,
    ),
)


def api_named(name: str) -> Api:
    """Return one of them."""
    return next(api for api in APIS if api.name == name)


with_every_api = pytest.mark.parametrize("api", [pytest.param(api, id=api.name) for api in APIS])
"""Marks a test of what holds for every one of them."""
