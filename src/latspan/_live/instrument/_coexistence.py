"""
Detection of other instrumentations that open a span for the same model call or served request.

There must be one LLM span per call, and one instrumentation that emits the conventions' metrics for
it. If another instrumentation has opened its span before the call, that span is current when the
call begins and has an attribute that identifies a model call: latspan adds its attributes to that
span (:func:`llm_span`). If it opens its span inside the call, a transport integration
finds the span there (``adopt_llm_span`` in ``_hooks.py``). Such a span is taken once;
``_latspan_enriched`` marks it.

A served request likewise has one span of kind SERVER. OpenTelemetry's middleware opens it inside
the application, and :func:`track_inside` begins the request there, where that span is current.

This module reads parts of other libraries that are not public: the context key of
``opentelemetry-util-genai``, the attributes, scope and status of the SDK's spans, and the frames of
the stack. All but the frames are read with a default, so that another version of a library only
disables the detection.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from opentelemetry import trace
from opentelemetry.context import Context

from latspan import semconv
from latspan._base.internal_errors import handle_internal_errors
from latspan._live.instrument._discovery import switched_on
from latspan._live.operations import Operation, active_operation
from latspan._live.otel.providers import is_unset
from latspan._live.otel.spans import AttributeValue
from latspan._model.segments import Outcome
from latspan._model.wire import FETCH_RESPONSE

if TYPE_CHECKING:
    from latspan._live.instrument._patching import Patches

OFFICIAL_INFERENCE_KEY: Final = "opentelemetry.genai.client.inference.context"
"""Context key under which `opentelemetry-util-genai` 1.3 stores the open inference."""

_LLM: Final[Mapping[str, frozenset[str]]] = {
    semconv.GEN_AI_OPERATION_NAME: frozenset(
        {"chat", "text_completion", "generate_content", "embeddings", FETCH_RESPONSE}
    ),
    # OpenInference and instrumentations derived from it.
    "openinference.span.kind": frozenset({"LLM", "EMBEDDING"}),
    # OpenLLMetry, which sets the operation only later.
    "llm.request.type": frozenset({"chat", "completion", "embedding"}),
}
"""Attribute values that identify a span as one model call; any one of them is enough."""

_ENRICHED: Final = "_latspan_enriched"

_CALLING_MODULES: Final = frozenset(
    f"{__package__}.{name}" for name in ("_methods", "_bodies", "_stream_classes", "_streams")
)
"""Modules of latspan whose functions call the SDK and receive its result or exception."""


def is_instrumented(module: str, instrumentor: str) -> bool:
    """
    Return whether a given instrumentation of OpenTelemetry is switched on.

    Args:
        module: Module that contains it; this function does not import it.
        instrumentor: Name of its instrumentor class, whose constructor returns a singleton.
    """
    cls = getattr(sys.modules.get(module), instrumentor, None)
    return cls is not None and cls().is_instrumented_by_opentelemetry is True


def has_global_provider() -> bool:
    """Return whether a tracer provider is set, so that other instrumentations record spans."""
    return not is_unset(trace.get_tracer_provider())


_TRACKS_INSIDE: Final = "_latspan_tracks_inside"
"""Attribute of a middleware's class while requests begin inside it."""


