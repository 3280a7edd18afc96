"""Switched on twice it is on once, and switched off every class is as if it had never been."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import latspan_instrumentation
from latspan.testing import contract
from tests.clients.contract.clients import CLIENTS
from tests.clients.contract.conftest import INTEGRATIONS, switch_off, switch_on

PACKAGES: Final = {
    *(package for client in CLIENTS for package in client.needs),
    *("httpcore", "httpcore2", "http", "io"),
}
"""The client libraries, and what lies beneath them."""

_SERVERS: Final = {"asgi", "wsgi", "django"}
"""Of servers, which patch nothing: they are in `tests/servers`."""

_DERIVE: Final = {"botocore", "google_genai", "mistralai"}
"""Integrations whose tests derive from the classes in ``latspan.testing.contract``."""

differences = contract._differences  # pyright: ignore[reportPrivateUsage]

Stand = dict[type | ModuleType, dict[str, Any]]
"""What every module and class of theirs holds, by name."""


def owners() -> Iterator[type | ModuleType]:
    """Give every module of the client libraries, and every class in one."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in PACKAGES:
            yield module
            # A class may be a lazy stand-in, which `isinstance` would wake.
            held: list[Any] = list(vars(module).values())
            yield from (each for each in held if issubclass(type(each), type))


def stand() -> Stand:
    """Return what is where."""
    return {owner: dict(vars(owner)) for owner in owners()}


def test_taking_it_off_puts_the_very_same_objects_back() -> None:
    """In every class of every client library, not in a list of those that we know of."""
    libraries = {client.library.__name__ for client in CLIENTS if client.is_installed}
    switch_off()
    try:
        bare = stand()
        switch_on()
        once = stand()
        switch_on()
        twice = stand()
        switch_off()
        off = stand()
    finally:
        switch_on()
    assert differences(once, twice) == []
    assert differences(bare, off) == []
    patched = {_package(owner) for owner, _ in differences(bare, once)}
    assert patched >= libraries


def _package(owner: type | ModuleType) -> str:
    name: str = owner.__name__ if isinstance(owner, ModuleType) else owner.__module__
    return name.partition(".")[0]


def test_methods_look_like_themselves() -> None:
    """Their names, signatures, words, what they are, and the same object at each access."""
    switch_off()
    try:
        bare = stand()
    finally:
        switch_on()
    for owner, name in differences(bare, stand()):
        # What we leave there for one another was not there before.
        if not name.startswith("_latspan"):
            above = [owner] if isinstance(owner, ModuleType) else owner.__mro__
            held = [bare.get(each, vars(each)) for each in above]
            original = next(names[name] for names in held if name in names)
            # What is written in C says little of itself.
            if inspect.isfunction(original):
                assert looks(vars(owner)[name]) == looks(original), (owner, name)
                assert getattr(owner, name) is getattr(owner, name), (owner, name)


def looks(method: Any) -> list[Any]:
    """Return what a program, or a debugger, can tell of a method."""
    return [
        *(getattr(method, name) for name in ("__name__", "__qualname__", "__module__", "__doc__")),
        inspect.isfunction(method),
        inspect.iscoroutinefunction(method),
        str(inspect.signature(method)),
    ]


def test_every_integration_keeps_the_contract() -> None:
    """None is forgotten in the table of clients, or in the list of what is switched on."""
    folder = Path(latspan_instrumentation.__file__).parent
    # locust sends load, and stainless is what two integrations have in common.
    others = {*_SERVERS, *_DERIVE, "locust", "stainless"}
    packages = {found.parent.name for found in folder.glob("*/__init__.py")} - others
    switched_on = {name.removeprefix("latspan_") for each in CLIENTS for name in each.integrations}
    assert switched_on == packages
    assert {each.__module__.split(".")[1] for each in INTEGRATIONS} == packages
