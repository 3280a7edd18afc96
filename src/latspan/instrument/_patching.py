"""Patches that come off again exactly: the only place that knows wrapt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import wrapt

from latspan.errors import InstrumentationError

__all__ = ["Patches"]

_ABSENT = object()

Wrapper = Callable[[Any, Any, tuple[Any, ...], dict[str, Any]], Any]
"""``wrapper(wrapped, instance, args, kwargs)``, as wrapt calls it."""


class Patches:
    """What an integration has changed in a client library, and how to undo it."""

    def __init__(self) -> None:
        self._undo: list[tuple[type, str, object]] = []

    def wrap(self, cls: type, name: str, wrapper: Wrapper) -> None:
        """
        Wrap a method so that it still looks like itself: signature, name, coroutine or not.

        Args:
            cls: The class.
            name: The method's name.
            wrapper: Called instead, as wrapt calls it.

        Raises:
            InstrumentationError: The class has no such method.
        """
        # wrapt's own stubs leave the wrapper's type open.
        self._set(cls, name, wrapt.FunctionWrapper(self._get(cls, name), wrapper))  # pyright: ignore[reportUnknownMemberType]

    def replace(
        self, cls: type, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]
    ) -> None:
        """
        Replace a method by a plain function, where a wrapper would cost too much.

        Args:
            cls: The class.
            name: The method's name.
            make: Given the original, returns the replacement.

        Raises:
            InstrumentationError: The class has no such method.
        """
        self._set(cls, name, make(self._get(cls, name)))

    def note(self, cls: type, name: str, value: object) -> None:
        """Leave a note on a class for other integrations, until the patches come off."""
        self._set(cls, name, value)

    def restore(self) -> None:
        """Put back the very objects that were there, last change first."""
        while self._undo:
            cls, name, original = self._undo.pop()
            if original is _ABSENT:
                delattr(cls, name)
            else:
                setattr(cls, name, original)

    def _get(self, cls: type, name: str) -> Callable[..., Any]:
        method = getattr(cls, name, None)
        if not callable(method):
            raise InstrumentationError(
                f"{cls.__module__}.{cls.__qualname__} has no method '{name}'",
                hint="this version of the library is not supported; see docs/known-issues.md",
            )
        return method

    def _set(self, cls: type, name: str, value: object) -> None:
        # What stood in the class itself, not what it inherits: that is what must come back.
        self._undo.append((cls, name, vars(cls).get(name, _ABSENT)))
        setattr(cls, name, value)
