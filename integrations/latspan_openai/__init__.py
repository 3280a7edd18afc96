"""
The OpenAI SDK, instrumented: chat completions, streamed or not, synchronous and asynchronous.

The client, its answers and its streams stay the SDK's own objects.
"""

from __future__ import annotations

from latspan_openai._instrumentor import OpenAIInstrumentor

__all__ = ["OpenAIInstrumentor"]