def track_inside(
    patches: Patches, cls: type, name: str, tracked: Callable[[Any], Callable[..., Any]]
) -> None:
    """
    Replace the application inside a middleware of another instrumentation, at each of its calls.

    The method ``__call__`` of the middleware receives a proxy as ``self``, which differs from the
    middleware only in the application inside it. The middleware itself does not change.

    Args:
        patches: Applies and removes the patch.
        cls: The middleware's class; a second invocation for the same class has no effect.
        name: Attribute of the middleware that holds the application.
        tracked: Returns the replacement, given the application.
    """
    if hasattr(cls, _TRACKS_INSIDE):
        return

    def call(
        wrapped: Any, middleware: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> object:
        inside = tracked(getattr(middleware, name))
        return wrapped.__func__(_WithInside(middleware, name, inside), *args, **kwargs)

    patches.wrap(cls, "__call__", call)
    patches.set_attribute(cls, _TRACKS_INSIDE, value=True)


class _WithInside:
    """Proxy that differs from its middleware only in the application inside it."""

    __slots__ = ("_inside", "_middleware", "_name")

    def __init__(self, middleware: object, name: str, inside: Callable[..., Any]) -> None:
        self._middleware = middleware
        self._name = name
        self._inside = inside

    def __getattr__(self, name: str) -> Any:
        return self._inside if name == self._name else getattr(self._middleware, name)


def metrics_emitted_by_other(span: trace.Span | None, parent_context: Context) -> bool:
    """
    Return whether another instrumentation emits the GenAI conventions' metrics for this call.

    Args:
        span: What :func:`llm_span` returned.
        parent_context: The context that the call begins in.
    """
    if parent_context.get(OFFICIAL_INFERENCE_KEY) is not None:
        return True
    if span is None:
        return False
    return _scope_of(span).startswith("opentelemetry.")


def left_to_owner(span: trace.Span) -> Collection[str]:
    """Return the names of the attributes that latspan does not add to another's span."""
    return _left_to_sdk(span) or ()


def _left_to_sdk(span: trace.Span) -> Collection[str] | None:
    """Return the same for the span of an SDK that traces itself; ``None`` for any other span."""
    scope = _scope_of(span)
    for integration in switched_on():
        for own_scope, names in integration.own_scopes.items():
            if scope.startswith(own_scope):
                return names
    return None


def _scope_of(span: trace.Span) -> str:
    scope = getattr(span, "instrumentation_scope", None)
    return str(getattr(scope, "name", ""))


def llm_span(span: trace.Span | None) -> trace.Span | None:
    """
    Return the span if another instrumentation has just opened it for the call that begins here.

    A span is returned once: a second call inside the same span gets a span of its own.

    Args:
        span: The current span of the context that the call begins in, ``None`` if there is none.
    """
    if span is None or not span.is_recording():
        return None
    attributes = cast("Mapping[str, object] | None", getattr(span, "attributes", None))
    if not attributes or semconv.LATSPAN_KIND in attributes or hasattr(span, _ENRICHED):
        return None
    if not any(attributes.get(key) in values for key, values in _LLM.items()):
        return None
    try:
        setattr(span, _ENRICHED, True)
    except AttributeError:
        return None
    return span


def on_other_end(
    call: Operation, span: trace.Span
) -> Callable[[], Mapping[str, AttributeValue] | None] | None:
    """
    Return a callback that decides whether the end of the SDK's span waits for the end of ``call``.

    If a latspan function that called the SDK is on the stack, the end waits, because that function
    is about to receive the outcome with more detail than the SDK's span has. The end also waits if
    the SDK runs a part of its method in another thread. Otherwise the caller has read, closed or
    dropped the body without the objects that latspan tracks, and the callback ends the call.

    Returns:
        The callback. It returns ``None`` to wait, or the attributes to set on the span now.
        ``None`` instead of a callback if no SDK that traces itself opened the span: such an SDK
        ends its span when the response body is read, closed or dropped. Other instrumentations end
        their spans based on the stream objects, as latspan does.
    """
    if _left_to_sdk(span) is None:
        return None

    def when_ended() -> Mapping[str, AttributeValue] | None:
        with handle_internal_errors("the end of the SDK's span"):
            if not call.finished:
                if call.is_closing or active_operation() is call:
                    return None
                finalizing = False
                frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage] - as `logging` does
                while frame is not None:
                    if frame.f_globals.get("__name__") in _CALLING_MODULES:
                        return None
                    finalizing = finalizing or frame.f_code.co_name == "__del__"
                    frame = frame.f_back
                _end(call, span, finalizing=finalizing)
            # For a response that was read to its end the span waits: more is known once the
            # response has been parsed.
            outcome = call.outcome
            if outcome is not None and outcome is not Outcome.COMPLETED:
                return {semconv.LATSPAN_OUTCOME: outcome.value}
        return None

    return when_ended


def _end(call: Operation, span: trace.Span, *, finalizing: bool) -> None:
    """End a call with the status of the SDK's span."""
    status = getattr(getattr(span, "status", None), "status_code", None)
    error_type: str | None = None
    outcome = Outcome.CLOSED_EARLY
    if status is trace.StatusCode.ERROR:
        attributes: Mapping[str, object] = getattr(span, "attributes", None) or {}
        outcome, error_type = Outcome.ERROR, str(attributes.get(semconv.ERROR_TYPE))
    elif status is trace.StatusCode.OK:
        outcome = Outcome.COMPLETED
        # The caller read the bytes directly, so nothing is known about the chunks.
        call.forget_reads()
    call.end(outcome, error_type=error_type, finalizing=finalizing)
