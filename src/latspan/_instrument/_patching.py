"""
Patches that come off again exactly: the only place that knows wrapt.

What takes the place of a method is a plain function, as the method was: it is the same object at
each access, which a descriptor such as ``wrapt.FunctionWrapper`` is not. Other instrumentations
patch with wrapt, so theirs are looked through; and its post-import hooks tell when a library is
imported.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import MethodType, ModuleType
from typing import Any

import wrapt

from latspan._instrument._coroutines import as_coroutine_function
from latspan.errors import InstrumentationError

__all__ = ["Patches", "when_imported"]

_ABSENT = object()

Wrapper = Callable[[Any, Any, tuple[Any, ...], dict[str, Any]], Any]
"""
``wrapper(wrapped, instance, args, kwargs)``, as wrapt calls it.

``wrapped`` is the original method, bound to ``instance``.
"""


@dataclass(frozen=True, slots=True)
class _Change:
    """
    One thing that was changed.

    Args:
        owner: The class or module.
        name: The attribute's name.
        ours: What stands there now, or beneath what others have put there.
        original: What stood there before.
    """

    owner: type | ModuleType
    name: str
    ours: object
    original: object

    def undo(self) -> None:
        current = vars(self.owner).get(self.name, _ABSENT)
        if current is not self.ours:
            for holder in _wrappers(current):
                if holder.__wrapped__ is self.ours and self.original is not _ABSENT:
                    holder.__wrapped__ = self.original
            # Beneath a function that cannot be looked into ours stays, and does nothing.
        elif self.original is _ABSENT:
            delattr(self.owner, self.name)
        else:
            setattr(self.owner, self.name, self.original)


def _wrappers(method: Any) -> Iterator[Any]:
    """Yield the wrappers around a function, the outermost first."""
    while isinstance(method, wrapt.FunctionWrapper):
        # wrapt's own stubs leave open what a wrapper holds.
        wrapper: Any = method  # pyright: ignore[reportUnknownVariableType]
        yield wrapper
        method = wrapper.__wrapped__


class Patches:
    """What an integration has changed in a client library, and how to undo it."""

    def __init__(self) -> None:
        self._changes: list[_Change] = []
        self._on = True

    def wrap(self, cls: type, name: str, wrapper: Wrapper) -> None:
        """
        Wrap a method so that it still looks like itself: signature, name, coroutine or not.

        Args:
            cls: The class.
            name: The method's name.
            wrapper: Called instead.

        Raises:
            InstrumentationError: The class has no such method.
        """
        self._set(cls, name, self._wrapped(self._get(cls, name), wrapper))

    def wrap_innermost(self, cls: type, name: str, wrapper: Wrapper) -> None:
        """
        Wrap a method beneath whatever others have wrapped around it before.

        What they open around a call is then to be seen from inside, whoever came first.

        Args:
            cls: The class.
            name: The method's name.
            wrapper: Called instead.

        Raises:
            InstrumentationError: The class has no such method.
        """
        self._get(cls, name)
        # As it stands in the class: a wrapper that is asked for by name answers bound.
        method: Any = inspect.getattr_static(cls, name)
        holder = None
        for holder in _wrappers(method):
            method = holder.__wrapped__
        ours = self._wrapped(method, wrapper)
        if holder is None:
            self._set(cls, name, ours)
        else:
            self._changes.append(_Change(cls, name, ours, method))
            holder.__wrapped__ = ours

    def replace(
        self,
        owner: type | ModuleType,
        name: str,
        make: Callable[[Callable[..., Any]], Callable[..., Any]],
    ) -> None:
        """
        Replace a method by what ``make`` returns, without the steps that a wrapper adds.

        Args:
            owner: The class; or a module, and then ``name`` is a function of it.
            name: The method's name.
            make: Given the original, returns the replacement.

        Raises:
            InstrumentationError: There is no such method.
        """
        self._set(owner, name, make(self._get(owner, name)))

    def note(self, cls: type, name: str, value: object) -> None:
        """Leave a note on a class for other integrations, until the patches come off."""
        self._set(cls, name, value)

    def restore(self) -> None:
        """
        Put back the very objects that were there, last change first.

        What others have wrapped around ours meanwhile stays, around the original.
        """
        self._on = False
        while self._changes:
            self._changes.pop().undo()

    def _wrapped(self, original: Callable[..., Any], wrapper: Wrapper) -> Callable[..., Any]:
        @functools.wraps(original)
        def method(instance: Any, /, *args: Any, **kwargs: Any) -> Any:
            if not self._on:
                # Another library's wrapper may hold this function after it was taken off.
                return original(instance, *args, **kwargs)
            return wrapper(MethodType(original, instance), instance, args, kwargs)

        return as_coroutine_function(method) if inspect.iscoroutinefunction(original) else method

    def _get(self, owner: type | ModuleType, name: str) -> Callable[..., Any]:
        method = getattr(owner, name, None)
        if not callable(method):
            raise InstrumentationError(
                f"{_name_of(owner)} has no method '{name}'",
                hint="this version of the library is not supported; see docs/known-issues.md",
            )
        return method

    def _set(self, owner: type | ModuleType, name: str, value: object) -> None:
        # What stood in the class itself, not what it inherits: that is what must come back.
        self._changes.append(_Change(owner, name, value, vars(owner).get(name, _ABSENT)))
        setattr(owner, name, value)


def when_imported(module: str, call: Callable[[], None]) -> None:
    """
    Call ``call`` when ``module`` has been imported, at once if it has.

    Args:
        module: The import package.
        call: May be called more than once; must not raise, as the import would.
    """

    def imported(_: object) -> None:
        call()

    # wrapt has no types for hooks.
    wrapt.register_post_import_hook(imported, module)  # pyright: ignore[reportUnknownMemberType]


def _name_of(owner: type | ModuleType) -> str:
    if isinstance(owner, ModuleType):
        return owner.__name__
    return f"{owner.__module__}.{owner.__qualname__}"
