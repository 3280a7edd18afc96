"""The middleware: one request, its answer as it is sent, and the client that may leave."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, MutableMapping
from typing import Any, Final

from latspan.integrations import (
    ServerRequest,
    ServerTimingHeader,
    handle_internal_errors,
    is_excluded,
)
from latspan_asgi._answer import Answer
from latspan_asgi._headers import as_text
from latspan_asgi._routes import route_of

__all__ = ["LatspanMiddleware"]

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_SEEN = "latspan.served"
"""In the scope of a request that is followed already: a middleware may stand there twice."""

_FRAMEWORKS: Final = ("ASGI", "FASTAPI", "STARLETTE", "DJANGO")
"""What the middleware stands for, by the names of the variables that exclude URLs."""


def _url_of(scope: Scope) -> str:
    """Return the URL as OpenTelemetry's middleware has it: of the server, without the query."""
    host, port = scope.get("server") or ("0.0.0.0", 80)  # noqa: S104 - nothing listens there
    shown = host if port in {80, None} else f"{host}:{port}"
    return f"{scope.get('scheme', 'http')}://{shown}{scope['path']}"


class LatspanMiddleware:
    """
    Follows each HTTP request of an ASGI application: ``app.add_middleware(LatspanMiddleware)``.

    Around any application it is ``app = LatspanMiddleware(app)``. Outermost it sees the most.

    Args:
        app: The application.
        server_timing: Whether answers tell their stages so far in the ``Server-Timing`` header,
            which anybody can read who gets the answer. ``True`` tells the standard stages, and the
            time so far in all as ``total``; a collection tells those it names.
        hold_headers: Whether the head of a stream waits for the first part of its body, so that
            queue and prefill are in the header, and what came later is told in a comment at the end
            of an event stream. Only with ``server_timing``.
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
        """Serve one request, or whatever else the server asks for."""
        served = None
        if scope["type"] == "http" and _SEEN not in scope:
            served = self._begin(scope)
        if served is None:
            await self.app(scope, receive, send)
            return
        scope[_SEEN] = True
        answer = Answer(served, send, self._timings, hold_headers=self._hold_headers)

        async def receive_and_hear() -> Message:
            message = await receive()
            if message["type"] == "http.disconnect":
                answer.gone = True
            return message

        try:
            await self.app(scope, receive_and_hear, answer.send)
            # What it left unfinished is the server's to see.
            await answer.let_go()
        except BaseException as error:
            if answer.gone:
                served.disconnected()
            else:
                served.failed(error)
            raise
        else:
            if answer.gone:
                served.disconnected()
            else:
                served.cut_short()
        finally:
            served.leave()

    def _begin(self, scope: Scope) -> ServerRequest | None:
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
                route=route_of(scope, self.app),
            )
        return None
