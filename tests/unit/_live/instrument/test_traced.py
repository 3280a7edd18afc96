"""``@traced`` on every kind of function."""

from __future__ import annotations

import asyncio
import functools
import inspect
import types
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextvars import copy_context
from typing import Any

import pytest
from opentelemetry import trace

import latspan
from latspan.testing import Captured, ManualClock, capture

MS = 1_000_000

CLOCK = ManualClock()


@pytest.fixture
def seen() -> Iterator[Captured]:
    """What is recorded on the module's clock."""
    with capture(clock=CLOCK) as captured:
        yield captured


def _span_id() -> int:
    return trace.get_current_span().get_span_context().span_id


@latspan.traced
def plain(value: int) -> int:
    """Take 3 ms."""
    CLOCK.advance(3 * MS)
    if value < 0:
        raise ValueError(value)
    return _span_id()


@latspan.traced(name="coroutine")
async def coroutine(value: int) -> int:
    """Take 4 ms."""
    CLOCK.advance(4 * MS)
    await asyncio.sleep(0)
    return _span_id()


@latspan.traced(name="generator")
def generator() -> Generator[int, str, str]:
    """Yield twice, taking 5 ms each, and answer what it was sent."""
    CLOCK.advance(5 * MS)
    sent = yield _span_id()
    CLOCK.advance(5 * MS)
    try:
        yield _span_id()
    except LookupError:
        sent += " caught"
    return sent


@latspan.traced(name="async_generator")
async def async_generator() -> AsyncGenerator[int, str | None]:
    """Yield three times."""
    for _ in range(3):
        CLOCK.advance(2 * MS)
        yield _span_id()


def _only(seen: Captured) -> tuple[str, int, dict[str, Any]]:
    (span,) = seen.spans
    assert span.start_time is not None
    assert span.end_time is not None
    return span.name, span.end_time - span.start_time, dict(span.attributes or {})


def _own_id(seen: Captured) -> int:
    (span,) = seen.spans
    assert span.context is not None
    return span.context.span_id


def test_a_function(seen: Captured) -> None:
    """Its span carries its qualified name and is current inside it."""
    inside = plain(1)
    name, duration, attributes = _only(seen)
    assert name == f"{__name__}.plain"
    assert duration == 3 * MS
    assert attributes == {"latspan.outcome": "completed"}
    assert inside == _own_id(seen)
    assert _span_id() == 0


def test_an_exception_passes_through(seen: Captured) -> None:
    """The span says its type and has failed."""
    with pytest.raises(ValueError, match="-1"):
        plain(-1)
    _, _, attributes = _only(seen)
    assert attributes == {"latspan.outcome": "error", "error.type": "ValueError"}
    assert not seen.spans[0].status.is_unset


async def test_a_coroutine(seen: Captured) -> None:
    """Its span lasts until it is done."""
    inside = await coroutine(1)
    assert _only(seen)[:2] == ("coroutine", 4 * MS)
    assert inside == _own_id(seen)


async def test_a_cancelled_coroutine(seen: Captured) -> None:
    """Being cancelled is no failure."""

    @latspan.traced(name="stuck")
    async def stuck(entered: asyncio.Event) -> None:
        entered.set()
        await asyncio.Event().wait()

    entered = asyncio.Event()
    task = asyncio.ensure_future(stuck(entered))
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert _only(seen)[2]["latspan.outcome"] == "cancelled"
    assert seen.spans[0].status.is_unset


def test_a_coroutine_closed_from_another_context(
    seen: Captured, caplog: pytest.LogCaptureFixture
) -> None:
    """As the collector closes one that no task runs to its end: no error is logged."""

    @latspan.traced(name="stuck")
    async def stuck() -> None:
        await asyncio.sleep(0)

    running = stuck()
    copy_context().run(running.send, None)
    running.close()
    assert _only(seen)[2] == {"latspan.outcome": "closed_early"}
    assert _span_id() == 0
    assert caplog.records == []


