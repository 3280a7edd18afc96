"""Manual instrumentation: requests, stages and attributes that the application declares."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeVar, overload

from latspan import _runtime
from latspan._instrument._decorators import ScopeManager, named_scope, scope_entering
from latspan._instrument._outcomes import error_type_of, outcome_of
from latspan._segments import Kind, Outcome
from latspan._text import text_of

if TYPE_CHECKING:
    from latspan._operations import LocalScope
    from latspan._spans import AttributeValue

__all__ = ["OperationScope", "attributes", "request"]

_F = TypeVar("_F", bound=Callable[..., Any])


@overload
def request(name: str) -> ScopeManager[None]: ...
@overload
def request(function: _F, /) -> _F: ...
def request(name: Any) -> Any:
    """
    Open a user-visible request: ``with latspan.request("answer a question"):``.

    The result is also a decorator: each run of the function is a request. A bare
    ``@latspan.request`` uses the function's name.

    The request gets its own span and timeline. The time of the last call inside it is divided into
    that call's segments; the time of earlier calls is the segment ``call``. Time inside a stage is
    the stage's segment. The rest is ``prepare`` before the last call began and ``postprocess``
    after it.

    Args:
        name: The span's name, for example the use case. The name must be the same for many
            requests: it must not contain the id of a user or a conversation.
    """
    return named_scope(name, functools.partial(OperationScope, Kind.REQUEST))


def attributes(
    *,
    inference_path: str | None = None,
    route: str | None = None,
    traffic_class: str | None = None,
    tenant: str | None = None,
) -> ScopeManager[None]:
    """
    Set attributes of the requests inside: ``with latspan.attributes(inference_path="chat"):``.

    Each attribute is set on spans and on series, so keep cardinality low. Omitted attributes keep
    the value set by the enclosing block. The result is also a decorator for functions and
    generators, synchronous and asynchronous.

    Args:
        inference_path: Name of the combination of route, model, prompt template and traffic
            profile. If not set, it consists of the route and the model.
        route: Route of the application that serves the request.
        traffic_class: Class of traffic, for example ``interactive`` or ``batch``.
        tenant: Customer that the request is for; recorded only if set here.
    """
    from latspan._operations import with_attributes

    named = {
        "inference_path": inference_path,
        "route": route,
        "traffic_class": traffic_class,
        "tenant": tenant,
    }
    given = {name: text_of(value) for name, value in named.items() if value is not None}
    return scope_entering(functools.partial(with_attributes, given))


class OperationScope(ScopeManager[None]):
    """
    Context manager and decorator that makes a block, or each run of a function, a request or stage.

    It has no effect until latspan is configured.

    Args:
        kind: ``request`` or ``stage``.
        name: Its name.
        span_attributes: Further attributes of its span.
    """

    __slots__ = ()

    def __init__(
        self,
        kind: Kind,
        name: str,
        span_attributes: dict[str, AttributeValue] | None = None,
    ) -> None:
        super().__init__(functools.partial(_begin, kind, name, span_attributes))


def _begin(
    kind: Kind, name: str, span_attributes: dict[str, AttributeValue] | None
) -> _ScopeBlock | None:
    runtime = _runtime.current()
    if runtime is None:
        return None
    from latspan._operations import LocalScope

    with _runtime.handle_internal_errors("the start of a request or stage"):
        scope = LocalScope(runtime, kind=kind, name=name, attributes=span_attributes, current=False)
        return _ScopeBlock(scope)
    return None


class _ScopeBlock:
    """One run of a block or a function as a request or stage."""

    __slots__ = ("_scope",)

    def __init__(self, scope: LocalScope) -> None:
        self._scope = scope

    def current(self) -> AbstractContextManager[None]:
        return self._scope.active()

    def end(self, error: BaseException | None = None) -> None:
        with _runtime.handle_internal_errors("the end of a request or stage"):
            if error is None:
                self._scope.end(Outcome.COMPLETED)
            else:
                self._scope.end(outcome_of(error), error_type=error_type_of(error))
