"""The template of the route that serves a request: ``/items/<id>``, never ``/items/42``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

ROUTE: Final = "latspan.route"
"""Key in the environ of the route that Django has found."""

_REQUEST: Final = "werkzeug.request"
"""Key in the environ of Flask's request object, which has the route that Flask has found."""


def route_of(environ: dict[str, Any], app: Any) -> Callable[[], str | None]:
    """
    Return a function that returns the template of a request's route, or ``None`` without one.

    If it is called before the framework has found the route, it searches the framework's routes.

    Args:
        environ: The environ of the request.
        app: The application: a Flask application, its ``wsgi_app``, or any other callable.
    """
    urls = getattr(getattr(app, "__self__", app), "url_map", None)
    mounted_at: str = environ.get("SCRIPT_NAME", "")

    def route() -> str | None:
        found: str | None = environ.get(ROUTE)
        if found is None:
            rule = getattr(environ.get(_REQUEST), "url_rule", None)
            found = getattr(rule, "rule", None)
        if found is None:
            return None if urls is None else _matching(urls, environ)
        # A dispatcher inside the application moves the path of a mounted one to SCRIPT_NAME.
        return f"{environ.get('SCRIPT_NAME', '').removeprefix(mounted_at)}{found}"

    return route


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
