"""The middleware: one request, the head of its answer, and the body that the server takes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sized
from typing import Any, Final
from wsgiref.util import request_uri

from latspan.integrations import (
    ServerRequest,
    ServerTimingHeader,
    handle_internal_errors,
    is_excluded,
)
from latspan_wsgi._body import Body, SizedBody
from latspan_wsgi._routes import route_of

__all__ = ["LatspanMiddleware"]

App = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

_SEEN = "latspan.served"
"""In the environ of a request that is followed already: a middleware may stand there twice."""

_FRAMEWORKS: Final = ("WSGI", "FLASK", "DJANGO")
"""What the middleware stands for, by the names of the variables that exclude URLs."""


class LatspanMiddleware:
    """
    Follows each request of a WSGI application: ``app.wsgi_app = LatspanMiddleware(app.wsgi_app)``.

    That is how Flask takes it; around any other application it is ``app = LatspanMiddleware(app)``.

    Args:
        app: The application.
        server_timing: Whether answers tell their stages so far in the ``Server-Timing`` header,
            which anybody can read who gets the answer. ``True`` tells the standard stages, and the
            time so far in all as ``total``; a collection tells those it names.
    """

    def __init__(self, app: App, *, server_timing: bool | Collection[str] = False) -> None:
        self.app = app
        self._timings = ServerTimingHeader.of(server_timing)

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        """Serve one request."""
        served = None if _SEEN in environ else self._begin(environ)
        if served is None:
            return self.app(environ, start_response)
        environ[_SEEN] = True

        def start(status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
            with handle_internal_errors("the head of an answer"):
                served.answering(int(status[:3]), {name.lower(): value for name, value in headers})
                told = self._timings.of_answer(served)
                if told:
                    headers = [*headers, (ServerTimingHeader.header, told)]
            return start_response(status, headers, *more)

        try:
            body = self.app(environ, start)
        except BaseException as error:
            served.failed(error)
            served.leave()
            raise
        sends_file = environ.get("wsgi.file_wrapper")
        if isinstance(sends_file, type) and isinstance(body, sends_file):
            # The server sends it in a way of its own, for which it must know it.
            served.sent()
            served.leave()
            return body
        return SizedBody(body, served) if isinstance(body, Sized) else Body(body, served)

    def _begin(self, environ: dict[str, Any]) -> ServerRequest | None:
        with handle_internal_errors("the start of a served request"):
            if is_excluded(lambda: request_uri(environ), *_FRAMEWORKS):
                return None
            port: str = environ.get("SERVER_PORT", "")
            return ServerRequest.begin(
                environ["REQUEST_METHOD"],
                scheme=environ.get("wsgi.url_scheme", "http"),
                path=f"{environ.get('SCRIPT_NAME', '')}{environ.get('PATH_INFO', '')}" or "/",
                headers={
                    name[5:].replace("_", "-").lower(): value
                    for name, value in environ.items()
                    if name.startswith("HTTP_")
                },
                server=(environ["SERVER_NAME"], int(port) if port.isdecimal() else None)
                if environ.get("SERVER_NAME")
                else None,
                route=route_of(environ, self.app),
            )
        return None
