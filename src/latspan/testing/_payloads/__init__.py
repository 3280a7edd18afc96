"""
What a model server puts into the body of an answer, one module an API.

Shapes are those that the OpenAI and Anthropic APIs send, and llama.cpp's server where it adds to
them. Nothing here knows when something is written; that is the answer's affair.
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
