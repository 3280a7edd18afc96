"""
Functions that open a call or an exchange, and that find the open one, with the interface of a call.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

from opentelemetry import context

from latspan import semconv
from latspan._base.internal_errors import handle_internal_errors, log_internal_error
from latspan._base.text import text_of
from latspan._live.instrument._coexistence import (
    OFFICIAL_INFERENCE_KEY,
    left_to_owner,
    llm_span,
    metrics_emitted_by_other,
    on_other_end,
)
from latspan._live.instrument._urls import address_of, sent_request
from latspan._live.operations import (
    HttpExchange,
    ModelCall,
    Operation,
    SentRequest,
    active_operation,
)
from latspan._live.otel.context_keys import current_span, is_http_suppressed
from latspan._live.otel.context_keys import is_suppressed as is_all_suppressed
from latspan._live.otel.spans import AttributeValue, EnrichingSink
from latspan._live.process.runtime import current_runtime
from latspan._model.segments import Outcome
from latspan._model.wire import FETCH_RESPONSE, ApiFormat, copy_fields

if TYPE_CHECKING:
    from latspan._live.instrument._patching import Patches


class Call(Protocol):
    """
    One logical call of a model's client library, which :func:`open_call` has opened.

    :func:`patch_method` opens and ends the calls of a method. An integration that cannot use it
    runs the client's method in :meth:`active`, and then passes the result to
    :func:`track_response`, or ends the call with the outcome of the exception.
    """

    def active(self) -> AbstractContextManager[object]:
        """
        Return a context in which requests are attempts of this call and spans are its children.
        """
        ...

    def end(
        self,
        outcome: Outcome,
        *,
        done_ns: int | None = None,
        error_type: str | None = None,
        finalizing: bool = False,
    ) -> None:
        """
        End the call. Only the first call of this method has an effect.

        Args:
            outcome: How the call ended.
            done_ns: Instant of the end, nanoseconds of ``time.perf_counter_ns``; now if not given.
            error_type: ``error.type`` of the span.
            finalizing: Whether a finaliser ends the call. The rest of the work is then left to the
                worker thread, because a finaliser must not wait for a lock.
        """
        ...


def is_switched_on() -> bool:
    """Return whether latspan is configured; otherwise an integration must do nothing."""
    return current_runtime() is not None


def is_suppressed() -> bool:
    """Return whether HTTP instrumentation is suppressed in this context."""
    return is_http_suppressed(context.get_current())


def open_call(
    *,
    operation: str,
    provider: str,
    model: str | None,
    api_format: ApiFormat,
    server: tuple[str, int] | str | None = None,
    client: object = None,
    streamed: bool = False,
    choices: int = 1,
    attributes: Mapping[str, AttributeValue] | None = None,
    awaits_span: bool = False,
    hides_span: bool = False,
    request: Mapping[str, Any] | None = None,
) -> Call | None:
    """
    Open one logical call of a model's client library, retries included.

    Args:
        operation: Operation name of the GenAI conventions, for example ``chat``.
        provider: Provider name of the GenAI conventions, for example ``openai``.
        model: The requested model, ``None`` if the request does not name one.
        api_format: API format of the response.
        server: Base URL of the server, or its host and port; if given, only requests to this
            server are attempts of the call.
        client: Client object of the OpenAI SDK or the Anthropic SDK. latspan registers the request
            objects that this client builds, and recognises them when the transport sends them. Only
            requests that this client built are attempts of the call.
        streamed: Whether a streamed response was requested.
        choices: Number of choices requested.
        attributes: Further attributes of the span, known before the call.
        awaits_span: Whether another instrumentation opens its own span after this call has been
            opened. latspan then opens no span at first. When the SDK sends its request, the
            transport integration finds the other span in the current context, and latspan uses it.
            If there is none, latspan opens its own span at the end of the call.
        hides_span: Whether the client library must not see latspan's span, because it opens a span
            of its own that it exports to another place. The parent of the library's span then is
            the application's span, as without latspan.
        request: Fields of the request, by their names in the API. Read only if content is
            captured, and then only the fields that hold content.

    If another instrumentation has opened a span for the same call, that span remains the only LLM
    span: latspan adds attributes to it, and does not emit the conventions' metrics if the other
    instrumentation emits them.

    Returns:
        The call; ``None`` if latspan is not configured or instrumentation is suppressed in this
        context, so there is nothing to do.
    """
    runtime = current_runtime()
    if runtime is None:
        return None
    parent_context = context.get_current()
    if is_all_suppressed(parent_context):
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
        if isinstance(server, str):
            server = address_of(server)
        if server is not None:
            known[semconv.SERVER_ADDRESS], known[semconv.SERVER_PORT] = server
        if streamed and operation != FETCH_RESPONSE:
            known[semconv.GEN_AI_REQUEST_STREAM] = True
        # Most calls have no span of another instrumentation around them.
        other = current_span(parent_context)
        if other is not None:
            other = llm_span(other)
        convention_metrics = other is None and OFFICIAL_INFERENCE_KEY not in parent_context
        if not convention_metrics:
            convention_metrics = not metrics_emitted_by_other(other, parent_context)
        sink = None
        if other is not None:
            sink = EnrichingSink(runtime.sink(), other, left_out=left_to_owner(other))
        call = ModelCall(
            runtime,
            parent_context,
            name=operation if model is None else f"{operation} {model}",
            attributes=known,
            series=series,
            server=server,
            client=client,
            api_format=api_format,
            streamed=streamed,
            choices=choices,
            convention_metrics=convention_metrics,
            sink=sink,
            awaits_span=awaits_span and other is None,
            hides_span=hides_span,
        )
    except Exception as error:  # noqa: BLE001 - latspan's own
        log_internal_error(error, "the start of a call")
        return None
    if call.gathered is not None and request is not None and api_format.content is not None:
        with handle_internal_errors("the content of a request"):
            call.request = copy_fields(request, api_format.content.request_fields)
    return call


def open_exchange(sent: SentRequest, *, spanned_elsewhere: bool = False) -> HttpExchange | None:
    """
    Open one HTTP exchange outside any call.

    Args:
        sent: The request.
        spanned_elsewhere: Whether another instrumentation opens a span for it.

    Returns:
        The exchange; ``None`` if latspan is not configured.
    """
    runtime = current_runtime()
    if runtime is None:
        return None
    with handle_internal_errors("the start of an HTTP exchange"):
        return HttpExchange(
            runtime,
            context.get_current(),
            method=sent.method,
            path=sent.path,
            server=(sent.host, sent.port),
            attributes={
                semconv.HTTP_REQUEST_METHOD: sent.method,
                semconv.SERVER_ADDRESS: sent.host,
                semconv.SERVER_PORT: sent.port,
                semconv.URL_FULL: sent.url,
            },
            spanned_elsewhere=spanned_elsewhere,
        )
    return None


def adopt_llm_span(call: Operation) -> None:
    """Attach the span that another instrumentation opened inside ``call``, which has no span."""
    runtime = current_runtime()
    span = llm_span(current_span(context.get_current()))
    if runtime is not None and span is not None:
        left_out = left_to_owner(span)
        sink = EnrichingSink(runtime.sink(), span, on_other_end(call, span), left_out=left_out)
        call.adopt(sink)


def requests_usage() -> bool:
    """
    Return whether to request token counts for a stream if its caller did not set the option.

    It is true only if ``request_stream_usage`` is configured, because this changes the request.
    """
    runtime = current_runtime()
    if runtime is None or not runtime.request_stream_usage:
        return False
    return not is_all_suppressed(context.get_current())


def patch_request_builder(patches: Patches, cls: type, name: str = "_build_request") -> None:
    """
    Record the requests that the clients of an SDK build, which are those that its calls send.

    Args:
        patches: Applies and removes the patch.
        cls: The class of the SDK's clients.
        name: Name of its method that returns an httpx or httpx2 request.
    """

    def noting(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def build_request(self: Any, *args: Any, **kwargs: Any) -> Any:
            request = original(self, *args, **kwargs)
            operation = active_operation()
            if operation is not None:
                operation.own_requests.note(self, request, sent_request)
            return request

        return build_request

    patches.replace(cls, name, noting)
