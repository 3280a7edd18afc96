"""
The OpenAI SDK, instrumented: whatever of it a model answers, streamed or not.

The client, its answers and its streams stay the SDK's own objects.
"""

from __future__ import annotations

from latspan_openai._instrumentor import OpenAIInstrumentor

__all__ = ["OpenAIInstrumentor"]
