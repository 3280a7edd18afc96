"""Opening a call or an exchange, and finding it again."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from opentelemetry import context
from opentelemetry.context import Context

from latspan import _runtime, semconv
from latspan._instrument._coexistence import (
    ending_beside,
    llm_span_around,
    metrics_emitted_by_other,
)
from latspan._instrument._server_address import sent_request
from latspan._operations import ModelCall as Call
from latspan._operations import SentRequest, inside
from latspan._operations import active_call as _active_call
from latspan._segments import Kind
from latspan._spans import AttributeValue, EnrichingSink, NoSink
from latspan._text import text_of
from latspan._timeline import Attempt
from latspan._wire import ApiFormat, copy_fields

if TYPE_CHECKING:
    from latspan._instrument._patching import Patches

__all__ = [
    "Attempt",
    "Call",
    "SentRequest",
    "active_call",
    "asks_for_usage",
    "inside",
    "is_suppressed",
    "is_switched_on",
    "open_call",
    "open_exchange",
    "patch_request_builder",
]

_SUPPRESSION_KEYS = (
    # The keys carry a random suffix, so they can only be had from where they are made.
    context._SUPPRESS_INSTRUMENTATION_KEY,  # pyright: ignore[reportPrivateUsage]
    "suppress_instrumentation",
)
_HTTP_SUPPRESSION_KEYS = (
    *_SUPPRESSION_KEYS,
    context._SUPPRESS_HTTP_INSTRUMENTATION_KEY,  # pyright: ignore[reportPrivateUsage]
)


def _suppressed(current: Context, keys: tuple[str, ...]) -> bool:
    # By hand: `any` over a generator costs ten times as much, and this is asked twice a call.
    for key in keys:  # noqa: SIM110
        if current.get(key):
            return True
    return False


def is_switched_on() -> bool:
    """Return whether latspan is configured: otherwise there is nothing to do."""
    return _runtime.current() is not None


def is_suppressed() -> bool:
    """Return whether the instrumentation of HTTP is suppressed in this context."""
    return _suppressed(context.get_current(), _HTTP_SUPPRESSION_KEYS)


def open_call(
    *,
    operation: str,
    provider: str,
    model: str | None,
    dialect: ApiFormat,
    server: tuple[str, int] | None = None,
    client: object = None,
    streamed: bool = False,
    choices: int = 1,
    attributes: Mapping[str, AttributeValue] | None = None,
    awaits_span: bool = False,
    request: Mapping[str, Any] | None = None,
) -> Call | None:
    """
    Open one logical call of a model's client library, retries inside.

    Args:
        operation: The conventions' operation, for example ``chat``.
        provider: The conventions' provider name, for example ``openai``.
        model: The model asked for, ``None`` where the request does not say.
        dialect: How to read the answer.
        server: Host and port it goes to, where known.
        client: The client library's client, if what it builds is noted by
            :func:`patch_request_builder`: then no other request is an attempt of the call.
        streamed: Whether the answer was asked for in chunks.
        choices: How many answers were asked for at once.
        attributes: Further attributes of the span, known before the call.
        awaits_span: Whether another instrumentation is known to open its span inside the call,
            where a transport integration finds it.
        request: What is asked, by the API's names of its parts. Read only where content is, and
            of it only what holds content.

    Where another instrumentation has opened a span for the same call, that is the one LLM span:
    latspan adds to it, and leaves the conventions' metrics to whoever emits them.

    Returns:
        ``None`` when latspan is not configured or instrumentation is suppressed here: then there
        is nothing to do.
    """
    runtime = _runtime.current()
    if runtime is None:
        return None
    around = context.get_current()
    if _suppressed(around, _SUPPRESSION_KEYS):
        return None
    try:
        known: dict[str, AttributeValue] = {
            semconv.GEN_AI_OPERATION_NAME: operation,
            semconv.GEN_AI_PROVIDER_NAME: provider,
            **(attributes or {}),
        }
        series = {"provider": provider}
        if model is not None:
            model = text_of(model)
            known[semconv.GEN_AI_REQUEST_MODEL] = series["model"] = model
        if server is not None:
            known[semconv.SERVER_ADDRESS], known[semconv.SERVER_PORT] = server
        if streamed:
            known[semconv.GEN_AI_REQUEST_STREAM] = True
        beside = llm_span_around(around)
        call = Call(
            runtime,
            around,
            kind=Kind.CALL,
            name=operation if model is None else f"{operation} {model}",
            attributes=known,
            series=series,
            server=server,
            client=client,
            dialect=dialect,
            streamed=streamed,
            choices=choices,
            convention_metrics=not metrics_emitted_by_other(beside, around),
            sink=None if beside is None else EnrichingSink(runtime.sink(), beside),
            awaits_span=awaits_span and beside is None,
        )
    except Exception as error:  # noqa: BLE001 - latspan's own
        _runtime.log_internal_error(error, "the start of a call")
        return None
    if call.gathered is not None and request is not None and dialect.content is not None:
        with _runtime.handle_internal_errors("the content of a request"):
            call.request = copy_fields(request, dialect.content.request_fields)
    return call


def open_exchange(
    method: str,
    *,
    server: tuple[str, int],
    attributes: Mapping[str, AttributeValue],
    spanned_elsewhere: bool = False,
) -> Call | None:
    """
    Open one HTTP exchange outside any call.

    Args:
        method: The HTTP method, which is the span's name.
        server: Host and port it goes to.
        attributes: Attributes of the span, known before the exchange.
        spanned_elsewhere: Whether another instrumentation opens a span for it: then it has none
            of ours, unless it turns out to be a call.

    Returns:
        ``None`` when latspan is not configured or HTTP instrumentation is suppressed here.
    """
    runtime = _runtime.current()
    if runtime is None:
        return None
    around = context.get_current()
    if _suppressed(around, _HTTP_SUPPRESSION_KEYS):
        return None
    with _runtime.handle_internal_errors("the start of an HTTP exchange"):
        return Call(
            runtime,
            around,
            kind=Kind.HTTP,
            name=method,
            server=server,
            attributes=attributes,
            series={},
            sink=NoSink() if spanned_elsewhere else None,
        )
    return None


def adopt_llm_span(call: Call) -> None:
    """Give ``call``, which has none, the span that another instrumentation opened inside it."""
    runtime = _runtime.current()
    span = llm_span_around(context.get_current())
    if runtime is not None and span is not None:
        call.adopt(EnrichingSink(runtime.sink(), span, ending_beside(call, span)))


def asks_for_usage() -> bool:
    """
    Return whether a stream is to be asked for its token counts, where its caller said nothing.

    That changes a request, so it is so only where somebody configured it.
    """
    runtime = _runtime.current()
    if runtime is None or not runtime.request_stream_usage:
        return False
    return not _suppressed(context.get_current(), _SUPPRESSION_KEYS)


def active_call() -> Call | None:
    """Return the call that a client library is making in this context, unless suppressed."""
    call = _active_call()
    if call is None or _suppressed(context.get_current(), _HTTP_SUPPRESSION_KEYS):
        return None
    return call


def patch_request_builder(patches: Patches, cls: type, name: str = "_build_request") -> None:
    """
    Note which requests the clients of an SDK build: they are what its calls send.

    Args:
        patches: Puts the patch on, and takes it off.
        cls: The class of the SDK's clients.
        name: Its method that returns a request of httpx's, or of httpx2's.
    """

    def noting(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def build_request(self: Any, *args: Any, **kwargs: Any) -> Any:
            request = original(self, *args, **kwargs)
            call = _active_call()
            if call is not None:
                call.own_requests.note(self, request, functools.partial(sent_request, request))
            return request

        return build_request

    patches.replace(cls, name, noting)
