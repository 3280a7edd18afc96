"""Work that is done for many requests at once."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager

from latspan import _runtime, semconv
from latspan._request import Carried, LiveWork
from latspan.instrument import error_type_of, outcome_of
from latspan.segments import Kind, Outcome
from latspan.stages._stage import kind_of

__all__ = ["batch"]


@contextmanager
def batch(
    name: str,
    requests: Iterable[Carried],
    *,
    kind: str | None = None,
    window_s: float | None = None,
) -> Generator[None]:
    """
    Name a stage of many requests at once: ``with latspan.batch("prefill", carried):``.

    Each of them has the stage, as long as the block takes, and the size of the batch on its span.
    It is a span a request: name what they wait for together, a prefill say, and not each step of
    a decode.

    Args:
        name: One of the standard stages, or a name of your own.
        requests: What was carried of each, as :func:`latspan.carry` returned it.
        kind: The standard stage that a name of your own counts as.
        window_s: How long requests were gathered for the batch, in seconds.

    Raises:
        UnknownNameError: ``kind`` is not a standard stage.
    """
    attributes = kind_of(kind)
    stages: list[LiveWork] = []
    runtime = _runtime.current()
    if runtime is not None:
        together = list(requests)
        with _runtime.guarded("the start of a batch"):
            attributes[semconv.LATSPAN_BATCH_SIZE] = len(together)
            if window_s is not None:
                attributes[semconv.LATSPAN_BATCH_WINDOW] = float(window_s)
            begun_ns = runtime.clock.monotonic_ns()
            for carried in together:
                with carried.resumed():
                    stages.append(
                        LiveWork(
                            runtime,
                            kind=Kind.STAGE,
                            name=name,
                            attributes=attributes,
                            start_ns=begun_ns,
                            current=False,
                        )
                    )
    try:
        yield
    except BaseException as error:
        _end(stages, outcome_of(error), error_type_of(error))
        raise
    _end(stages, Outcome.COMPLETED)


def _end(stages: Iterable[LiveWork], outcome: Outcome, error_type: str | None = None) -> None:
    with _runtime.guarded("the end of a batch"):
        ended_ns: int | None = None
        for stage in stages:
            if ended_ns is None:
                ended_ns = stage.runtime.clock.monotonic_ns()
            stage.finish(outcome, error_type=error_type, done_ns=ended_ns)
