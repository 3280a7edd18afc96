"""The template of the route that serves a request: ``/items/<id>``, never ``/items/42``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["route_of"]


def route_of(environ: dict[str, Any], app: Any) -> Callable[[], str | None]:
    """
    Return a function that returns the template of a request's route, or ``None`` without one.

    Args:
        environ: The environ of the request.
        app: The application: a Flask application, its ``wsgi_app``, or any other callable.
    """
    urls = getattr(getattr(app, "__self__", app), "url_map", None)
    return lambda: None if urls is None else _matching(urls, environ)


def _matching(urls: Any, environ: dict[str, Any]) -> str | None:
    try:
        rule, _ = urls.bind_to_environ(environ).match(return_rule=True)
    except Exception as error:
        # Werkzeug raises these if no route matches, or if it would redirect.
        if hasattr(error, "code") or hasattr(error, "new_url"):
            return None
        raise
    template: str = rule.rule
    return template
