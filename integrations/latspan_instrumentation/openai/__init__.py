"""
Instrumentation of the OpenAI SDK: every method whose response comes from a model, streamed or not.

The client, its responses and its streams remain the SDK's own objects.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from latspan.integrations import Instrumentor, Patches, UnderlyingClient

if TYPE_CHECKING:
    from latspan_instrumentation.openai._endpoints import ApiEndpoint

__all__ = ["OpenAIInstrumentor"]

_RESPONSES: Final = "openai.resources.responses.responses"
_CREATE: Final = ("create",)
_CREATE_PARSE: Final = ("create", "parse")


class OpenAIInstrumentor(Instrumentor):
    """Instrumentor that switches the instrumentation of the OpenAI SDK on and off."""

    requires = ("openai >= 2, < 4",)
    core_module = "_client"

    def patch(self, patches: Patches) -> None:
        """
        Patch the methods that send a request to a model, and the streams that they return.

        The SDK imports its resources and its streaming helpers on first use. Each is patched then.
        """
        from latspan_instrumentation.openai import _requests
        from latspan_instrumentation.openai._endpoints import (
            CHAT,
            COMPLETIONS,
            EMBEDDINGS,
            RESPONSES,
        )
        from latspan_instrumentation.stainless._methods import patch_client

        for module, resource, endpoint, methods in (
            ("openai.resources.chat.completions.completions", "Completions", CHAT, _CREATE_PARSE),
            (_RESPONSES, "Responses", RESPONSES, _CREATE_PARSE),
            ("openai.resources.completions", "Completions", COMPLETIONS, _CREATE),
            ("openai.resources.embeddings", "Embeddings", EMBEDDINGS, _CREATE),
        ):
            patch = partial(_patch_resource, patches, module, resource, endpoint, methods)
            patches.when_imported(module, patch)
        patches.when_imported(_RESPONSES, partial(_patch_retrieval, patches))
        patch_client(
            patches,
            "openai",
            _requests.open_request,
            _requests.with_usage_requested,
            inside_methods=True,
        )
        for module, stream in (
            ("openai.lib.streaming.chat._completions", "ChatCompletionStream"),
            ("openai.lib.streaming.responses._responses", "ResponseStream"),
        ):
            patches.when_imported(module, partial(_patch_helper, patches, module, stream))

    def underlying_client(self, client: Any) -> UnderlyingClient | None:
        """Return the HTTP client that ``client``, a client of the SDK, sends through."""
        from openai import AsyncOpenAI, OpenAI

        from latspan_instrumentation.stainless._clients import underlying_client

        if not isinstance(client, OpenAI | AsyncOpenAI):
            return None
        return underlying_client(client, "chat.completions")


def _patch_resource(
    patches: Patches, module: str, resource: str, endpoint: ApiEndpoint, methods: tuple[str, ...]
) -> None:
    """Patch the methods of a resource, synchronous and asynchronous."""
    from latspan_instrumentation.stainless._methods import patch_sdk_method

    for cls in _classes(module, resource):
        for method in methods:
            patch_sdk_method(patches, cls, method, endpoint.open, endpoint.rewrite_request)


def _patch_retrieval(patches: Patches) -> None:
    """Patch the method that fetches a response which the API has stored."""
    from latspan_instrumentation.openai._endpoints import FETCHED_RESPONSES
    from latspan_instrumentation.stainless._methods import patch_sdk_method

    for cls in _classes(_RESPONSES, "Responses"):
        patch_sdk_method(
            patches, cls, "retrieve", FETCHED_RESPONSES.open, positional=("response_id",)
        )


def _patch_helper(patches: Patches, module: str, stream: str) -> None:
    """Patch a helper that holds a stream."""
    from latspan_instrumentation.stainless._methods import patch_helpers

    patch_helpers(patches, *_classes(module, stream))


def _classes(module: str, name: str) -> tuple[type, type]:
    """Return a class of the SDK and its asynchronous counterpart."""
    home = import_module(module)
    return getattr(home, name), getattr(home, f"Async{name}")
