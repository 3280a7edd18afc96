"""Attributes and scopes of the current context: how they are entered and left."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Final, Generic, TypeVar

from opentelemetry import context
from opentelemetry.context import Context

from latspan import semconv
from latspan._base.text import MAX_NAME_LENGTH, text_of, texts_of
from latspan._live.otel.spans import AttributeValue
from latspan._live.process.runtime import Runtime
from latspan._model.segments import Kind

_T = TypeVar("_T")

_NO_ATTRIBUTES: Final[Mapping[str, str]] = {}
_NO_CUSTOM: Final[Mapping[str, AttributeValue]] = {}

_ambient: ContextVar[Mapping[str, str]] = ContextVar("latspan_attributes", default=_NO_ATTRIBUTES)
_custom: ContextVar[Mapping[str, AttributeValue]] = ContextVar(
    "latspan_custom_attributes", default=_NO_CUSTOM
)

# The methods themselves, because these run for each call and functions would double their cost.
ambient_attributes: Final = _ambient.get
"""Function that returns the series attributes of the surrounding code, by latspan's names."""
custom_attributes: Final = _custom.get
"""Function that returns the further span attributes of the surrounding code, by their own names."""


@contextmanager
def with_attributes(
    series: Mapping[str, str], custom: Mapping[str, AttributeValue] = _NO_CUSTOM
) -> Generator[None]:
    """
    Add attributes to the requests inside the block, on top of those of the outer blocks.

    Args:
        series: Series attributes, by latspan's names.
        custom: Further span attributes, by their own names.
    """
    with replaced_attributes({**_ambient.get(), **series}, {**_custom.get(), **custom}):
        yield


@contextmanager
def replaced_attributes(
    series: Mapping[str, str], custom: Mapping[str, AttributeValue]
) -> Generator[None]:
    """Replace the attributes of the requests inside the block by ``series`` and ``custom``."""
    series_token, custom_token = _ambient.set(series), _custom.set(custom)
    try:
        yield
    finally:
        _undo(_ambient, series_token)
        _undo(_custom, custom_token)


def _undo(variable: ContextVar[_T], token: Token[_T]) -> bool:
    """
    Undo a ``set``; return whether it was done in this context.

    A generator or a response body may be closed by another task than the one that opened it. The
    value of that task cannot be reset from here. It stays set there, but what it refers to has
    ended.
    """
    try:
        variable.reset(token)
    except ValueError:
        return False
    return True


