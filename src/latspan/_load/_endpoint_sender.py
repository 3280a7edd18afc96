"""Sender of chats to an endpoint: bodies of the requests, cache state, and one trial before."""

from __future__ import annotations

import json
import secrets
import ssl
from collections.abc import Mapping
from typing import Any, Final, cast

from latspan._base.shown import foreign
from latspan._load._chat_client import ChatClient
from latspan._load._endpoint import Endpoint, HttpAnswer
from latspan._load._http import CUT_SHORT, list_models, text_of
from latspan._load._progress import RequestResult
from latspan._load._prompts import Prompt, PromptSet
from latspan._model.goals import CacheState, Connections, LoadSettings
from latspan._model.segments import Outcome
from latspan.errors import MeasurementError

_MODELS_TIMEOUT_S: Final = 10.0
_OK: Final = 200
_UNAUTHORIZED: Final = frozenset({401, 403})
_NOT_FOUND: Final = 404
_TOO_MANY: Final = 429
_REDIRECTS: Final = range(300, 400)
_SERVER_ERRORS: Final = range(500, 600)


class EndpointSender:
    """
    Sender of chats.

    Args:
        endpoint: The endpoint.
        prompts: The prompts.
        model: The requested model.
        parameters: Further fields of each request, for example ``temperature``.
        load: Settings of every request.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        prompts: PromptSet,
        *,
        model: str,
        parameters: Mapping[str, Any],
        load: LoadSettings,
    ) -> None:
        self._endpoint = endpoint
        self._prompts = prompts
        self._model = model
        self._load = load
        self._fields = {
            "model": model,
            "stream": True,
            # Without it, no server reports token counts for a stream.
            "stream_options": {"include_usage": True},
            **parameters,
        }
        self._client = ChatClient(
            endpoint, model, reuse_connections=load.connections is Connections.REUSED
        )
        # New in every measurement: the server may still cache the prompts of an earlier one.
        self._nonce = secrets.token_hex(8)
        self._bodies: dict[int, bytes] = {}

    async def send(self, index: int) -> RequestResult:
        """Send the chat with that index, and return when it has ended, however it ended."""
        return await self._client.ask(self._body(index), self._load.timeout_s)

    def _body(self, index: int) -> bytes:
        if self._load.cache is CacheState.COLD:
            return self._encoded(self._prompts.of(index).beginning_with(self._beginning(index)))
        number = self._prompts.number_of(index)
        body = self._bodies.get(number)
        if body is None:
            body = self._bodies[number] = self._encoded(self._prompts.prompts[number])
        return body

    def _beginning(self, index: int) -> str:
        # Of one length for all requests, so that it adds the same number of tokens to each.
        return f"[{self._nonce}{index:08d}] "

    def _encoded(self, prompt: Prompt, **fields: Any) -> bytes:
        request = {**self._fields, **fields, "messages": prompt.messages}
        return json.dumps(request, ensure_ascii=False, separators=(",", ":")).encode(
            "utf-8", "surrogatepass"
        )

    async def try_once(self) -> RequestResult:
        """
        Send one chat before the load: the cold sample, which also shows whether requests work.

        With a warm cache, it leaves the common prefix of the prompts in the server's cache.

        Raises:
            MeasurementError: It did not complete; the message has the reason.
        """
        answer = await self._client.ask(self._body(0), self._load.timeout_s)
        if answer.outcome is not Outcome.COMPLETED or answer.first_token_ns is None:
            raise explain(self._endpoint, self._model, answer, self._prompts.of(0))
        return answer

    async def close(self) -> None:
        """Close every connection."""
        await self._client.close()


async def find_model(endpoint: Endpoint) -> str:
    """
    Return the only model of an endpoint.

    Raises:
        MeasurementError: It cannot be reached, or lists no model or several.
    """
    try:
        answer = await list_models(endpoint, _MODELS_TIMEOUT_S)
    except TimeoutError as error:
        raise MeasurementError(
            f"{endpoint.shown} did not list its models within {_MODELS_TIMEOUT_S:g} s",
            hint="name the model with --model, or check that the server is ready",
        ) from error
    except Exception as error:
        failed = RequestResult(outcome=Outcome.ERROR, duration_ns=0, error=error)
        raise explain(endpoint, "", failed) from error
    found = answer.model_ids if answer.status == _OK else []
    if len(found) == 1:
        return found[0]
    if answer.status in _UNAUTHORIZED:
        raise _refused(endpoint, answer.status, endpoint.without_key(_message_in(answer.body)))
    if not found:
        raise MeasurementError(
            f"{endpoint.shown} does not list its models, so the model is not known"
            f"{_status(answer)}",
            hint=_versioned(endpoint) or f"name the model with --model; {_OTHER_API}",
        )
    shown = ", ".join(sorted(found)[:10])
    raise MeasurementError(
        f"{endpoint.shown} has {len(found):,} models",
        hint=f"choose one with --model: {shown}{', …' if len(found) > 10 else ''}",
    )


def _status(answer: HttpAnswer) -> str:
    return "" if answer.status == _OK else f": status {answer.status}"


def explain(
    endpoint: Endpoint, model: str, answer: RequestResult, prompt: Prompt | None = None
) -> MeasurementError:
    """Return the error about a first request, of a prompt, that did not complete."""
    reason = endpoint.without_key(_message_in(answer.error_body))
    if prompt is not None:
        reason = prompt.hidden_in(reason)
    because = f": {foreign(reason)}" if reason else ""
    status = answer.status
    if status in _UNAUTHORIZED:
        return _refused(endpoint, status or 0, reason)
    if status == _NOT_FOUND:
        hint = _versioned(endpoint) or (
            f"check the name of the model, and the path of the URL; {_OTHER_API}"
        )
        return MeasurementError(
            f"{endpoint.shown} has no chat completions for the model '{model}' (status 404)"
            f"{because}",
            hint=hint,
        )
    if status == _TOO_MANY:
        return MeasurementError(
            f"{endpoint.shown} rejects even the first request (status 429){because}",
            hint="wait until the limit of your key allows requests again",
        )
    if status is not None and status in _REDIRECTS:
        return MeasurementError(
            f"{endpoint.shown} redirects to another address (status {status})",
            hint="use the address that it redirects to: a redirect would be part of every latency",
        )
    if status is not None and status in _SERVER_ERRORS:
        return MeasurementError(
            f"{endpoint.shown} fails on the first request (status {status}){because}",
            hint="the log of the server shows the cause",
        )
    if status is not None and status != _OK:
        return MeasurementError(
            f"{endpoint.shown} refuses the request (status {status}){because}",
            hint="set fields of the request with --body, for example"
            """ --body '{"max_completion_tokens": 64}'""",
        )
    return _unreached(endpoint, answer)


def _unreached(endpoint: Endpoint, answer: RequestResult) -> MeasurementError:
    error = answer.error
    if isinstance(error, ssl.SSLCertVerificationError):
        return MeasurementError(
            f"the certificate of {endpoint.host} cannot be verified: {error.verify_message}",
            hint="set SSL_CERT_FILE to the file of the authority that issued it",
        )
    if isinstance(error, ssl.SSLError):
        return MeasurementError(
            f"no TLS connection to {endpoint.host}:{endpoint.port}: {error.reason or error}",
            hint="if the server speaks plain HTTP, use http:// instead of https://",
        )
    if answer.outcome is Outcome.TIMEOUT:
        return MeasurementError(
            f"{endpoint.shown} did not complete the first request in time",
            hint="raise --timeout, or check that the server is ready",
        )
    if isinstance(error, CUT_SHORT):
        return MeasurementError(
            f"{endpoint.shown} closed the connection before its response was complete",
            hint="the log of the server shows the cause",
        )
    if isinstance(error, ConnectionRefusedError):
        return MeasurementError(
            f"nothing listens at {endpoint.host}:{endpoint.port}",
            hint="start the server, or correct the address",
        )
    if isinstance(error, OSError):
        return MeasurementError(
            f"{endpoint.host}:{endpoint.port} cannot be reached: {error.strerror or error}",
            hint="check the host name, the port and the network",
        )
    if error is not None:
        return MeasurementError(
            f"{endpoint.shown} did not send an HTTP response: {foreign(text_of(error))}",
            hint="check the address and the port",
        )
    return MeasurementError(
        f"{endpoint.shown} sent a response without a token, or a stream that ended early",
        hint="check that it is an OpenAI-compatible API that streams chat completions;"
        f" {_OTHER_API}",
    )


def _refused(endpoint: Endpoint, status: int, reason: str) -> MeasurementError:
    because = f": {foreign(reason)}" if reason else ""
    if endpoint.api_key is None:
        hint = "set OPENAI_API_KEY, or name the variable that holds the key with --api-key-env"
    else:
        hint = "check the key in the variable OPENAI_API_KEY, or the one named by --api-key-env"
    return MeasurementError(
        f"{endpoint.shown} does not accept the API key (status {status}){because}", hint=hint
    )


_OTHER_API: Final = (
    "any other API is measured by a function that calls it: latspan measure module:function"
)


def _versioned(endpoint: Endpoint) -> str | None:
    """Return the hint to add ``/v1``, if the URL has no path."""
    return None if endpoint.base_path else f"try {endpoint.shown}/v1"


def _message_in(body: bytes) -> str:
    """Return the message in the body of an error, without anything that repeats the request."""
    try:
        data: Any = json.loads(body)
        error: Any = data.get("error", data)
        found: object = (
            error if isinstance(error, str) else cast("dict[str, Any]", error)["message"]
        )
    except (ValueError, LookupError, TypeError, AttributeError):
        return ""
    return found if isinstance(found, str) else ""
