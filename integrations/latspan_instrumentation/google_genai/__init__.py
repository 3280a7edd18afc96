"""
Instrumentation of the Google Gen AI SDK: every request for content or embeddings, streamed or not.

The client and its responses remain the SDK's own objects. A stream is a generator, which has no
class that could be hooked, so the application receives another generator that reads the SDK's.
"""

from __future__ import annotations

from latspan.integrations import Instrumentor, Patches, patch_method

__all__ = ["GoogleGenAIInstrumentor"]


class GoogleGenAIInstrumentor(Instrumentor):
    """Instrumentor that switches the instrumentation of the Google Gen AI SDK on and off."""

    requires = ("google-genai >= 2, < 4",)
    library = "google.genai"

    def patch(self, patches: Patches) -> None:
        """
        Patch the methods that send one request each.

        The public methods and chats call them. ``generate_content`` sends several requests if it
        calls the functions of the application, or continues a response. Each of them is one call.
        """
        from google.genai.models import AsyncModels, Models

        from latspan_instrumentation.google_genai._requests import (
            open_embeddings,
            open_generation,
            open_stream,
        )

        for cls in (Models, AsyncModels):
            patch_method(patches, cls, "_generate_content", open_generation)
            patch_method(patches, cls, "_generate_content_stream", open_stream)
            patch_method(patches, cls, "_embed_content", open_embeddings)
