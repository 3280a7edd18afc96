"""The instrumentor of the OpenAI SDK and the list of its patches."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from latspan.integrations import (
    Instrumentor,
    MethodWrappers,
    Patches,
    UnderlyingClient,
    patch_request_builder,
    patch_stream_classes,
    patch_stream_wrappers,
    with_names,
)

if TYPE_CHECKING:
    from latspan_openai._endpoints import Endpoint

__all__ = ["OpenAIInstrumentor"]

_RESPONSES: Final = "openai.resources.responses.responses"


class OpenAIInstrumentor(Instrumentor):
    """Instrumentor that switches the instrumentation of the OpenAI SDK on and off."""

    requires = ("openai >= 2, < 4",)

    def patch(self, patches: Patches) -> None:
        """
        Patch the methods that send a request to a model, and the streams that they return.

        The SDK imports its resources and its streaming helpers on first use. Each is patched then.
        """
        from openai import AsyncStream, Stream
        from openai._base_client import AsyncAPIClient, BaseClient, SyncAPIClient

        from latspan_openai import _requests
        from latspan_openai._endpoints import CHAT, COMPLETIONS, EMBEDDINGS, RESPONSES

        wrappers = MethodWrappers(streams=(Stream, AsyncStream))
        for module, resource, endpoint, methods in (
            ("openai.resources.chat.completions.completions", "Completions", CHAT, _CREATE_PARSE),
            (_RESPONSES, "Responses", RESPONSES, _CREATE_PARSE),
            ("openai.resources.completions", "Completions", COMPLETIONS, _CREATE),
            ("openai.resources.embeddings", "Embeddings", EMBEDDINGS, _CREATE),
        ):
            patches.when_imported(
                module,
                partial(_patch_resource, patches, wrappers, module, resource, endpoint, methods),
            )
        patches.when_imported(_RESPONSES, partial(_patch_retrieval, patches, wrappers))
        patches.wrap_innermost(SyncAPIClient, "request", _requests.request(wrappers))
        patches.wrap_innermost(AsyncAPIClient, "request", _requests.async_request(wrappers))
        patch_request_builder(patches, BaseClient)
        patch_stream_classes(patches, Stream, AsyncStream)
        for module, stream in (
            ("openai.lib.streaming.chat._completions", "ChatCompletionStream"),
            ("openai.lib.streaming.responses._responses", "ResponseStream"),
        ):
            patches.when_imported(module, partial(_patch_helper, patches, module, stream))

    def warmer(self, client: Any, url: str | None, timeout_s: float) -> UnderlyingClient | None:
        """Return the HTTP client that ``client``, a client of the SDK, sends through."""
        del url, timeout_s
        from latspan_openai._warm import underlying_client

        return underlying_client(client)


_CREATE: Final = ("create",)
_CREATE_PARSE: Final = ("create", "parse")


def _patch_resource(
    patches: Patches,
    wrappers: MethodWrappers,
    module: str,
    resource: str,
    endpoint: Endpoint,
    methods: tuple[str, ...],
) -> None:
    """Patch the methods of a resource, synchronous and asynchronous."""
    cls, async_cls = _classes(module, resource)
    for method in methods:
        wrapped = endpoint.open, endpoint.rewrite_request
        patches.wrap_innermost(cls, method, wrappers.wrapper(*wrapped))
        patches.wrap_innermost(async_cls, method, wrappers.async_wrapper(*wrapped))


def _patch_retrieval(patches: Patches, wrappers: MethodWrappers) -> None:
    """Patch the method that fetches a response which the API has stored."""
    from latspan_openai._endpoints import FETCHED_RESPONSES

    cls, async_cls = _classes(_RESPONSES, "Responses")
    for each, wrapper in ((cls, wrappers.wrapper), (async_cls, wrappers.async_wrapper)):
        fetch = with_names(wrapper(FETCHED_RESPONSES.open), "response_id")
        patches.wrap_innermost(each, "retrieve", fetch)


def _patch_helper(patches: Patches, module: str, stream: str) -> None:
    """Patch a helper that holds a stream."""
    patch_stream_wrappers(patches, *_classes(module, stream))


def _classes(module: str, name: str) -> tuple[type, type]:
    """Return a class of the SDK and its asynchronous counterpart."""
    home = import_module(module)
    return getattr(home, name), getattr(home, f"Async{name}")
