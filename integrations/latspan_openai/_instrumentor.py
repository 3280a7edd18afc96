"""The instrumentor of the OpenAI SDK and the list of its patches."""

from __future__ import annotations

from typing import Any

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

__all__ = ["OpenAIInstrumentor"]


class OpenAIInstrumentor(Instrumentor):
    """Instrumentor that switches the instrumentation of the OpenAI SDK on and off."""

    requires = ("openai >= 2, < 4",)

    def patch(self, patches: Patches) -> None:
        """Patch the methods that send a request to a model, and the streams that they return."""
        from openai import AsyncStream, Stream
        from openai._base_client import AsyncAPIClient, BaseClient, SyncAPIClient
        from openai.lib.streaming.chat import AsyncChatCompletionStream, ChatCompletionStream
        from openai.lib.streaming.responses import AsyncResponseStream, ResponseStream
        from openai.resources.chat.completions import AsyncCompletions, Completions
        from openai.resources.completions import AsyncCompletions as AsyncTextCompletions
        from openai.resources.completions import Completions as TextCompletions
        from openai.resources.embeddings import AsyncEmbeddings, Embeddings
        from openai.resources.responses import AsyncResponses, Responses

        from latspan_openai import _requests
        from latspan_openai._endpoints import (
            CHAT,
            COMPLETIONS,
            EMBEDDINGS,
            FETCHED_RESPONSES,
            RESPONSES,
        )

        wrappers = MethodWrappers(streams=(Stream, AsyncStream))
        for endpoint, resource, async_resource, methods in (
            (CHAT, Completions, AsyncCompletions, ("create", "parse")),
            (RESPONSES, Responses, AsyncResponses, ("create", "parse")),
            (COMPLETIONS, TextCompletions, AsyncTextCompletions, ("create",)),
            (EMBEDDINGS, Embeddings, AsyncEmbeddings, ("create",)),
        ):
            for method in methods:
                wrapped = endpoint.open, endpoint.rewrite_request
                patches.wrap_innermost(resource, method, wrappers.wrapper(*wrapped))
                patches.wrap_innermost(async_resource, method, wrappers.async_wrapper(*wrapped))
        for resource, wrapper in (
            (Responses, wrappers.wrapper),
            (AsyncResponses, wrappers.async_wrapper),
        ):
            fetch = with_names(wrapper(FETCHED_RESPONSES.open), "response_id")
            patches.wrap_innermost(resource, "retrieve", fetch)
        patches.wrap_innermost(SyncAPIClient, "request", _requests.request(wrappers))
        patches.wrap_innermost(AsyncAPIClient, "request", _requests.async_request(wrappers))
        patch_request_builder(patches, BaseClient)
        patch_stream_classes(patches, Stream, AsyncStream)
        patch_stream_wrappers(patches, ChatCompletionStream, AsyncChatCompletionStream)
        patch_stream_wrappers(patches, ResponseStream, AsyncResponseStream)

    def warmer(self, client: Any, url: str | None, timeout_s: float) -> UnderlyingClient | None:
        """Return the HTTP client that ``client``, a client of the SDK, sends through."""
        del url, timeout_s
        from latspan_openai._warm import underlying_client

        return underlying_client(client)
