"""What latspan puts around a block or a function can be used again and again, anywhere."""

from __future__ import annotations

import asyncio
import contextvars
import functools
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping
from typing import Any

import pytest
from opentelemetry import trace

import latspan
from latspan._live.instrument import ScopeManager
from latspan._live.operations import active_scope, ambient_attributes
from latspan._model.segments import Kind
from latspan.testing import Captured, ManualClock, capture

MS = 1_000_000

CLOCK = ManualClock()

Around = Callable[[], ScopeManager[Any]]

SCOPES: Mapping[str, Around] = {
    "attributes": lambda: latspan.attributes(inference_path="chat"),
    "request": lambda: latspan.request("answer"),
    "stage": lambda: latspan.stage("retrieve"),
    "resume": lambda: latspan.attach(latspan.handoff()),
    "resume headers": lambda: latspan.attach(latspan.handoff().headers()),
    "batch": lambda: latspan.batch("prefill", [latspan.handoff(waits=None)]),
}


@pytest.fixture(params=SCOPES)
def around(request: pytest.FixtureRequest) -> Around:
    """Each kind of context manager that latspan hands out."""
    return SCOPES[request.param]


def _here() -> tuple[Mapping[str, str], object, int]:
    return ambient_attributes(), active_scope(), trace.get_current_span().get_span_context().span_id


def test_one_scope_is_entered_again_and_inside_itself(around: Around, seen: Captured) -> None:
    """What was current before is current again after each."""
    scope, outside = around(), _here()
    for _ in range(2):
        with scope:
            inside = _here()
            with scope:
                pass
            assert _here() == inside
    assert _here() == outside


def test_one_scope_is_entered_in_two_contexts_and_left_in_any_order(
    around: Around, seen: Captured
) -> None:
    """As by the threads and tasks that share an object of a module's."""
    scope = around()
    contexts = [contextvars.copy_context() for _ in range(3)]
    outside = [each.run(_here) for each in contexts]
    for each in contexts:
        each.run(scope.__enter__)
    for each in (contexts[1], contexts[0], contexts[2]):
        each.run(scope.__exit__, None, None, None)
    assert [each.run(_here) for each in contexts] == outside


def test_a_scope_left_in_another_context_raises_and_logs_nothing(
    around: Around, seen: Captured, caplog: pytest.LogCaptureFixture
) -> None:
    """As a fixture or a generator does that is closed by another task."""
    scope, outside = around(), _here()
    contextvars.copy_context().run(scope.__enter__)
    scope.__exit__(None, None, None)
    assert _here() == outside
    assert caplog.records == []


def test_an_entry_that_began_nothing_ends_nothing() -> None:
    """A block entered before latspan was configured leaves alone what another thread has open."""
    scope, other = latspan.request("answer"), contextvars.copy_context()
    scope.__enter__()
    with capture() as seen:
        other.run(scope.__enter__)
        scope.__exit__(None, None, None)
        assert seen.spans == ()
        other.run(scope.__exit__, None, None, None)
        assert len(seen.spans) == 1


class _Seen:
    """What was current inside each step of a decorated function."""

    def __init__(self, around: ScopeManager[Any]) -> None:
        self.paths: list[str | None] = []
        self.function = around(self._function)
        self.coroutine = around(self._coroutine)
        self.generator = around(self._generator)
        self.async_generator = around(self._async_generator)

    def _see(self) -> None:
        self.paths.append(ambient_attributes().get("inference_path"))

    def _function(self) -> None:
        self._see()

    async def _coroutine(self) -> None:
        await asyncio.sleep(0)
        self._see()

    def _generator(self) -> Iterator[int]:
        self._see()
        yield 1
        self._see()

    async def _async_generator(self) -> AsyncIterator[int]:
        self._see()
        yield 1
        self._see()


