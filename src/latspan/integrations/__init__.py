"""
Functions and classes for integrations of model SDKs.

An integration of an SDK imports only this package and ``latspan.semconv`` from latspan. The
integrations of HTTP clients and servers are part of latspan and use private modules too.
"""

from __future__ import annotations

from latspan._instrument import (
    Attempt,
    Call,
    CallFactory,
    Instrumentor,
    MethodWrappers,
    Patches,
    RequestRewriter,
    UnderlyingClient,
    Warmer,
    Wrapper,
    impersonate,
    inside,
    is_instrumented,
    open_call,
    patch_request_builder,
    patch_stream_classes,
    patch_stream_wrappers,
    requested_body,
    requests_usage,
    server_of,
    unless_inside,
    with_names,
)
from latspan._segments import Outcome
from latspan._wire import ApiFormat, choices_requested, get_path
from latspan._wire.anthropic_messages import ANTHROPIC_MESSAGES
from latspan._wire.openai_chat import OPENAI_CHAT
from latspan._wire.openai_completions import OPENAI_COMPLETIONS
from latspan._wire.openai_embeddings import OPENAI_EMBEDDINGS
from latspan._wire.openai_responses import OPENAI_RESPONSES, OPENAI_RESPONSES_FETCHED

__all__ = [
    "ANTHROPIC_MESSAGES",
    "OPENAI_CHAT",
    "OPENAI_COMPLETIONS",
    "OPENAI_EMBEDDINGS",
    "OPENAI_RESPONSES",
    "OPENAI_RESPONSES_FETCHED",
    "ApiFormat",
    "Attempt",
    "Call",
    "CallFactory",
    "Instrumentor",
    "MethodWrappers",
    "Outcome",
    "Patches",
    "RequestRewriter",
    "UnderlyingClient",
    "Warmer",
    "Wrapper",
    "choices_requested",
    "get_path",
    "impersonate",
    "inside",
    "is_instrumented",
    "open_call",
    "patch_request_builder",
    "patch_stream_classes",
    "patch_stream_wrappers",
    "requested_body",
    "requests_usage",
    "server_of",
    "unless_inside",
    "with_names",
]
