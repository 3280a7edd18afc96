"""Requests to a model server, and the API of each, selected by path."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from latspan.testing._http import HttpRequest
from latspan.testing._payloads._base import Payloads, error_payload
from latspan.testing._payloads.anthropic_messages import AnthropicMessages
from latspan.testing._payloads.bedrock import BedrockConverse, BedrockInvoke
from latspan.testing._payloads.cohere_chat import CohereChat
from latspan.testing._payloads.gemini_generate import GeminiGenerate
from latspan.testing._payloads.ollama_chat import OllamaChat, OllamaGenerate
from latspan.testing._payloads.openai import (
    Models,
    OpenAIChat,
    OpenAICompletions,
    OpenAIEmbeddings,
)
from latspan.testing._payloads.openai_responses import OpenAIResponses

_APIS: Final[Mapping[str, type[Payloads]]] = {
    # Before the older completions, whose path has the same end.
    "/chat/completions": OpenAIChat,
    "/completions": OpenAICompletions,
    "/responses": OpenAIResponses,
    "/embeddings": OpenAIEmbeddings,
    "/messages": AnthropicMessages,
    "/models": Models,
    ":streamGenerateContent": GeminiGenerate,
    ":generateContent": GeminiGenerate,
    "/api/chat": OllamaChat,
    "/api/generate": OllamaGenerate,
    "/v2/chat": CohereChat,
    "/converse-stream": BedrockConverse,
    "/converse": BedrockConverse,
    "/invoke-with-response-stream": BedrockInvoke,
    "/invoke": BedrockInvoke,
}
"""APIs by the end of the path; the start of the path depends on the deployment."""


class InvalidRequestError(ValueError):
    """
    The request is answered with a JSON error immediately.

    Args:
        status: HTTP status.
        message: Description of the error.
        payload: Body of the response.
    """

    def __init__(self, status: int, message: str, payload: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.status = status
        self.payload = payload


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """
    A parsed request to a model.

    Args:
        api: Payload class for responses to it.
        body: Body of the request.
    """

    api: type[Payloads]
    body: Mapping[str, Any]

    def refusal(self, status: int, message: str) -> InvalidRequestError:
        """Return the error for this request, in the format of its API."""
        return InvalidRequestError(status, message, self.api.error(status, message))


def read_request(request: HttpRequest) -> ModelRequest:
    """
    Return the model request that ``request`` holds.

    Raises:
        InvalidRequestError: 404 for another path, 405 for another method, 400 for a body that is
            not a request of its API.
    """
    api = next((api for end, api in _APIS.items() if request.path.endswith(end)), None)
    if api is None:
        message = f"nothing at {request.path}"
        raise InvalidRequestError(404, message, error_payload(404, message))
    parsed = ModelRequest(api, {})
    if request.method != api.method:
        raise parsed.refusal(405, f"{request.path} takes {api.method}, not {request.method}")
    if api.requires is None:
        return parsed
    try:
        body = json.loads(request.body)
    except ValueError as error:
        raise parsed.refusal(400, f"the body is not JSON: {error}") from error
    if not isinstance(body, dict) or api.requires not in body:
        raise parsed.refusal(400, f"'{api.requires}' is required")
    fields = cast("dict[str, Any]", body)
    return ModelRequest(api, {**fields, **api.from_path(request.path)})
