"""
Instrumentation of the Anthropic SDK: messages, streamed or not, synchronous and asynchronous.

The client, its responses and its streams remain the SDK's own objects.
"""

from __future__ import annotations

from latspan_anthropic._instrumentor import AnthropicInstrumentor

__all__ = ["AnthropicInstrumentor"]
