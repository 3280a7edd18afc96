"""
The Anthropic SDK, instrumented: messages, streamed or not, synchronous and asynchronous.

The client, its answers and its streams stay the SDK's own objects.
"""

from __future__ import annotations

from latspan_anthropic._instrumentor import AnthropicInstrumentor

__all__ = ["AnthropicInstrumentor"]
