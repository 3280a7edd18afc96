"""Everything that was observed of one call: the input of its timeline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from latspan._model.metrics import DEFAULT_EXPECTATIONS, Expectations
from latspan._model.segments import Outcome, ReportedTimings
from latspan._model.timeline._marks import Attempt, Block, Reads


@dataclass(slots=True)
class CallObservation:
    """
    Everything that was observed of one call. Instants are monotonic nanoseconds.

    Args:
        start_ns: Instant at which the client library was called.
        done_ns: Instant at which the call was over for its caller.
        outcome: How it ended.
        attempts: Its attempts on the transport, in any order.
        returned_ns: Instant at which the client library returned the stream or the response.
        reads: The reads of a stream, ``None`` for a response that was not streamed.
        close_started_ns: Instant at which the caller began to close the stream before its end.
        reported: Reported times of the server and its gateways, from the outside in.
        output_tokens: Number of tokens received, reasoning included.
        tokens_estimated: Whether the tokens were counted in this process and not by the provider.
        choices: Number of choices that were requested at once.
        body_is_the_callers: Whether the caller reads the body of the response unobserved, so that
            the time after the headers may be the server's or the caller's.
        expected: Expectations that a stream is compared with.
        blocks: Begin and end of each block of the caller's event loop, in order and without an
            overlap.
        prepare_other_ns: Last instant before the first attempt at which something else than the
            call's task is known to have run on that loop; ``None`` if unknown.
    """

    start_ns: int
    done_ns: int
    outcome: Outcome = Outcome.COMPLETED
    attempts: list[Attempt] = field(default_factory=list[Attempt])
    returned_ns: int | None = None
    reads: Reads | None = None
    close_started_ns: int | None = None
    reported: tuple[ReportedTimings, ...] = ()
    output_tokens: int | None = None
    tokens_estimated: bool = False
    choices: int = 1
    body_is_the_callers: bool = False
    expected: Expectations = DEFAULT_EXPECTATIONS
    blocks: Sequence[Block] = ()
    prepare_other_ns: int | None = None


def body_end_ns(seen: CallObservation, attempt: Attempt | None) -> int:
    """Return the end of a response that was not streamed: of its body, or of the failed attempt."""
    known = [seen.returned_ns, seen.done_ns]
    if attempt is not None:
        known = [attempt.body_end_ns, attempt.end_ns if attempt.failed else None, *known]
    return next(instant for instant in known if instant is not None)
