"""What is patched in the SDK."""

from __future__ import annotations

from latspan.instrument import Instrumentor, Patches

__all__ = ["OpenAIInstrumentor"]


class OpenAIInstrumentor(Instrumentor):
    """Switches the instrumentation of the OpenAI SDK on and off."""

    requires = ("openai >= 2, < 4",)

    def patch(self, patches: Patches) -> None:
        """Patch chat completions, and the streams that they answer with."""
        from openai import AsyncStream, Stream
        from openai.resources.chat.completions import AsyncCompletions, Completions

        from latspan_openai import _chat, _streams

        patches.wrap(Completions, "create", _chat.create)
        patches.wrap(AsyncCompletions, "create", _chat.acreate)
        # Not only where the SDK's object is made: a `break` can be heard nowhere but here.
        patches.replace(Stream, "__iter__", _streams.iter_of)
        patches.replace(Stream, "__next__", _streams.next_of)
        patches.replace(Stream, "__enter__", _streams.enter_of)
        patches.replace(Stream, "close", _streams.close_of)
        patches.replace(AsyncStream, "__aiter__", _streams.aiter_of)
        patches.replace(AsyncStream, "__anext__", _streams.anext_of)
        patches.replace(AsyncStream, "__aenter__", _streams.aenter_of)
        patches.replace(AsyncStream, "close", _streams.aclose_of)
