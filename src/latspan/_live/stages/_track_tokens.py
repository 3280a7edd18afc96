"""Tokens of a response, recorded as they are generated."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Callable, Generator, Iterable
from typing import Any, TypeVar, overload

from latspan._base.internal_errors import handle_internal_errors
from latspan._base.log import warn_once
from latspan._live.instrument import error_type_of, outcome_of
from latspan._live.operations import Generation, LocalScope, attached, handoff_here
from latspan._live.process.runtime import Runtime, current_runtime
from latspan._live.stages._annotations import annotations_here
from latspan._model.segments import Kind, Outcome, Stage

_T = TypeVar("_T")


def _one(_: object) -> int:
    return 1


@overload
def track_tokens(
    tokens: Iterable[_T], *, count: Callable[[_T], int] = ..., stages: bool = ...
) -> Generator[_T]: ...
@overload
def track_tokens(
    tokens: AsyncIterable[_T], *, count: Callable[[_T], int] = ..., stages: bool = ...
) -> AsyncGenerator[_T]: ...
def track_tokens(
    tokens: Iterable[Any] | AsyncIterable[Any],
    *,
    count: Callable[[Any], int] = _one,
    stages: bool = True,
) -> Generator[Any] | AsyncGenerator[Any]:
    """
    Record the tokens of a response: ``for token in latspan.track_tokens(model.stream(prompt)):``.

    The open request gets the time to its first token, the time per output token, the number of
    tokens, and the stages ``prefill`` (to the first token) and ``decode`` (to the last one).
    Exceptions of ``tokens`` pass through; closing the generator early closes ``tokens``.

    Args:
        tokens: Synchronous or asynchronous iterable of tokens or chunks.
        count: Returns the number of tokens in an item, 0 if it has none. By default each item
            counts as one token.
        stages: Whether to record the two stages. Pass ``False`` if other code records them: a call
            of a model server inside the request, or the process that continues the request.

    Returns:
        A generator of the same items. Use it for one response.
    """
    following = _Following.here(stages=stages)
    if isinstance(tokens, AsyncIterable):
        return _afollow(tokens, following, count)
    return _track(tokens, following, count)


class _Following:
    """
    Recorder of the tokens of one response, for the request that it belongs to.

    Args:
        runtime: The running configuration.
        stages: Whether to record the stages ``prefill`` and ``decode``.
    """

    __slots__ = ("_generation", "_handoff", "_now", "_runtime", "_stages")

    def __init__(self, runtime: Runtime, *, stages: bool) -> None:
        self._runtime = runtime
        self._now = runtime.clock.monotonic_ns
        self._stages = stages
        # Found here, because the reader of the tokens may run in another context.
        self._handoff = handoff_here()
        self._generation = Generation(self._now())
        for each in annotations_here():
            each.generations.append(self._generation)

    @classmethod
    def here(cls, *, stages: bool) -> _Following | None:
        runtime = current_runtime()
        if runtime is None:
            return None
        with handle_internal_errors("the start of tracked tokens"):
            return cls(runtime, stages=stages)
        return None

    def begun(self) -> None:
        """Record the time at which the reader requests the first token."""
        self._generation.begun_ns = self._now()

    def token(self, bearer: _T, counted: Callable[[_T], int]) -> None:
        """Record the time and the number of the tokens in an item."""
        generation = self._generation
        try:
            count = counted(bearer)
        except Exception as error:  # noqa: BLE001 - it must not end the response
            _warn(f"raises {type(error).__name__}: {error}")
            return
        try:
            count = count + 0
            bears = count > 0
        except Exception:  # noqa: BLE001 - it is not a number
            _warn(f"returns {type(count).__name__}, not a number")
            return
        if bears:
            is_first = generation.first_ns is None
            generation.token(self._now(), count)
            if is_first:
                self._stage(Stage.PREFILL, generation.begun_ns, generation.last_ns)

    def ended(self, error: BaseException | None = None) -> None:
        """Record the end: there are no more tokens, or the reader has stopped reading."""
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
        with (
            handle_internal_errors("a stage of tracked tokens"),
            attached(self._handoff),
        ):
            LocalScope(
                self._runtime,
                kind=Kind.STAGE,
                name=name.value,
                start_ns=begun_ns,
                current=False,
            ).end(outcome, error_type=error_type, done_ns=done_ns)


def _warn(what: str) -> None:
    """Log that the application's function ``count`` is wrong."""
    warn_once(
        f"the function 'count' of track_tokens {what}; items for which it does are not counted",
        about="the count of tracked tokens",
    )


def _track(
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
