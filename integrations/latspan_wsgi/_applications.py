"""
Requests of Flask applications, tracked from the method that serves them.

**OpenTelemetry's instrumentation.** It opens its span in a function that Flask runs before the
request, and as a SERVER span only if no span is current. So if an application has it, the request
begins without a span, and takes that span out of the environ when the response starts, before it
ends. An application may also have OpenTelemetry's WSGI middleware around its ``wsgi_app``. Then the
request begins inside that middleware, where its span is current: ``__call__`` of the middleware is
called with an object in its place that has another application inside.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any, Final

from latspan._instrument import Patches, has_global_provider
from latspan_wsgi._middleware import App, serve

__all__ = ["serving"]

_FLASK_SPAN: Final = "opentelemetry-flask.span_key"
"""Key in the environ under which OpenTelemetry's instrumentation of Flask stores its span."""

_OTHER: Final = "opentelemetry.instrumentation.wsgi"

_BEGINS_INSIDE: Final = "_latspan_begins_inside"
"""Attribute of OpenTelemetry's middleware while requests begin inside it."""

_APPLICATION: Final = "latspan.application"
"""Key in the environ of the Flask application whose middleware is called."""


def serving(
    patches: Patches, wrapped: App, app: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """
    Serve a request of a Flask application, as its ``__call__``.

    Args:
        patches: The patches of the instrumentor.
        wrapped: The application's own ``__call__``.
        app: The application.
        args: Environ and ``start_response``, as in PEP 3333.
        kwargs: Empty, unless a caller passes the arguments by name.
    """
    if kwargs:
        return wrapped(*args, **kwargs)
    other = getattr(sys.modules.get(_OTHER), "OpenTelemetryMiddleware", None)
    if other is not None and isinstance(app.wsgi_app, other):
        if not hasattr(other, _BEGINS_INSIDE):
            patches.wrap(other, "__call__", _inside)
            patches.note(other, _BEGINS_INSIDE, value=True)
        args[0].setdefault(_APPLICATION, app)
        return wrapped(*args)
    has_other = getattr(app, "_is_instrumented_by_opentelemetry", False)
    awaited = _FLASK_SPAN if has_other and has_global_provider() else None
    return serve(wrapped, *args, app=app, other_span=awaited)


def _inside(wrapped: Any, middleware: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    inner: App = middleware.wsgi

    def tracked(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        # A middleware around an application that is not Flask's is left as it is.
        app = environ.pop(_APPLICATION, None)
        if app is None:
            return inner(environ, start_response)
        return serve(inner, environ, start_response, app=app)

    return wrapped.__func__(_WithInside(middleware, tracked), *args, **kwargs)


class _WithInside:
    """A middleware in all but the application inside it."""

    __slots__ = ("_middleware", "wsgi")

    def __init__(self, middleware: Any, app: App) -> None:
        self._middleware = middleware
        self.wsgi = app

    def __getattr__(self, name: str) -> Any:
        return getattr(self._middleware, name)
