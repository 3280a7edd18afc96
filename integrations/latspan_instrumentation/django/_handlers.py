"""
Requests of Django, tracked from the handler that serves them.

A handler's ``__call__`` is outside of all middleware, so a request is tracked as a whole. The
module of each handler imports the module of their base class, so neither handler exists when that
one has just been imported. A class that does not exist yet is patched when its first object loads
the middleware.

**Route.** Only the resolver knows it, and it is found when all middleware has let the request pass.
It is stored in the server's data of the request, where the middlewares of latspan look for it.

**OpenTelemetry's instrumentation.** It is a middleware of Django's. It opens its span as a SERVER
span only if no span is current, and ends it before the response is sent. So if it is active, the
request begins without a span, and takes over that span when the view is resolved. The end of the
span then waits for the end of the request.
"""

from __future__ import annotations

import sys
from typing import Any, Final

from latspan._live.instrument import (
    Patches,
    ServerRequest,
    handle_internal_errors,
    has_global_provider,
    is_instrumented,
)
from latspan_instrumentation.asgi import _middleware as asgi
from latspan_instrumentation.wsgi import _middleware as wsgi
from latspan_instrumentation.wsgi._routes import ROUTE

_OTHER: Final = "opentelemetry.instrumentation.django"
_SPAN: Final = "opentelemetry-instrumentor-django.span_key"
"""Key in ``request.META`` under which OpenTelemetry's instrumentation stores its span."""


def patch_handlers(patches: Patches) -> None:
    """Patch the handlers of both protocols, and the method of their base class that resolves."""
    from django.core.handlers.base import BaseHandler

    unpatched = {
        ("django.core.handlers.wsgi", "WSGIHandler"): _serve_wsgi,
        ("django.core.handlers.asgi", "ASGIHandler"): _serve_asgi,
    }

    def patch_those_that_exist() -> None:
        for (module, name), wrapper in tuple(unpatched.items()):
            cls = getattr(sys.modules.get(module), name, None)
            if cls is not None and unpatched.pop((module, name), None) is not None:
                patches.wrap(cls, "__call__", wrapper)

    def load(wrapped: Any, _: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with handle_internal_errors("the handlers of Django"):
            patch_those_that_exist()
        return wrapped(*args, **kwargs)

    patch_those_that_exist()
    patches.wrap(BaseHandler, "load_middleware", load)
    patches.wrap(BaseHandler, "resolve_request", _resolve)


def _serve_wsgi(wrapped: Any, handler: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if kwargs:
        return wrapped(*args, **kwargs)
    # The span ends before the response starts, so `_resolve` takes it.
    return wsgi.serve(wrapped, *args, app=handler, other_span=_SPAN if _has_other() else None)


def _serve_asgi(wrapped: Any, handler: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if kwargs:
        return wrapped(*args, **kwargs)
    return asgi.serve(wrapped, *args, app=handler, awaits_span=_has_other())


def _has_other() -> bool:
    return is_instrumented(_OTHER, "DjangoInstrumentor") and has_global_provider()


def _resolve(wrapped: Any, _: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    request: Any = kwargs.get("request", args[0] if args else None)
    data: dict[str, Any] = {}
    with handle_internal_errors("the span of a Django request"):
        # A WSGI request has the environ, an ASGI request has the scope.
        data = getattr(request, "environ", None) or getattr(request, "scope", None) or {}
        served = data.get(wsgi.SERVED)
        if isinstance(served, ServerRequest):
            served.adopt(request.META.get(_SPAN))
    match = wrapped(*args, **kwargs)
    with handle_internal_errors("the route of a Django request"):
        route: str | None = getattr(match, "route", None)
        if route is not None:
            data[ROUTE] = f"/{route.removeprefix('^')}"
    return match
