"""
Requests of Starlette applications, tracked from the method that serves them.

``Starlette.__call__`` is outside of all middleware, so a request is tracked as a whole. FastAPI
calls it too.

**OpenTelemetry's middleware.** OpenTelemetry's instrumentations put their middleware into the
application. It opens its span inside ``Starlette.__call__``, and as a SERVER span only if no span
is current. So if an application has that middleware, the request begins inside it, where its span
is current and latspan adds to it.
"""

from __future__ import annotations

import sys
from typing import Any, Final

from latspan._live.instrument import Patches, ServerRequest, handle_internal_errors, track_inside
from latspan_instrumentation.asgi._middleware import SERVED, App, Receive, Scope, Send, serve

_OTHER: Final = "opentelemetry.instrumentation.asgi"


def serving(
    patches: Patches, wrapped: App, app: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """
    Serve a request of a Starlette application, as its ``__call__``.

    Args:
        patches: The patches of the instrumentor.
        wrapped: The application's own ``__call__``.
        app: The application.
        args: Scope, receive and send, as in the ASGI specification.
        kwargs: Empty, unless a caller passes the arguments by name.
    """
    if kwargs:
        return wrapped(*args, **kwargs)
    begins_inside = False
    with handle_internal_errors("the start of a request of Starlette"):
        other = getattr(sys.modules.get(_OTHER), "OpenTelemetryMiddleware", None)
        if other is not None and _has(app, other):
            track_inside(patches, other, "app", _tracked)
            begins_inside = True
    return wrapped(*args) if begins_inside else serve(wrapped, *args, app=app)


async def handling(
    wrapped: App, middleware: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """
    Pass a request to the routes, as ``ExceptionMiddleware.__call__``, and record what they raise.

    A middleware of the application that has the response in its hands, such as Starlette's
    ``BaseHTTPMiddleware``, completes it before it raises the exception.

    Args:
        wrapped: The middleware's own ``__call__``.
        middleware: The middleware, which handles the exceptions that are responses.
        args: Scope, receive and send, as in the ASGI specification.
        kwargs: Empty, unless a caller passes the arguments by name.
    """
    del middleware
    try:
        await wrapped(*args, **kwargs)
    except Exception as error:
        scope: Scope = args[0] if args else kwargs["scope"]
        served: ServerRequest | None = scope.get(SERVED)
        if served is not None:
            served.raised(error)
        raise


def _has(app: Any, other: type) -> bool:
    """Return whether OpenTelemetry's middleware is in the application, and will be called."""
    if any(getattr(each, "cls", None) is other for each in app.user_middleware):
        return True
    if not getattr(app, "_is_instrumented_by_opentelemetry", False):
        return False
    # FastAPI's instrumentation changes how the middleware is built, which has no effect once it
    # has been built.
    stack = app.middleware_stack
    return stack is None or isinstance(getattr(stack, "app", None), other)


def _tracked(inside: App) -> App:
    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        # Around the application of another framework, the middleware is left as it is.
        starlette = scope.get("app")
        if starlette is None:
            await inside(scope, receive, send)
        else:
            await serve(inside, scope, receive, send, app=starlette)

    return call
