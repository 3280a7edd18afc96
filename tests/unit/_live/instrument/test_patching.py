"""A patched method is what it was before, to whoever looks at it, and comes off exactly."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from types import MethodType
from typing import Any

import pytest
import wrapt
from opentelemetry.instrumentation.utils import unwrap

from latspan._live.instrument import Patches
from latspan.errors import InstrumentationError


def _library() -> Any:
    """Return a class such as client libraries have."""

    class Client:
        def send(self, request: str, *, stream: bool = False) -> str:
            return f"{request} {stream}"

        async def send_async(self, request: str) -> str:
            return request

    return Client


def _send_of(client: Any) -> object:
    """Return what stands in the class itself."""
    return inspect.getattr_static(client, "send")


def _ours(
    wrapped: Callable[..., Any], instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    assert isinstance(wrapped, MethodType)
    assert wrapped.__self__ is instance
    return f"ours({wrapped(*args, **kwargs)})"


async def _ours_async(
    wrapped: Callable[..., Any], instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    return f"ours({await wrapped(*args, **kwargs)})"


def _theirs(
    wrapped: Callable[..., Any], instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    return f"theirs({wrapped(*args, **kwargs)})"


def test_a_wrapped_method_is_a_plain_function() -> None:
    """The same object at each access, with the original's name and signature."""
    client, patches = _library(), Patches()
    original = client.send
    patches.wrap(client, "send", _ours)
    assert client.send is client.send
    assert type(client.send) is type(original)
    assert client.send.__wrapped__ is original
    assert client.send.__qualname__ == original.__qualname__
    assert inspect.signature(client.send) == inspect.signature(original)
    assert client().send("a", stream=True) == "ours(a True)"
    assert client.send(client(), "a") == "ours(a False)"


def test_an_asynchronous_method_is_still_a_coroutine_function() -> None:
    """And refuses wrong arguments at the call, not only when it is awaited."""
    client, patches = _library(), Patches()

    def wrapper(
        wrapped: Callable[..., Any], instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        begun = wrapped(*args, **kwargs)
        return _awaited(begun)

    async def _awaited(begun: Any) -> str:
        return f"ours({await begun})"

    patches.wrap(client, "send_async", wrapper)
    assert inspect.iscoroutinefunction(client.send_async)
    assert inspect.iscoroutinefunction(client().send_async)
    assert asyncio.run(client().send_async("a")) == "ours(a)"
    with pytest.raises(TypeError, match=r"send_async\(\) missing 1 required"):
        client().send_async()


@pytest.mark.parametrize("beneath", [False, True])
def test_the_very_same_function_comes_back(*, beneath: bool) -> None:
    """In the class it was in."""
    client, patches = _library(), Patches()
    original = _send_of(client)
    (patches.wrap_innermost if beneath else patches.wrap)(client, "send", _ours)
    patches.restore()
    assert _send_of(client) is original


def test_an_inherited_method_is_inherited_again() -> None:
    """Nothing of ours stays in the class that inherits it."""
    base, patches = _library(), Patches()
    client = type("Sub", (base,), {})
    patches.wrap(client, "send", _ours)
    assert client().send("a") == "ours(a False)"
    assert base().send("a") == "a False"
    patches.restore()
    assert "send" not in vars(client)


def test_what_others_put_around_ours_stays_around_the_original() -> None:
    """With wrapt, as other instrumentations do: ours can be taken out of the middle."""
    client, patches = _library(), Patches()
    original = _send_of(client)
    patches.wrap(client, "send", _ours)
    wrapt.wrap_function_wrapper(client, "send", _theirs)
    assert client().send("a") == "theirs(ours(a False))"
    patches.restore()
    assert client().send("a") == "theirs(a False)"
    assert getattr(_send_of(client), "__wrapped__", None) is original


def test_beneath_what_others_put_there_before() -> None:
    """And out again."""
    client, patches = _library(), Patches()
    original = _send_of(client)
    wrapt.wrap_function_wrapper(client, "send", _theirs)
    patches.wrap_innermost(client, "send", _ours)
    assert client().send("a") == "theirs(ours(a False))"
    patches.restore()
    assert client().send("a") == "theirs(a False)"
    assert getattr(_send_of(client), "__wrapped__", None) is original


def test_ours_comes_off_after_others_were_taken_off_around_it() -> None:
    """OpenTelemetry's ``unwrap`` puts back what it finds inside its wrapper."""
    client, patches = _library(), Patches()
    original = _send_of(client)
    patches.wrap(client, "send", _ours)
    wrapt.wrap_function_wrapper(client, "send", _theirs)
    unwrap(client, "send")
    assert client().send("a") == "ours(a False)"
    patches.restore()
    assert _send_of(client) is original


def test_ours_does_nothing_inside_a_function_that_cannot_be_looked_into() -> None:
    """It cannot be taken out, so it passes every call on."""
    client, patches = _library(), Patches()
    patches.wrap(client, "send", _ours)
    patches.wrap(client, "send_async", _ours_async)
    inside, inside_async = client.send, client.send_async

    def send(self: Any, request: str) -> str:
        return f"theirs({inside(self, request)})"

    async def send_async(self: Any, request: str) -> str:
        return f"theirs({await inside_async(self, request)})"

    client.send, client.send_async = send, send_async
    patches.restore()
    assert client().send("a") == "theirs(a False)"
    assert asyncio.run(client().send_async("a")) == "theirs(a)"


def test_a_method_that_is_missing_is_refused() -> None:
    """By its name, and nothing is changed."""
    with pytest.raises(InstrumentationError, match="no method 'post'"):
        Patches().wrap(_library(), "post", _ours)