class Entered(Generic[_T]):
    """
    A value and an OpenTelemetry context that are current here until :meth:`leave`.

    Args:
        variable: Context variable of the current value.
        value: New value.
        otel_context: OpenTelemetry context that becomes current with the value.
    """

    __slots__ = ("_attached", "_left", "_token", "_value", "_variable")

    def __init__(self, variable: ContextVar[_T], value: _T, otel_context: Context) -> None:
        self._left = False
        self._variable = variable
        self._value = value
        self._token = variable.set(value)
        self._attached = context.attach(otel_context)

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
        Return whether it was entered in this context.

        A task or a thread that inherited the context has a copy, and a value can be reset only in
        the context in which it was set. Call this only while the value is current.
        """
        if self._left or not _undo(self._variable, self._token):
            return False
        self._token = self._variable.set(self._value)
        return True

    def leave(self) -> bool:
        """
        Restore the previous value, once, and only in the context in which this was entered.

        Returns:
            Whether it has been left, by this invocation or an earlier one.
        """
        if not self._left:
            # As `_undo`, written out because this runs for each call.
            try:
                self._variable.reset(self._token)
            except ValueError:
                return False
            self._left = True
            context.detach(self._attached)
        return True


_propagating: ContextVar[bool] = ContextVar("latspan_propagating", default=True)


def inside(otel_context: Context, *, propagates: bool | None = None) -> Entered[bool]:
    """
    Make ``otel_context`` the current OpenTelemetry context until ``leave`` of the result is called.

    OpenTelemetry's own ``detach`` logs an error if it is called in another context than
    ``attach``, which happens if a task closes a coroutine that it did not run.

    Args:
        otel_context: OpenTelemetry context.
        propagates: Whether latspan adds a trace context to requests sent inside; the outer
            setting if not given.
    """
    return Entered(
        _propagating, _propagating.get() if propagates is None else propagates, otel_context
    )


propagates_here: Final = _propagating.get
"""Function that returns whether latspan may add a trace context to requests sent here."""


class LazyAttributes(Mapping[str, str]):
    """
    Request attributes, one of which is computed when it is read.

    Args:
        given: Attributes that are known; they take precedence.
        name: Name of the computed attribute.
        value: Function that returns its value; ``None`` while it is unknown.
    """

    __slots__ = ("_given", "_name", "_value")

    def __init__(
        self, given: Mapping[str, str], name: str, value: Callable[[], str | None]
    ) -> None:
        self._given = given
        self._name = name
        self._value = value

    def _known(self) -> Mapping[str, str]:
        value = self._value()
        return self._given if value is None else {self._name: value, **self._given}

    def __getitem__(self, name: str) -> str:
        return self._known()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known())

    def __len__(self) -> int:
        return len(self._known())


@contextmanager
def with_attribute_of(name: str, value: Callable[[], str | None]) -> Generator[None]:
    """Add an attribute to the requests inside the block; ``value`` is called when it is read."""
    token = _ambient.set(LazyAttributes(_ambient.get(), name, value))
    try:
        yield
    finally:
        _undo(_ambient, token)


def series_attributes(
    runtime: Runtime,
    own: Mapping[str, str],
    ambient: Mapping[str, str] | None = None,
    annotated: Mapping[str, str] = _NO_ATTRIBUTES,
) -> dict[str, str]:
    """
    Return the series attributes of a record.

    Annotations override the attributes of the surrounding code, which override those of the
    request, which override the configured defaults. If no inference path is set, it consists of the
    route and the model.

    Args:
        runtime: The active runtime.
        own: Attributes of the request.
        ambient: Attributes of the surrounding code; those of this context if not given.
        annotated: Attributes that were set inside the request.
    """
    around = _ambient.get() if ambient is None else ambient
    series = {**runtime.defaults, **own, **around, **annotated}
    if "inference_path" not in series:
        route, model = series.get("route"), series.get("model")
        path = f"{route} {model}" if route and model else route or model
        if path:
            series["inference_path"] = path
    # Each record and each series holds these texts, and a server may return a model name of 5 MB.
    # As `texts_of`, written out because this runs for each call.
    for name, value in series.items():
        if type(value) is not str or len(value) > MAX_NAME_LENGTH or not value.isascii():
            series[name] = text_of(value)
    return series


def span_attributes(kind: Kind, series: Mapping[str, str]) -> dict[str, AttributeValue]:
    """Return the series attributes and the timeline's kind under their span attribute names."""
    # `_value_` is the attribute behind the property `value`; reading it takes a tenth of the time.
    attributes: dict[str, AttributeValue] = {semconv.LATSPAN_KIND: kind._value_}
    for name, value in series.items():
        attributes[semconv.SERIES_ATTRIBUTES[name]] = value
    return attributes


def custom_series(runtime: Runtime, custom: Mapping[str, AttributeValue]) -> dict[str, str]:
    """Return the custom attributes that the setting ``series_attributes`` adds to series."""
    return texts_of({name: custom[name] for name in runtime.series_attributes if name in custom})


def convention_labels(attributes: Mapping[str, AttributeValue]) -> dict[str, str]:
    """Return the labels of the conventions' metrics from the attributes of a call's span."""
    labels: dict[str, str] = {}
    for name, key in semconv.CONVENTION_ATTRIBUTES.items():
        if key in attributes:
            value = attributes[key]
            if type(value) is not str or len(value) > MAX_NAME_LENGTH or not value.isascii():
                value = text_of(value)
            labels[name] = value
    return labels
