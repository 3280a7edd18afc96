"""``chat.completions.create``: one call, retries inside."""

from __future__ import annotations

import functools
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from openai import AsyncStream, Stream

from latspan import semconv
from latspan.instrument import Call, error_type_of, follow, guarded, open_call, outcome_of
from latspan.segments import Outcome
from latspan.wire.openai_chat import OPENAI_CHAT

__all__ = ["acreate", "create"]

_ATTRIBUTES: Final = {
    "max_tokens": semconv.GEN_AI_REQUEST_MAX_TOKENS,
    "max_completion_tokens": semconv.GEN_AI_REQUEST_MAX_TOKENS,
    "temperature": semconv.GEN_AI_REQUEST_TEMPERATURE,
    "top_p": semconv.GEN_AI_REQUEST_TOP_P,
    "seed": semconv.GEN_AI_REQUEST_SEED,
    "frequency_penalty": semconv.GEN_AI_REQUEST_FREQUENCY_PENALTY,
    "presence_penalty": semconv.GEN_AI_REQUEST_PRESENCE_PENALTY,
}

_OFFICIAL: Final = "opentelemetry.instrumentation.genai.openai"

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


def create(
    wrapped: Callable[..., Any], instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Stand in for ``Completions.create``."""
    call = _open(instance, kwargs)
    if call is None:
        return wrapped(*args, **kwargs)
    try:
        with call.active():
            answer = wrapped(*args, **kwargs)
    except BaseException as error:
        call.finish(outcome_of(error), error_type=error_type_of(error))
        raise
    _hand_over(call, answer)
    return answer


def acreate(
    wrapped: Callable[..., Awaitable[Any]],
    instance: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Awaitable[Any]:
    """Stand in for ``AsyncCompletions.create``; the call begins when it is awaited."""
    # The SDK refuses wrong arguments here and now, and begins nothing before it is awaited.
    return _acreate(wrapped(*args, **kwargs), instance, kwargs)


async def _acreate(begun: Awaitable[Any], instance: Any, kwargs: dict[str, Any]) -> Any:
    call = _open(instance, kwargs)
    if call is None:
        return await begun
    try:
        with call.active():
            answer = await begun
    except BaseException as error:
        call.finish(outcome_of(error), error_type=error_type_of(error))
        raise
    _hand_over(call, answer)
    return answer


def _hand_over(call: Call, answer: Any) -> None:
    """End the call where its answer is whole, or follow the stream that it is."""
    with guarded("the answer of a call"):
        call.returned()
        if isinstance(answer, Stream | AsyncStream):
            follow(call, OPENAI_CHAT, answer)  # pyright: ignore[reportUnknownArgumentType]
            return
        # A raw response is handed to the caller unread: the call ends where we lose sight of it.
        call.reads = None
        call.answer = answer
        call.finish(Outcome.COMPLETED, done_ns=call.returned_ns)


def _open(instance: Any, kwargs: Mapping[str, Any]) -> Call | None:
    with guarded("the start of a chat"):
        return _open_chat(instance, kwargs)
    return None


def _open_chat(instance: Any, kwargs: Mapping[str, Any]) -> Call | None:
    client: Any = getattr(instance, "_client", None)
    model = kwargs.get("model")
    choices = kwargs.get("n")
    attributes: dict[str, Any] = {
        key: kwargs[name]
        for name, key in _ATTRIBUTES.items()
        # What was not given is a sentinel of the SDK's, or absent.
        if isinstance(kwargs.get(name), int | float)
    }
    if isinstance(choices, int) and choices != 1:
        attributes[semconv.GEN_AI_REQUEST_CHOICE_COUNT] = choices
    return open_call(
        operation="chat",
        provider=_provider(client.__class__),
        model=model if isinstance(model, str) else None,
        dialect=OPENAI_CHAT,
        server=_server(client),
        streamed=kwargs.get("stream") is True,
        choices=choices if isinstance(choices, int) else 1,
        attributes=attributes,
        counted_elsewhere=_official_is_on(),
    )


def _official_is_on() -> bool:
    """
    Return whether OpenTelemetry's own instrumentation of this SDK is on.

    It patches the same methods. Where it was there first it is inside, and the context that it
    marks is not to be seen from here.
    """
    instrumentor = getattr(sys.modules.get(_OFFICIAL), "OpenAIInstrumentor", None)
    # There is one instance, which calling the class returns.
    return instrumentor is not None and instrumentor().is_instrumented_by_opentelemetry is True


@functools.cache
def _provider(client_class: type) -> str:
    azure = any("Azure" in cls.__name__ for cls in client_class.__mro__)
    return "azure.ai.openai" if azure else "openai"


def _server(client: Any) -> tuple[str, int] | None:
    url = getattr(client, "base_url", None)
    host: str | None = getattr(url, "host", None)
    if not host:
        return None
    port: int | None = getattr(url, "port", None)
    return host, port or _DEFAULT_PORTS.get(getattr(url, "scheme", ""), 443)
