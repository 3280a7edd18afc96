"""Manual instrumentation: requests, stages and attributes that the application declares."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast, overload

from latspan._base.internal_errors import handle_internal_errors
from latspan._base.text import text_of
from latspan._live.instrument._decorators import (
    Execution,
    ScopeManager,
    named_scope,
    scope_entering,
)
from latspan._live.instrument._outcomes import error_type_of, outcome_of
from latspan._live.process.runtime import current_runtime
from latspan._model.segments import Kind, Outcome

if TYPE_CHECKING:
    from latspan._live.operations import LocalScope
    from latspan._live.otel.spans import AttributeValue

_F = TypeVar("_F", bound=Callable[..., Any])


class OpenScope:
    """
    Open request or stage, the value of ``with latspan.request("answer") as request:``.

    Any thread may use it. After the end of the block, and without ``latspan.configure``, its
    methods have no effect.
    """

    __slots__ = ("_scope",)

    def __init__(self, scope: LocalScope | None = None) -> None:
        self._scope = scope

    @property
    def trace_id(self) -> str | None:
        """
        Trace ID as 32 hexadecimal digits, the form that tracing backends show.

        ``None`` if latspan is not configured, or does not export spans.
        """
        return None if self._scope is None else self._scope.trace_id

    def set_attribute(self, name: str, value: AttributeValue) -> None:
        """
        Set an attribute of the span: ``request.set_attribute("documents", 12)``.

        If the setting ``series_attributes`` contains the name, the histograms have the attribute
        too.

        Args:
            name: Any name that does not begin with ``latspan.``.
            value: A string, a boolean, a number, or a list of values of one of these types. Any
                other value becomes text.
        """
        if self._scope is not None:
            with handle_internal_errors("an attribute of a request or stage"):
                self._scope.set_attribute(name, value)

    def add_event(self, name: str, attributes: Mapping[str, AttributeValue] | None = None) -> None:
        """
        Add an event to the span, with the current time.

        Args:
            name: Name of the event.
            attributes: Attributes of the event; values as for :meth:`set_attribute`.
        """
        if self._scope is not None:
            with handle_internal_errors("an event of a request or stage"):
                self._scope.add_event(name, attributes)


_NOT_RECORDED: Final = OpenScope()


@overload
def request(name: str) -> ScopeManager[OpenScope]: ...
@overload
def request(function: _F, /) -> _F: ...
def request(name: Any) -> Any:
    """
    Open a user-visible request: ``with latspan.request("answer a question") as request:``.

    The result is also a decorator: each run of the function is a request. A bare
    ``@latspan.request`` uses the function's name.

    The request gets its own span and timeline. The time of the last call inside it is divided into
    that call's segments; the time of earlier calls is the segment ``call``. Time inside a stage is
    the stage's segment. The remaining time is ``prepare`` until the last call begins, and
    ``postprocess`` after that call.

    A request inside another request of the process is an inner request: it has its own span, but is
    not counted as a request.

    Args:
        name: The span's name, for example the use case. The name must be the same for many
            requests: it must not contain the ID of a user or a conversation.

    Returns:
        A context manager and decorator; the value of the ``with`` statement is the open request.
    """
    return named_scope(name, functools.partial(OperationScope, Kind.REQUEST))


def attributes(
    custom: Mapping[str, AttributeValue] | None = None,
    /,
    *,
    inference_path: str | None = None,
    route: str | None = None,
    traffic_class: str | None = None,
    tenant: str | None = None,
) -> ScopeManager[None]:
    """
    Set attributes inside a block: ``with latspan.attributes({"prompt.version": "7"}):``.

    The attributes are set on the spans of the calls, HTTP exchanges, requests and stages that begin
    inside the block, but not on the spans of their segments. Omitted attributes keep the value set
    by the enclosing block. The result is also a decorator for functions and generators, synchronous
    and asynchronous.

    The attributes of the keyword arguments are also set on histograms, so keep their cardinality
    low. The attributes in ``custom`` are set on histograms only if the setting
    ``series_attributes`` contains their names.

    Args:
        custom: Attributes of your own, under any names that do not begin with ``latspan.``. A value
            is a string, a boolean, a number, or a list of values of one of these types; any other
            value becomes text.
        inference_path: Name of the combination of route, model, prompt template and traffic
            profile. If not set, it consists of the route and the model.
        route: Application's route, for example ``/chat``.
        traffic_class: Class of traffic, for example ``interactive`` or ``background``.
        tenant: Customer for whom the request is made; recorded only if you set it.
    """
    from latspan._live.operations import with_attributes
    from latspan._live.otel.spans import given_attributes

    named = {
        "inference_path": inference_path,
        "route": route,
        "traffic_class": traffic_class,
        "tenant": tenant,
    }
    series = {name: text_of(value) for name, value in named.items() if value is not None}
    given = given_attributes(custom)
    return scope_entering(functools.partial(with_attributes, series, given))


class OperationScope(ScopeManager[OpenScope]):
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
        begin = functools.partial(_begin, kind, name, span_attributes)
        # An execution returns no `OpenScope`. Only a `with` statement needs one, so `__enter__`
        # creates it; the executions of a decorated function do not.
        super().__init__(cast("Callable[[], Execution[OpenScope] | None]", begin))

    def __enter__(self) -> OpenScope:
        block = self._begin()
        self._enter(block)
        return OpenScope(block.scope) if isinstance(block, _ScopeBlock) else _NOT_RECORDED


def _begin(
    kind: Kind, name: str, span_attributes: dict[str, AttributeValue] | None
) -> _ScopeBlock | None:
    runtime = current_runtime()
    if runtime is None:
        return None
    from latspan._live.operations import LocalScope

    with handle_internal_errors("the start of a request or stage"):
        scope = LocalScope(runtime, kind=kind, name=name, attributes=span_attributes, current=False)
        return _ScopeBlock(scope)
    return None


class _ScopeBlock:
    """One run of a block or a function as a request or stage."""

    __slots__ = ("scope",)

    def __init__(self, scope: LocalScope) -> None:
        self.scope = scope

    def current(self) -> AbstractContextManager[None]:
        return self.scope.active()

    def end(self, error: BaseException | None = None) -> None:
        with handle_internal_errors("the end of a request or stage"):
            if error is None:
                self.scope.end(Outcome.COMPLETED)
            else:
                self.scope.end(outcome_of(error), error_type=error_type_of(error))
