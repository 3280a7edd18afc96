"""Formats of the responses of model APIs: those that latspan reads, and the type of a format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from latspan._base.lazy import lazy_getattr
from latspan._model.wire import ApiFormat, ChunkKind, Usage, get_path

if TYPE_CHECKING:
    from latspan._model.wire.anthropic_messages import ANTHROPIC_MESSAGES
    from latspan._model.wire.bedrock_converse import BEDROCK_CONVERSE
    from latspan._model.wire.bedrock_invoke import BEDROCK_INVOKE
    from latspan._model.wire.cohere_chat import COHERE_CHAT
    from latspan._model.wire.gemini_generate import GEMINI_GENERATE_CONTENT
    from latspan._model.wire.mistral_chat import MISTRAL_CHAT, MISTRAL_FIM
    from latspan._model.wire.ollama_chat import OLLAMA_CHAT, OLLAMA_GENERATE
    from latspan._model.wire.openai_chat import OPENAI_CHAT
    from latspan._model.wire.openai_completions import OPENAI_COMPLETIONS
    from latspan._model.wire.openai_embeddings import OPENAI_EMBEDDINGS
    from latspan._model.wire.openai_responses import OPENAI_RESPONSES, OPENAI_RESPONSES_FETCHED

__all__ = [
    "ANTHROPIC_MESSAGES",
    "BEDROCK_CONVERSE",
    "BEDROCK_INVOKE",
    "COHERE_CHAT",
    "GEMINI_GENERATE_CONTENT",
    "MISTRAL_CHAT",
    "MISTRAL_FIM",
    "OLLAMA_CHAT",
    "OLLAMA_GENERATE",
    "OPENAI_CHAT",
    "OPENAI_COMPLETIONS",
    "OPENAI_EMBEDDINGS",
    "OPENAI_RESPONSES",
    "OPENAI_RESPONSES_FETCHED",
    "ApiFormat",
    "ChunkKind",
    "Usage",
    "get_path",
]

# An integration reads a few formats; the import of all takes several milliseconds.
__getattr__ = lazy_getattr(
    __name__,
    {
        "ANTHROPIC_MESSAGES": "latspan._model.wire.anthropic_messages",
        "BEDROCK_CONVERSE": "latspan._model.wire.bedrock_converse",
        "BEDROCK_INVOKE": "latspan._model.wire.bedrock_invoke",
        "COHERE_CHAT": "latspan._model.wire.cohere_chat",
        "GEMINI_GENERATE_CONTENT": "latspan._model.wire.gemini_generate",
        "MISTRAL_CHAT": "latspan._model.wire.mistral_chat",
        "MISTRAL_FIM": "latspan._model.wire.mistral_chat",
        "OLLAMA_CHAT": "latspan._model.wire.ollama_chat",
        "OLLAMA_GENERATE": "latspan._model.wire.ollama_chat",
        "OPENAI_CHAT": "latspan._model.wire.openai_chat",
        "OPENAI_COMPLETIONS": "latspan._model.wire.openai_completions",
        "OPENAI_EMBEDDINGS": "latspan._model.wire.openai_embeddings",
        "OPENAI_RESPONSES": "latspan._model.wire.openai_responses",
        "OPENAI_RESPONSES_FETCHED": "latspan._model.wire.openai_responses",
    },
)
