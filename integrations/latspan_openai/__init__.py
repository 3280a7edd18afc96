"""
Instrumentation of the OpenAI SDK: every method whose response comes from a model, streamed or not.

The client, its responses and its streams remain the SDK's own objects.
"""

from __future__ import annotations

from latspan_openai._instrumentor import OpenAIInstrumentor

__all__ = ["OpenAIInstrumentor"]
