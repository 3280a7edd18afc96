"""The template of the route that serves a request: ``/items/{id}``, never ``/items/42``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, MutableMapping
from typing import Any, Final

__all__ = ["ROUTE", "route_of"]

ROUTE: Final = "latspan.route"
"""Key in the scope of the route that Django has found."""

_FULL: Final = 2
"""The value of Starlette's ``Match.FULL``: path and method."""


def route_of(scope: MutableMapping[str, Any], app: Any) -> Callable[[], str | None]:
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