def test_a_generator_is_current_only_while_it_runs(seen: Captured) -> None:
    """What is sent, thrown and returned goes through; the caller's work is not its child."""
    steps = generator()
    inside = next(steps)
    assert _span_id() == 0
    CLOCK.advance(100 * MS)
    steps.send("sent")
    assert seen.spans == ()
    with pytest.raises(StopIteration) as stop:
        steps.throw(LookupError())
    assert stop.value.value == "sent caught"
    assert inside == _own_id(seen)
    assert _only(seen)[:2] == ("generator", 110 * MS)


def test_a_generator_that_is_closed_early_ends_without_an_error(seen: Captured) -> None:
    """Leaving it is the caller's choice."""
    for _ in generator():
        break
    assert _only(seen)[2] == {"latspan.outcome": "closed_early"}


def test_a_generator_that_is_never_begun_has_no_span(seen: Captured) -> None:
    """Nothing ran."""
    generator().close()
    assert seen.spans == ()


async def test_an_asynchronous_generator(seen: Captured) -> None:
    """Its span is current inside each step and nowhere else."""
    inside: set[int] = set()
    async for value in async_generator():
        inside.add(value)
        assert _span_id() == 0
    assert inside == {_own_id(seen)}
    assert _only(seen)[:2] == ("async_generator", 6 * MS)


async def test_an_asynchronous_generator_closed_from_another_task(
    seen: Captured, caplog: pytest.LogCaptureFixture
) -> None:
    """No context is left attached and no error is logged."""
    steps = async_generator()
    await anext(steps)
    await asyncio.ensure_future(steps.aclose())
    assert _only(seen)[2] == {"latspan.outcome": "closed_early"}
    assert caplog.records == []


def test_functions_stay_what_they_are() -> None:
    """Name, docstring and kind are those of the function."""
    assert plain.__name__ == "plain"
    assert inspect.iscoroutinefunction(coroutine)
    assert inspect.isgeneratorfunction(generator)
    assert inspect.isasyncgenfunction(async_generator)


def test_nothing_happens_until_configured() -> None:
    """The function runs as it is."""
    assert plain(1) == 0
    assert list(generator()) == [0, 0]


class Echo:
    """Returns what it is given."""

    def __call__(self, value: int) -> int:
        """Return it."""
        return value


def _echo(value: int) -> int:
    return value


@pytest.mark.parametrize(
    ("called", "name"),
    [(functools.partial(_echo, 3), "_echo"), (functools.partial(Echo(), 3), "Echo")],
)
def test_what_is_called_need_not_be_a_function(
    seen: Captured, called: Callable[[], int], name: str
) -> None:
    """The span of a partial function has the function's name, that of an object its class's."""
    assert latspan.traced(called)() == 3
    assert [span.name for span in seen.spans] == [f"{__name__}.{name}"]


def test_an_awaitable_of_the_older_kind_stays_one(seen: Captured) -> None:
    """``types.coroutine`` makes one of a generator function."""

    @latspan.traced(name="older")
    @types.coroutine
    def older() -> Generator[None, None, int]:
        yield
        return 5

    async def program() -> int:
        return await older()

    assert asyncio.run(program()) == 5
    assert [span.name for span in seen.spans] == ["older"]


@latspan.traced("positional")
def _named() -> None:
    """Do nothing."""


def test_the_name_may_be_positional(seen: Captured) -> None:
    """As in `request` and `stage`."""
    _named()

    assert [span.name for span in seen.spans] == ["positional"]


def test_methods_of_every_kind_are_traced(seen: Captured) -> None:
    """In either order with `classmethod` and `staticmethod`."""
    decorate: Any = latspan.traced("of the class")

    class Shop:
        @latspan.traced("of the object")
        def method(self) -> str:
            return type(self).__name__

        @decorate
        @classmethod
        def of_class(cls) -> str:
            return cls.__name__

        @staticmethod
        @latspan.traced("of none")
        def of_none(value: int) -> int:
            return value

    assert (Shop().method(), Shop.of_class(), Shop().of_none(3)) == ("Shop", "Shop", 3)
    assert [span.name for span in seen.spans] == ["of the object", "of the class", "of none"]
