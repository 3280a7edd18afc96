"""
Instrumentation of the Mistral SDK: chats, code completions, completions of agents and embeddings.

The client, its responses and its streams remain the SDK's own objects.
"""

from __future__ import annotations

from latspan_mistralai._instrumentor import MistralInstrumentor

__all__ = ["MistralInstrumentor"]
