"""The instrumentor of Flask, and the places that it patches."""

from __future__ import annotations

from typing import Any

from latspan._instrument import Instrumentor, Patches

__all__ = ["FlaskInstrumentor"]


class FlaskInstrumentor(Instrumentor):
    """Instrumentor that tracks the requests of Flask applications."""

    requires = ("flask >= 2.2, < 4",)
    library = "flask.app"

    def patch(self, patches: Patches) -> None:
        """
        Patch the method that serves a request.

        It belongs to the class, so applications that exist already are covered too, and it is
        outside of the middleware that an application puts around its ``wsgi_app``.
        """
        from flask.app import Flask

        from latspan_wsgi import _applications

        def call(wrapped: Any, app: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            return _applications.serving(patches, wrapped, app, args, kwargs)

        # OpenTelemetry's instrumentation puts a subclass in the place of the class.
        (owner, *_) = [each for each in Flask.__mro__ if "__call__" in vars(each)]
        patches.wrap(owner, "__call__", call)
