"""
Instrumentation of WSGI servers (Flask and any other): a request from its start to the last byte.

``LatspanMiddleware`` opens a span of kind SERVER as a child of the client's span, and tracks a
streamed response to its end. It can report the stages of the request to the client, in the standard
``Server-Timing`` header. ``FlaskInstrumentor`` tracks the requests of every Flask application
without a middleware.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from latspan.integrations import Instrumentor, Patches

if TYPE_CHECKING:
    from latspan_instrumentation.wsgi._middleware import LatspanMiddleware

__all__ = ["FlaskInstrumentor", "LatspanMiddleware"]


class FlaskInstrumentor(Instrumentor):
    """Instrumentor that tracks the requests of Flask applications."""

    requires = ("flask >= 2.2, < 4",)
    library = "flask.app"
    serves = True

    def patch(self, patches: Patches) -> None:
        """
        Patch the method that serves a request.

        It belongs to the class, so applications that exist already are covered too, and it is
        outside of the middleware that an application puts around its ``wsgi_app``.
        """
        from flask.app import Flask

        from latspan_instrumentation.wsgi import _applications

        def call(wrapped: Any, app: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            return _applications.serving(patches, wrapped, app, args, kwargs)

        # OpenTelemetry's instrumentation puts a subclass in the place of the class.
        (owner, *_) = [each for each in Flask.__mro__ if "__call__" in vars(each)]
        patches.wrap(owner, "__call__", call)


def __getattr__(name: str) -> object:
    # `auto_instrument` imports this package in programs that serve nothing.
    if name != "LatspanMiddleware":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from latspan_instrumentation.wsgi._middleware import LatspanMiddleware

    return LatspanMiddleware
