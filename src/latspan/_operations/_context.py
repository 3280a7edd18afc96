"""What is said and open in the current context: attributes, and how to leave them again."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Final, Generic, TypeVar

from opentelemetry import context
from opentelemetry.context import Context

from latspan import semconv
from latspan._runtime import Runtime
from latspan._segments import Kind
from latspan._spans import AttributeValue
from latspan._text import texts_of

__all__ = [
    "Entered",
    "ambient_attributes",
    "convention_labels",
    "inside",
    "only_said",
    "propagates_here",
    "series_attributes",
    "span_attributes",
    "with_attribute_of",
    "with_attributes",
]

_T = TypeVar("_T")

_NOTHING_SAID: Final[Mapping[str, str]] = {}

_ambient: ContextVar[Mapping[str, str]] = ContextVar("latspan_attributes", default=_NOTHING_SAID)


def ambient_attributes() -> Mapping[str, str]:
    """Return what the surrounding code has said requests are about."""
    return _ambient.get()


@contextmanager
def with_attributes(said: Mapping[str, str]) -> Generator[None]:
    """Say what the requests inside are about, on top of what was said outside."""
    token = _ambient.set({**_ambient.get(), **said})
    try:
        yield
    finally:
        _undo(_ambient, token)


@contextmanager
def only_said(said: Mapping[str, str]) -> Generator[None]:
    """Let what is said of the requests inside be this, whatever is said here."""
    token = _ambient.set(said)
    try:
        yield
    finally:
        _undo(_ambient, token)


def _undo(variable: ContextVar[_T], token: Token[_T]) -> bool:
    """
    Undo a ``set``; return whether this is the context it happened in.

    A generator or a response body may be closed from another task than the one that opened it.
    What was set there cannot be undone from here; who looks there finds it finished.
    """
    try:
        variable.reset(token)
    except ValueError:
        return False
    return True


class Entered(Generic[_T]):
    """
    Something that is current in this context until :meth:`leave`.

    Args:
        variable: The variable that says what is current.
        value: What is current from now on.
        around: The OpenTelemetry context that is current with it.
    """

    __slots__ = ("_attached", "_left", "_token", "_value", "_variable")

    def __init__(self, variable: ContextVar[_T], value: _T, around: Context) -> None:
        self._left = False
        self._variable = variable
        self._value = value
        self._token = variable.set(value)
        self._attached = context.attach(around)

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.leave()

    def is_here(self) -> bool:
        """
        Return whether this is the context that it was entered in.

        A task or a thread that inherited the context has a copy, and only in the original can
        what was set there be undone. Asked only while this is current.
        """
        if self._left or not _undo(self._variable, self._token):
            return False
        self._token = self._variable.set(self._value)
        return True

    def leave(self) -> bool:
        """
        Make current again what was before, once, and if this is the same context.

        Returns:
            Whether it has been left, now or before.
        """
        if not self._left and _undo(self._variable, self._token):
            self._left = True
            context.detach(self._attached)
        return self._left


_propagating: ContextVar[bool] = ContextVar("latspan_propagating", default=True)


def inside(around: Context, *, propagates: bool | None = None) -> Entered[bool]:
    """
    Be in ``around`` until it is left.

    OpenTelemetry's own ``attach`` and ``detach`` log an error if the second is called in another
    context than the first, as it is where a coroutine is closed by a task that did not run it.

    Args:
        around: The OpenTelemetry context.
        propagates: Whether latspan adds a trace context to what is sent inside; as it is outside,
            if not given.
    """
    return Entered(_propagating, _propagating.get() if propagates is None else propagates, around)


def propagates_here() -> bool:
    """Return whether latspan may add a trace context to what is sent in this context."""
    return _propagating.get()


class SaidLater(Mapping[str, str]):
    """
    What is said of requests, one thing of which is not known before it is asked for.

    Args:
        said: What is known.
        name: What is not.
        value: Returns it; ``None`` as long as it is unknown.
    """

    __slots__ = ("_name", "_said", "_value")

    def __init__(self, said: Mapping[str, str], name: str, value: Callable[[], str | None]) -> None:
        self._said = said
        self._name = name
        self._value = value

    def _known(self) -> Mapping[str, str]:
        value = self._value()
        return self._said if value is None else {self._name: value, **self._said}

    def __getitem__(self, name: str) -> str:
        return self._known()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known())

    def __len__(self) -> int:
        return len(self._known())


@contextmanager
def with_attribute_of(name: str, value: Callable[[], str | None]) -> Generator[None]:
    """Say of the requests inside what is known only later, by what ``value`` returns then."""
    token = _ambient.set(SaidLater(_ambient.get(), name, value))
    try:
        yield
    finally:
        _undo(_ambient, token)


def series_attributes(runtime: Runtime, own: Mapping[str, str]) -> dict[str, str]:
    """
    Return what a record's series are keyed by.

    What the surrounding code says wins over what the request knows of itself, and that over the
    configured defaults. An inference path that nobody named is its route and model.
    """
    series = {**runtime.defaults, **own, **_ambient.get()}
    if "inference_path" not in series:
        route, model = series.get("route"), series.get("model")
        path = f"{route} {model}" if route and model else route or model
        if path:
            series["inference_path"] = path
    # They are held by each record, and as long as their series: a server may name a model of 5 MB.
    return texts_of(series)


def span_attributes(kind: Kind, series: Mapping[str, str]) -> dict[str, AttributeValue]:
    """Return the same, and the kind of timeline, under the names that are emitted."""
    # `_value_` is the attribute behind the property `value`, at a tenth of its price.
    attributes: dict[str, AttributeValue] = {semconv.LATSPAN_KIND: kind._value_}
    for name, value in series.items():
        attributes[semconv.SERIES_ATTRIBUTES[name]] = value
    return attributes


def convention_labels(attributes: Mapping[str, AttributeValue]) -> dict[str, str]:
    """Return what the conventions' metrics are keyed by, of all that a call's span says."""
    return texts_of(
        {
            name: attributes[key]
            for name, key in semconv.CONVENTION_ATTRIBUTES.items()
            if key in attributes
        }
    )
