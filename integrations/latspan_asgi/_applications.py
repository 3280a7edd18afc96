"""
Requests of Starlette applications, tracked from the method that serves them.

``Starlette.__call__`` is outside of all middleware, so a request is tracked as a whole. FastAPI
calls it too.

**OpenTelemetry's middleware.** OpenTelemetry's instrumentations put their middleware into the
application. It opens its span inside ``Starlette.__call__``, and as a SERVER span only if no span
is current. So if an application has that middleware, the request begins inside it, where its span
is current and latspan adds to it. For that, ``__call__`` of that middleware is called with an
object in the place of the middleware that has another application inside; everything else is the
middleware's own.
"""

from __future__ import annotations

import sys
from typing import Any, Final

from latspan._instrument import Patches
from latspan_asgi._middleware import App, Receive, Scope, Send, serve

__all__ = ["serving"]

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
    other = getattr(sys.modules.get(_OTHER), "OpenTelemetryMiddleware", None)
    if kwargs or (other is not None and _has(app, other)):
        if other is not None and not hasattr(other, _BEGINS_INSIDE):
            patches.wrap(other, "__call__", _inside)
            patches.note(other, _BEGINS_INSIDE, value=True)
        return wrapped(*args, **kwargs)
    return serve(wrapped, *args, app=app)


_BEGINS_INSIDE: Final = "_latspan_begins_inside"
"""Attribute of OpenTelemetry's middleware while requests begin inside it."""


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


def _inside(wrapped: Any, middleware: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    app: App = middleware.app

    async def tracked(scope: Scope, receive: Receive, send: Send) -> None:
        # A middleware around an application that is not Starlette's is left as it is.
        starlette = scope.get("app")
        if starlette is None:
            await app(scope, receive, send)
        else:
            await serve(app, scope, receive, send, app=starlette)

    return wrapped.__func__(_WithInside(middleware, tracked), *args, **kwargs)


class _WithInside:
    """A middleware in all but the application inside it."""

    __slots__ = ("_middleware", "app")

    def __init__(self, middleware: Any, app: App) -> None:
        self._middleware = middleware
        self.app = app

    def __getattr__(self, name: str) -> Any:
        return getattr(self._middleware, name)
