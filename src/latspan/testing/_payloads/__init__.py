"""
Bodies of a model server's responses, one module per provider or API.

The shapes are those of the APIs of OpenAI, Anthropic, Google, Cohere, Ollama and Amazon Bedrock.
OpenAI's have the fields that llama.cpp's server adds.
This package does not handle time; the module ``_scripted_response`` does.
"""

from __future__ import annotations

from latspan.testing._payloads._base import Payloads, StreamPayloads, error_payload, to_json
from latspan.testing._payloads._requests import InvalidRequestError, ModelRequest, read_request

__all__ = [
    "InvalidRequestError",
    "ModelRequest",
    "Payloads",
    "StreamPayloads",
    "error_payload",
    "read_request",
    "to_json",
]
