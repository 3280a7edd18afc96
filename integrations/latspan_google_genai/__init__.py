"""
Instrumentation of the Google Gen AI SDK: every request for content or embeddings, streamed or not.

The client and its responses remain the SDK's own objects. A stream is a generator, which has no
class that could be hooked, so the application receives another generator that reads the SDK's.
"""

from __future__ import annotations

from latspan_google_genai._instrumentor import GoogleGenAIInstrumentor

__all__ = ["GoogleGenAIInstrumentor"]
