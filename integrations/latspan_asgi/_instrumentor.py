"""The instrumentor of Starlette and FastAPI, and the places that it patches."""

from __future__ import annotations

from typing import Any

from latspan._instrument import Instrumentor, Patches

__all__ = ["StarletteInstrumentor"]


class StarletteInstrumentor(Instrumentor):
    """Instrumentor that tracks the requests of Starlette and FastAPI applications."""

    requires = ("starlette >= 0.27, < 2",)
    library = "starlette.applications"

    def patch(self, patches: Patches) -> None:
        """
        Patch the method that serves a request.

        It belongs to the class, so applications that exist already are covered too, also if they
        have built their middleware.
        """
        from starlette.applications import Starlette

        from latspan_asgi._applications import serving

        def call(wrapped: Any, app: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            return serving(patches, wrapped, app, args, kwargs)

        # OpenTelemetry's instrumentation puts a subclass in the place of the class.
        (owner, *_) = [each for each in Starlette.__mro__ if "__call__" in vars(each)]
        patches.wrap(owner, "__call__", call)
