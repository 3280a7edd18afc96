"""What is patched in the SDK."""

from __future__ import annotations

from latspan.instrument import Instrumentor, Patches, patch_stream_classes

__all__ = ["OpenAIInstrumentor"]


class OpenAIInstrumentor(Instrumentor):
    """Switches the instrumentation of the OpenAI SDK on and off."""

    requires = ("openai >= 2, < 4",)

    def patch(self, patches: Patches) -> None:
        """Patch chat completions, and the streams that they answer with."""
        from openai import AsyncStream, Stream
        from openai.resources.chat.completions import AsyncCompletions, Completions

        from latspan_openai import _chat

        patches.wrap(Completions, "create", _chat.create)
        patches.wrap(AsyncCompletions, "create", _chat.acreate)
        patch_stream_classes(patches, Stream, AsyncStream)
