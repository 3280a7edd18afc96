"""The WSGI middleware: tracks a request, its response headers, and the body sent."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sized
from typing import Any, Final
from wsgiref.util import request_uri

from latspan._live.instrument import (
    ServerRequest,
    ServerTimingHeader,
    handle_internal_errors,
    is_excluded,
)
from latspan_instrumentation.wsgi._routes import route_of

App = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

SERVED: Final = "latspan.served"
"""
Key in the environ of a tracked request: the request, because a middleware may be installed twice.
"""

_NO_TIMINGS: Final = ServerTimingHeader.of(False)

_FRAMEWORKS: Final = ("WSGI", "FLASK", "DJANGO")
"""Names of the frameworks in the environment variables that exclude URLs."""


class LatspanMiddleware:
    """
    Middleware that tracks each request of a WSGI application.

    Flask: ``app.wsgi_app = LatspanMiddleware(app.wsgi_app)``.
    Any other application: ``app = LatspanMiddleware(app)``.

    Args:
        app: The application.
        server_timing: Whether the ``Server-Timing`` header of a response reports the stages that
            have ended by then. Every recipient of the response can read it. ``True`` reports the
            standard stages, and the total time until then as ``total``; a collection reports the
            stages that it names.
    """

    def __init__(self, app: App, *, server_timing: bool | Collection[str] = False) -> None:
        self.app = app
        self._timings = ServerTimingHeader.of(server_timing)

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        """Serve one request."""
        return serve(self.app, environ, start_response, timings=self._timings)


def serve(
    call: App,
    environ: dict[str, Any],
    start_response: Callable[..., Any],
    *,
    app: object = None,
    timings: ServerTimingHeader = _NO_TIMINGS,
    other_span: str | None = None,
) -> Iterable[bytes]:
    """
    Serve one request.

    If a middleware further out tracks the request already, this one only reports timings.

    Args:
        call: The application, or the function that serves the request for it.
        environ: As in PEP 3333.
        start_response: As in PEP 3333.
        app: The application that has the routes, if it is not ``call``.
        timings: The configured ``Server-Timing`` header.
        other_span: Key under which another instrumentation stores the span that it opens for the
            request inside ``call``; ``None`` if none does.
    """
    tracked: ServerRequest | None = environ.get(SERVED)
    served = tracked
    if served is None:
        served = _begin(environ, call if app is None else app, awaits_span=other_span is not None)
    if served is None or (tracked is not None and not timings.reveals):
        return call(environ, start_response)

    def start(status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
        with handle_internal_errors("the head of a response"):
            if other_span is not None:
                served.adopt(environ.get(other_span))
            served.answering(int(status[:3]), {name.lower(): value for name, value in headers})
            reported = timings.of_answer(served)
            if reported:
                headers = [*headers, (ServerTimingHeader.header, reported)]
        return start_response(status, headers, *more)

    if tracked is not None:
        return call(environ, start)
    environ[SERVED] = served
    try:
        body = call(environ, start)
    except BaseException as error:
        served.failed(error)
        served.leave()
        raise
    sends_file = environ.get("wsgi.file_wrapper")
    if isinstance(sends_file, type) and isinstance(body, sends_file):
        # A server recognises a file by the type of the body and sends it in a special way, so
        # the body is not wrapped.
        served.sent()
        served.leave()
        return body
    return _SizedBody(body, served) if isinstance(body, Sized) else _Body(body, served)


def _begin(environ: dict[str, Any], app: object, *, awaits_span: bool) -> ServerRequest | None:
    with handle_internal_errors("the start of a served request"):
        if is_excluded(lambda: request_uri(environ), *_FRAMEWORKS):
            return None
        # Starlette's WSGI middleware gives a number.
        port = str(environ.get("SERVER_PORT", ""))
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
            route=route_of(environ, app),
            awaits_span=awaits_span,
        )
    return None


class _Body:
    """
    Wrapper of the body that the application returned.

    Args:
        parts: The application's own body.
        served: The request that the body belongs to.
    """

    def __init__(self, parts: Iterable[bytes], served: ServerRequest) -> None:
        self._parts = parts
        self._served = served
        self._begun = False

    def __iter__(self) -> Iterator[bytes]:
        """Yield the parts; the server writes each part before it requests the next."""
        served = self._served
        self._begun = True
        try:
            for part in self._parts:
                before_ns = served.now()
                yield part
                streams = "content-length" not in served.headers
                served.wrote(before_ns, begins_a_stream=streams and bool(part))
        except GeneratorExit:
            served.disconnected()
            raise
        except BaseException as error:
            served.failed(error)
            raise
        served.sent()

    def close(self) -> None:
        """Close the application's body and end the request; the server calls this method last."""
        close: Any = getattr(self._parts, "close", None)
        try:
            if close is not None:
                close()
        finally:
            # If the body was read to its end, the request has ended already, and this call has
            # no effect.
            if self._begun:
                self._served.disconnected()
            else:
                # The server did not read the body, for example because the request is a HEAD.
                self._served.sent()
            self._served.leave()


class _SizedBody(_Body):
    """Wrapper of a body that has a length, its number of parts."""

    def __len__(self) -> int:
        """Return the number of parts; servers call this method if a body has it."""
        return len(self._parts)  # type: ignore[arg-type]
