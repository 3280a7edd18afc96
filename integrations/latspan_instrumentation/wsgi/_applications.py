"""
Requests of Flask applications, tracked from the method that serves them.

**OpenTelemetry's instrumentation.** It opens its span in a function that Flask runs before the
request, and as a SERVER span only if no span is current. So if an application has it, the request
begins without a span, and takes that span out of the environ when the response starts, before it
ends. An application may also have OpenTelemetry's WSGI middleware around its ``wsgi_app``. Then the
request begins inside that middleware, where its span is current.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any, Final

from latspan._live.instrument import (
    Patches,
    handle_internal_errors,
    has_global_provider,
    track_inside,
)
from latspan_instrumentation.wsgi._middleware import App, serve

_FLASK_SPAN: Final = "opentelemetry-flask.span_key"
"""Key in the environ under which OpenTelemetry's instrumentation of Flask stores its span."""

_OTHER: Final = "opentelemetry.instrumentation.wsgi"

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
    begins_inside = False
    with handle_internal_errors("the start of a request of Flask"):
        other = getattr(sys.modules.get(_OTHER), "OpenTelemetryMiddleware", None)
        if other is not None and isinstance(app.wsgi_app, other):
            track_inside(patches, other, "wsgi", _tracked)
            args[0].setdefault(_APPLICATION, app)
            begins_inside = True
    if begins_inside:
        return wrapped(*args)
    has_other = getattr(app, "_is_instrumented_by_opentelemetry", False)
    awaited = _FLASK_SPAN if has_other and has_global_provider() else None
    return serve(wrapped, *args, app=app, other_span=awaited)


def _tracked(inside: App) -> App:
    def call(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        # Around the application of another framework, the middleware is left as it is.
        app = environ.pop(_APPLICATION, None)
        if app is None:
            return inside(environ, start_response)
        return serve(inside, environ, start_response, app=app)

    return call