async def test_attributes_decorate_functions_of_every_kind(seen: Captured) -> None:
    """Around a generator they hold while a step runs, and not while its caller does."""
    decorated = _Seen(latspan.attributes(inference_path="chat"))
    decorated.function()
    await decorated.coroutine()
    for _ in decorated.generator():
        assert "inference_path" not in ambient_attributes()
    async for _ in decorated.async_generator():
        assert "inference_path" not in ambient_attributes()
    assert decorated.paths == ["chat"] * 6


def _steps(scope: ScopeManager[Any]) -> Generator[None]:
    with scope:
        yield


def test_a_generator_inside_a_scope_is_closed_from_another_context(
    around: Around, seen: Captured, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is raised or logged, and the context that closes it stays as it was."""
    steps, outside = _steps(around()), _here()
    contextvars.copy_context().run(next, steps)
    steps.close()
    assert _here() == outside
    assert caplog.records == []


class _Shop:
    """A class of the application with functions of every kind."""

    @latspan.stage
    def retrieve(self, query: str) -> str:
        """Take 2 ms."""
        CLOCK.advance(2 * MS)
        return query

    @classmethod
    @latspan.stage("rerank", kind="retrieve")
    def reranked(cls) -> str:
        """Take 3 ms."""
        CLOCK.advance(3 * MS)
        return cls.__name__

    @latspan.request
    async def answer(self) -> str:
        """Take 5 ms, in two stages."""
        return self.retrieve("q") + self.reranked()

    @latspan.request
    def stream(self) -> Iterator[int]:
        """Yield twice, taking 4 ms each."""
        for number in range(2):
            CLOCK.advance(4 * MS)
            yield number

    @latspan.stage
    async def astream(self) -> AsyncIterator[int]:
        """Yield once, taking 6 ms."""
        CLOCK.advance(6 * MS)
        yield 1


async def test_bare_decorators_use_the_functions_name() -> None:
    """Methods, coroutines and generators of both kinds keep what they return."""
    shop = _Shop()
    with capture(clock=CLOCK) as seen:
        assert await shop.answer() == "q_Shop"
        assert list(shop.stream()) == [0, 1]
        assert [number async for number in shop.astream()] == [1]

    snapshot = seen.snapshot()
    assert [(record.kind, record.name, record.duration_ns // MS) for record in seen.records] == [
        (Kind.STAGE, "retrieve", 2),
        (Kind.STAGE, "rerank", 3),
        (Kind.REQUEST, "answer", 5),
        (Kind.REQUEST, "stream", 8),
        (Kind.STAGE, "astream", 6),
    ]
    assert snapshot.segments() == ("application", "astream", "rerank", "retrieve")
    kinds = {span.name: (span.attributes or {}).get("latspan.stage.kind") for span in seen.spans}
    assert (kinds["retrieve"], kinds["rerank"], kinds["astream"]) == ("retrieve", "retrieve", None)


def test_a_bare_decorator_may_be_outside_of_classmethod_and_staticmethod() -> None:
    """A type checker refuses the order, but a method so decorated works as written."""
    decorate: Any = latspan.stage

    class Shop:
        @decorate
        @classmethod
        def of_class(cls) -> str:
            return cls.__name__

        @decorate
        @staticmethod
        def of_none(value: int) -> int:
            return value

    with capture() as seen:
        assert (Shop.of_class(), Shop().of_class()) == ("Shop", "Shop")
        assert (Shop.of_none(3), Shop().of_none(4)) == (3, 4)

    assert [record.name for record in seen.records] == ["of_class"] * 2 + ["of_none"] * 2


def test_any_callable_has_a_name() -> None:
    """A partial has its function's name, an object its class's."""

    class Rerank:
        def __call__(self, value: int) -> int:
            return value

    def keep(value: int) -> int:
        return value

    with capture() as seen:
        assert latspan.stage(Rerank())(1) == 1
        assert latspan.request(functools.partial(keep, 2))() == 2

    assert [record.name for record in seen.records] == ["Rerank", "keep"]
