"""Handoff of requests: to the thread, task or process that continues one, or to a batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING

from latspan import semconv
from latspan._base.internal_errors import handle_internal_errors
from latspan._base.log import warn_once
from latspan._live.instrument import ScopeManager, error_type_of, outcome_of, scope_entering
from latspan._live.operations import Handoff, LocalScope, attached, handoff_here
from latspan._live.process.runtime import current_runtime
from latspan._live.stages._stage import kind_of, unambiguous
from latspan._model.segments import Kind, Outcome

if TYPE_CHECKING:
    from latspan._live.otel.spans import AttributeValue


def handoff(*, waits: str | None = "queue") -> Handoff:
    """
    Return a handoff of the open request: ``queue.put((latspan.handoff(), prompt))``.

    The thread, task or process that continues the request passes it to :func:`attach`. Tasks, and
    functions passed to ``asyncio.to_thread``, do not need a handoff, because they inherit the
    context. A handoff can be pickled; ``handoff().headers()`` returns it as text.

    Args:
        waits: Name of the stage that lasts from now until the handoff is attached. Pass ``None`` to
            record no such stage, if the code that creates the handoff also continues the request.
    """
    return handoff_here(waits)


def attach(handoff_or_headers: Handoff | Mapping[str, str]) -> ScopeManager[Handoff]:
    """
    Continue a request that was handed over: ``with latspan.attach(handoff):``.

    Inside the block, stages and calls belong to the request, and its attributes apply. The first
    attachment ends the stage that the argument ``waits`` of :func:`handoff` names. A handoff can be
    attached more than once, and by several threads or tasks at the same time.

    Args:
        handoff_or_headers: Result of :func:`handoff`, from this or another process, or its headers.

    Returns:
        A context manager and decorator; the value of the ``with`` statement is the handoff. If
        another process created it, send that process the result of :meth:`Handoff.server_timing`:
        it contains the stages that ended here.
    """
    if not isinstance(handoff_or_headers, Handoff):
        handoff_or_headers = Handoff(handoff_or_headers)
    return scope_entering(partial(attached, handoff_or_headers))


def batch(
    name: str,
    requests: Iterable[Handoff],
    *,
    kind: str | None = None,
    window_s: float | None = None,
) -> ScopeManager[None]:
    """
    Record one stage for many requests at once: ``with latspan.batch("prefill", handoffs):``.

    Each request gets the stage, which lasts as long as the block, and an attribute with the size of
    the batch. This creates one span per request: use it for a whole step, for example a prefill,
    not for each iteration of a decode.

    Args:
        name: A standard stage, for example ``prefill``, or a name of your own.
        requests: The handoff of each request, see :func:`latspan.handoff`.
        kind: The standard stage that this stage is a case of, if ``name`` is a name of your own.
        window_s: Time for which requests were collected into the batch, in seconds.

    Raises:
        UnknownNameError: ``kind`` is not a standard stage.
    """
    handoffs = tuple(requests)
    known = tuple(
        each
        for each in handoffs
        if isinstance(each, Handoff)  # pyright: ignore[reportUnnecessaryIsInstance]
    )
    if len(known) < len(handoffs):
        warn_once("batch: an item that is not the result of latspan.handoff() has no stage")
    return ScopeManager(partial(_begin, unambiguous(name, kind), known, kind_of(kind), window_s))


def _begin(
    name: str,
    requests: Sequence[Handoff],
    attributes: Mapping[str, AttributeValue],
    window_s: float | None,
) -> _Stages | None:
    runtime = current_runtime()
    if runtime is None:
        return None
    stages: list[LocalScope] = []
    with handle_internal_errors("the start of a batch"):
        of_batch = {**attributes, semconv.LATSPAN_BATCH_SIZE: len(requests)}
        if window_s is not None:
            of_batch[semconv.LATSPAN_BATCH_WINDOW] = float(window_s)
        begun_ns = runtime.clock.monotonic_ns()
        for each in requests:
            with attached(each):
                stages.append(
                    LocalScope(
                        runtime,
                        kind=Kind.STAGE,
                        name=name,
                        attributes=of_batch,
                        start_ns=begun_ns,
                        current=False,
                    )
                )
    return _Stages(stages)


class _Stages:
    """Stages of one batch. Each belongs to another request, so none is the current scope."""

    __slots__ = ("_stages",)

    def __init__(self, stages: Sequence[LocalScope]) -> None:
        self._stages = stages

    def current(self) -> AbstractContextManager[None]:
        return nullcontext()

    def end(self, error: BaseException | None = None) -> None:
        with handle_internal_errors("the end of a batch"):
            outcome, error_type = Outcome.COMPLETED, None
            if error is not None:
                outcome, error_type = outcome_of(error), error_type_of(error)
            ended_ns: int | None = None
            for stage in self._stages:
                if ended_ns is None:
                    ended_ns = stage.runtime.clock.monotonic_ns()
                stage.end(outcome, error_type=error_type, done_ns=ended_ns)
