"""
Instrumentation of ASGI servers (FastAPI, Starlette and any other): a request to its last byte.

``LatspanMiddleware`` opens a span of kind SERVER as a child of the client's span, and tracks a
streamed response to its end. It can report the stages of the request to the client, in the standard
``Server-Timing`` header. ``StarletteInstrumentor`` tracks the requests of every Starlette and
FastAPI application without a middleware.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from latspan.integrations import Instrumentor, Patches

if TYPE_CHECKING:
    from latspan_instrumentation.asgi._middleware import LatspanMiddleware

__all__ = ["LatspanMiddleware", "StarletteInstrumentor"]


class StarletteInstrumentor(Instrumentor):
    """Instrumentor that tracks the requests of Starlette and FastAPI applications."""

    requires = ("starlette >= 0.27, < 2",)
    library = "starlette.applications"
    serves = True

    def patch(self, patches: Patches) -> None:
        """
        Patch the method that serves a request, and the one inside all middleware.

        It belongs to the class, so applications that exist already are covered too, also if they
        have built their middleware.
        """
        from starlette.applications import Starlette
        from starlette.middleware.exceptions import ExceptionMiddleware

        from latspan_instrumentation.asgi._applications import handling, serving

        def call(wrapped: Any, app: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            return serving(patches, wrapped, app, args, kwargs)

        # OpenTelemetry's instrumentation puts a subclass in the place of the class.
        (owner, *_) = [each for each in Starlette.__mro__ if "__call__" in vars(each)]
        patches.wrap(owner, "__call__", call)
        patches.wrap(ExceptionMiddleware, "__call__", handling)


def __getattr__(name: str) -> object:
    # `auto_instrument` imports this package in programs that serve nothing.
    if name != "LatspanMiddleware":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from latspan_instrumentation.asgi._middleware import LatspanMiddleware

    return LatspanMiddleware
