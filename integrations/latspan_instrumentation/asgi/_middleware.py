"""
The ASGI middleware: tracks a request, its response, and a disconnect of the client.

A request has the template of the route that serves it: ``/items/{id}``, never ``/items/42``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, MutableMapping
from typing import Any, Final

from latspan._live.instrument import (
    ServerRequest,
    ServerTimingHeader,
    handle_internal_errors,
    is_excluded,
)
from latspan_instrumentation.asgi._response import TrackedResponse, as_text

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

SERVED: Final = "latspan.served"
"""
Key in the scope of a tracked request: the request, because a middleware may be installed twice.
"""

ROUTE: Final = "latspan.route"
"""Key in the scope of the route that Django has found."""

_FULL: Final = 2
"""The value of Starlette's ``Match.FULL``: path and method."""

_NO_TIMINGS: Final = ServerTimingHeader.of(False)

_FRAMEWORKS: Final = ("ASGI", "FASTAPI", "STARLETTE", "DJANGO")
"""Names of the frameworks in the environment variables that exclude URLs."""


def _url_of(scope: Scope) -> str:
    """Return the URL as OpenTelemetry's middleware builds it: server and path, without query."""
    host, port = scope.get("server") or ("0.0.0.0", 80)  # noqa: S104 - nothing listens there
    shown = host if port in {80, None} else f"{host}:{port}"
    return f"{scope.get('scheme', 'http')}://{shown}{scope['path']}"


class LatspanMiddleware:
    """
    Middleware that tracks each HTTP request of an ASGI application.

    FastAPI and Starlette: ``app.add_middleware(LatspanMiddleware)``.
    Any other application: ``app = LatspanMiddleware(app)``.
    Add it as the outermost middleware, so that it covers the whole request.

    Args:
        app: The application.
        server_timing: Whether the ``Server-Timing`` header of a response reports the stages that
            have ended by then. Every recipient of the response can read it. ``True`` reports the
            standard stages, and the total time until then as ``total``; a collection reports the
            stages that it names.
        hold_headers: Whether the headers of a stream wait for the first part of its body. Queue
            and prefill are then in the ``Server-Timing`` header, and later stages are reported in
            a comment at the end of an event stream. The argument has an effect only with
            ``server_timing``.
    """

    def __init__(
        self,
        app: App,
        *,
        server_timing: bool | Collection[str] = False,
        hold_headers: bool = False,
    ) -> None:
        self.app = app
        self._timings = ServerTimingHeader.of(server_timing)
        self._hold_headers = hold_headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request; pass scopes of other types to the application unchanged."""
        await serve(
            self.app, scope, receive, send, timings=self._timings, hold_headers=self._hold_headers
        )


async def serve(
    call: App,
    scope: Scope,
    receive: Receive,
    send: Send,
    *,
    app: object = None,
    timings: ServerTimingHeader = _NO_TIMINGS,
    hold_headers: bool = False,
    awaits_span: bool = False,
) -> None:
    """
    Serve one HTTP request; pass scopes of other types to the application unchanged.

    If a middleware further out tracks the request already, this one only reports timings.

    Args:
        call: The application, or the function that serves the request for it.
        scope: As in the ASGI specification.
        receive: As in the ASGI specification.
        send: As in the ASGI specification.
        app: The application that has the routes, if it is not ``call``.
        timings: The configured ``Server-Timing`` header.
        hold_headers: Whether the headers of a stream wait for the first part of its body.
        awaits_span: Whether another instrumentation opens its span for the request inside ``call``.
    """
    if scope["type"] != "http":
        await call(scope, receive, send)
        return
    tracked: ServerRequest | None = scope.get(SERVED)
    if tracked is not None:
        if not timings.reveals:
            await call(scope, receive, send)
            return
        reporting = TrackedResponse(
            tracked,
            send,
            timings,
            hold_headers=hold_headers,
            method=scope["method"],
            tracks=False,
        )
        await call(scope, receive, reporting.send)
        await reporting.let_go()
        return
    served = _begin(scope, call if app is None else app, awaits_span=awaits_span)
    if served is None:
        await call(scope, receive, send)
        return
    scope[SERVED] = served
    response = TrackedResponse(
        served, send, timings, hold_headers=hold_headers, method=scope["method"]
    )

    async def tracked_receive() -> Message:
        message = await receive()
        if message["type"] == "http.disconnect":
            response.gone = True
        return message

    try:
        await call(scope, tracked_receive, response.send)
        # If the application did not complete the response, the server must be able to detect
        # that. So held headers are sent, and nothing else is added.
        await response.let_go()
    except BaseException as error:
        if response.gone:
            served.disconnected()
        else:
            served.failed(error)
        raise
    else:
        if response.gone:
            served.disconnected()
        else:
            served.cut_short()
    finally:
        served.leave()
        # The server may hold the scope for as long as the connection is open.
        scope.pop(SERVED, None)


def _begin(scope: Scope, app: object, *, awaits_span: bool) -> ServerRequest | None:
    with handle_internal_errors("the start of a served request"):
        server = scope.get("server")
        if is_excluded(lambda: _url_of(scope), *_FRAMEWORKS):
            return None
        return ServerRequest.begin(
            scope["method"],
            scheme=scope.get("scheme", "http"),
            path=scope["path"],
            headers=as_text(scope.get("headers", ())),
            server=None if server is None else (server[0], server[1]),
            route=_route_of(scope, app),
            awaits_span=awaits_span,
        )
    return None


def _route_of(scope: MutableMapping[str, Any], app: Any) -> Callable[[], str | None]:
    """
    Return a function that returns the template of the route that serves a request.

    If it is called before the framework has found the route, it searches the framework's routes.

    Args:
        scope: The scope of the request at its beginning.
        app: The application that serves the request, used if the scope does not contain it.
    """
    request = {name: scope.get(name) for name in ("type", "path", "method", "root_path")}
    routes = getattr(scope.get("app", app), "routes", ())
    return lambda: _chosen(scope, request) or _matching(routes, request)


def _chosen(scope: MutableMapping[str, Any], request: dict[str, Any]) -> str | None:
    """Return the route that the framework stored in the scope, unless it is inside a mount."""
    found: str | None = scope.get(ROUTE)
    if found is not None:
        return found
    if scope.get("root_path") != request["root_path"]:
        return None
    path = getattr(scope.get("route"), "path", None)
    return path if isinstance(path, str) else None


def _matching(routes: Iterable[Any], request: dict[str, Any]) -> str | None:
    for route in routes:
        match, below = route.matches(request)
        if match.value != _FULL:
            continue
        path: str | None = getattr(route, "path", None)
        inside = getattr(route, "routes", None)
        if not inside:
            return path
        return f"{path or ''}{_matching(inside, {**request, **below}) or ''}"
    return None
