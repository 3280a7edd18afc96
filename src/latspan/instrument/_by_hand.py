"""What people say in their own code: this is one request, and this is what it is about."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from latspan import _runtime
from latspan.instrument._outcomes import error_type_of, outcome_of
from latspan.instrument._wrapping import wrapped
from latspan.segments import Kind, Outcome

if TYPE_CHECKING:
    from latspan._request import LiveWork
    from latspan._spans import AttributeValue

__all__ = ["WorkScope", "attributes", "request"]


def request(name: str) -> WorkScope:
    """
    Open one user-visible unit of work: ``with latspan.request("answer a question"):``.

    It gets a span and a timeline of its own. Of its time, what the last call inside it spent goes
    to that call's segments, earlier calls are ``call``, and the application's own time is
    ``prepare`` before the last call began and ``postprocess`` after, or the stage that it is in.

    Args:
        name: The span's name, for example the use case. One name for many requests: no identifier
            of a user or a conversation.
    """
    return WorkScope(Kind.REQUEST, name)


def attributes(
    *,
    path: str | None = None,
    route: str | None = None,
    traffic_class: str | None = None,
    tenant: str | None = None,
) -> AbstractContextManager[None]:
    """
    Say what the requests inside are about: ``with latspan.attributes(path="chat"):``.

    Each becomes an attribute of spans and a key of series. What is not given stays as it is said
    further out.

    Args:
        path: The inference path: one route + model + prompt template + traffic profile. Unsaid,
            it is the route and the model.
        route: The route of the application that serves the request.
        traffic_class: For example ``interactive`` or ``batch``.
        tenant: On whose behalf; recorded only where it is said here.
    """
    from latspan._request import with_attributes

    said = {
        "path": path,
        "route": route,
        "traffic_class": traffic_class,
        "tenant": tenant,
    }
    return with_attributes({name: str(value) for name, value in said.items() if value is not None})


_P = ParamSpec("_P")
_R = TypeVar("_R")


class WorkScope:
    """
    A ``with`` statement's body, or each run of a decorated function, as a request or a stage.

    It does nothing until latspan is configured.

    Args:
        kind: ``request`` or ``stage``.
        name: Its name.
        span_attributes: Further attributes of its span.
    """

    __slots__ = ("_attributes", "_kind", "_name", "_open")

    def __init__(
        self,
        kind: Kind,
        name: str,
        span_attributes: dict[str, AttributeValue] | None = None,
    ) -> None:
        self._kind = kind
        self._name = name
        self._attributes = span_attributes
        self._open: list[LiveWork] = []

    def __call__(self, function: Callable[_P, _R]) -> Callable[_P, _R]:
        return wrapped(function, self._run)

    def _run(self) -> _Run | None:
        work = self._begin(current=False)
        return None if work is None else _Run(work)

    def _begin(self, *, current: bool) -> LiveWork | None:
        runtime = _runtime.current()
        if runtime is None:
            return None
        from latspan._request import LiveWork

        with _runtime.guarded("the start of a unit of work"):
            return LiveWork(
                runtime,
                kind=self._kind,
                name=self._name,
                attributes=self._attributes,
                current=current,
            )
        return None

    def __enter__(self) -> None:
        work = self._begin(current=True)
        if work is not None:
            self._open.append(work)

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._open:
            with _runtime.guarded("the end of a unit of work"):
                _finish(self._left(), exc)

    def _left(self) -> LiveWork:
        """Return what ends here: other threads and tasks may be inside of the same scope."""
        for work in reversed(self._open.copy()):
            if work.is_innermost:
                self._open.remove(work)
                return work
        # It was entered in another context; which one it was nobody can say.
        return self._open.pop()


class _Run:
    """One run of a function as a unit of work."""

    __slots__ = ("_work",)

    def __init__(self, work: LiveWork) -> None:
        self._work = work

    def current(self) -> AbstractContextManager[None]:
        return self._work.active()

    def finish(self, error: BaseException | None = None) -> None:
        _finish(self._work, error)


def _finish(work: LiveWork, error: BaseException | None) -> None:
    with _runtime.guarded("the end of a unit of work"):
        if error is None:
            work.finish(Outcome.COMPLETED)
        else:
            work.finish(outcome_of(error), error_type=error_type_of(error))
