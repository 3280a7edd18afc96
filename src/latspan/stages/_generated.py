"""The tokens of an answer, followed as they are generated."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Callable, Generator, Iterable
from typing import Any, TypeVar, overload

from latspan import _runtime
from latspan._request import Carried, Generation, LiveWork
from latspan._runtime import Runtime
from latspan.instrument import error_type_of, outcome_of
from latspan.segments import Kind, Outcome, Stage
from latspan.stages._remarks import remarks_here

__all__ = ["generated"]

_T = TypeVar("_T")


def _one(_: object) -> int:
    return 1


@overload
def generated(
    tokens: Iterable[_T], *, count: Callable[[_T], int] = ..., stages: bool = ...
) -> Generator[_T]: ...
@overload
def generated(
    tokens: AsyncIterable[_T], *, count: Callable[[_T], int] = ..., stages: bool = ...
) -> AsyncGenerator[_T]: ...
def generated(
    tokens: Iterable[Any] | AsyncIterable[Any],
    *,
    count: Callable[[Any], int] = _one,
    stages: bool = True,
) -> Generator[Any] | AsyncGenerator[Any]:
    """
    Follow an answer's tokens: ``for token in latspan.generated(model.stream(prompt)):``.

    The request that is open here gets the time to its first token, the time per output token and
    how many there were, and the stages ``prefill``, up to the first, and ``decode``, up to the
    last. An exception of the generator's is handed on, and so is that it is left early.

    Args:
        tokens: What gives them, synchronous or asynchronous.
        count: How many tokens there are in what it gives; one in each, if not given. 0 for what
            bears none.
        stages: Whether the two stages are made of it. ``False`` where another says what they
            were: a call of a model server inside, or whoever goes on with the request.

    Returns:
        A generator of the same, for one answer.
    """
    following = _Following.here(stages=stages)
    if isinstance(tokens, AsyncIterable):
        return _afollow(tokens, following, count)
    return _follow(tokens, following, count)


class _Following:
    """
    The tokens of one answer, for the request that they are of.

    Args:
        runtime: What is switched on.
        stages: Whether stages are made of it.
    """

    __slots__ = ("_carried", "_generation", "_now", "_runtime", "_stages")

    def __init__(self, runtime: Runtime, *, stages: bool) -> None:
        self._runtime = runtime
        self._now = runtime.clock.monotonic_ns
        self._stages = stages
        # Who reads the tokens may do so in another context than this.
        self._carried = Carried.here()
        self._generation = Generation(self._now())
        remarks = remarks_here()
        if remarks is not None:
            remarks.generations.append(self._generation)

    @classmethod
    def here(cls, *, stages: bool) -> _Following | None:
        runtime = _runtime.current()
        if runtime is None:
            return None
        with _runtime.guarded("the start of an answer's tokens"):
            return cls(runtime, stages=stages)
        return None

    def begun(self) -> None:
        """Stamp that somebody asks for the first."""
        self._generation.begun_ns = self._now()

    def token(self, bearer: _T, counted: Callable[[_T], int]) -> None:
        """Stamp the tokens that are in what came."""
        generation = self._generation
        try:
            # Of what is no number nobody can say that it is more than none.
            count = counted(bearer) + 0
            bears = count > 0
        except Exception as error:  # noqa: BLE001 - the answer is not to end for it
            _runtime.report_bug(error, "counting tokens")
            return
        if bears:
            is_first = generation.first_ns is None
            generation.token(self._now(), count)
            if is_first:
                self._stage(Stage.PREFILL, generation.begun_ns, generation.last_ns)

    def ended(self, error: BaseException | None = None) -> None:
        """Hear that there are no more, or that nobody wants more."""
        outcome, error_type = Outcome.COMPLETED, None
        if error is not None:
            outcome = outcome_of(error)
            error_type = None if outcome is Outcome.CLOSED_EARLY else error_type_of(error)
        generation = self._generation
        if generation.first_ns is None:
            self._stage(Stage.PREFILL, generation.begun_ns, self._now(), outcome, error_type)
            return
        over_ns = generation.last_ns if error is None else self._now()
        self._stage(Stage.DECODE, generation.first_ns, over_ns, outcome, error_type)

    def _stage(
        self,
        name: Stage,
        begun_ns: int,
        done_ns: int,
        outcome: Outcome = Outcome.COMPLETED,
        error_type: str | None = None,
    ) -> None:
        if not self._stages:
            return
        with _runtime.guarded("a stage of an answer's tokens"), self._carried.resumed():
            LiveWork(
                self._runtime,
                kind=Kind.STAGE,
                name=name.value,
                start_ns=begun_ns,
                current=False,
            ).finish(outcome, error_type=error_type, done_ns=done_ns)


def _follow(
    tokens: Iterable[_T], following: _Following | None, count: Callable[[_T], int]
) -> Generator[_T]:
    if following is None:
        yield from tokens
        return
    following.begun()
    try:
        for token in tokens:
            following.token(token, count)
            yield token
    except BaseException as error:
        try:
            if isinstance(error, GeneratorExit) and isinstance(tokens, Generator):
                tokens.close()
        finally:
            following.ended(error)
        raise
    following.ended()


async def _afollow(
    tokens: AsyncIterable[_T], following: _Following | None, count: Callable[[_T], int]
) -> AsyncGenerator[_T]:
    if following is not None:
        following.begun()
    try:
        async for token in tokens:
            if following is not None:
                following.token(token, count)
            yield token
    except BaseException as error:
        try:
            if isinstance(error, GeneratorExit) and isinstance(tokens, AsyncGenerator):
                await tokens.aclose()
        finally:
            if following is not None:
                following.ended(error)
        raise
    if following is not None:
        following.ended()
