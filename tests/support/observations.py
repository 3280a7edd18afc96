"""Observations of calls for tests of timelines: exact ones in milliseconds, and arbitrary ones."""

from __future__ import annotations

from hypothesis import strategies as st

from latspan._base.nanoseconds import NS_PER_MS
from latspan._model.segments import Outcome, ReportedTimings, SegmentName
from latspan._model.timeline import Attempt, CallObservation, Reads
from latspan._model.wire import ChunkKind

MS = NS_PER_MS


def attempt_in_ms(start: int = 5, **later: int) -> Attempt:
    """Return an attempt with the given instants, in milliseconds."""
    attempt = Attempt(start * MS)
    for name, instant in later.items():
        setattr(attempt, f"{name}_ns", instant * MS)
    return attempt


def reads_in_ms(*chunks: tuple[int, int, ChunkKind], end: tuple[int, int] | None = None) -> Reads:
    """Return reads from (before, after, kind), in milliseconds."""
    reads = Reads()
    for before, after, kind in chunks:
        reads.add(before * MS, after * MS, kind)
    if end is not None:
        reads.end = (end[0] * MS, end[1] * MS)
    return reads


def any_observation(unit_ns: int = 1) -> st.SearchStrategy[CallObservation]:
    """
    Return a strategy of observations in any order and with any part missing, without blocks.

    Args:
        unit_ns: Nanoseconds of which all instants are multiples.
    """
    instants = st.integers(min_value=-50, max_value=2_000).map(unit_ns.__mul__)
    maybe = st.none() | instants
    attempts = st.builds(
        Attempt,
        start_ns=instants,
        phase=st.sampled_from(list(SegmentName)),
        pool_acquired_ns=maybe,
        dns_done_ns=maybe,
        connected_ns=maybe,
        tls_done_ns=maybe,
        sent_ns=maybe,
        headers_ns=maybe,
        body_end_ns=maybe,
        end_ns=maybe,
    )
    lengths = maybe | st.integers(-1, 10**30)
    reported = st.builds(
        ReportedTimings,
        system=st.just("any"),
        gateway_ns=lengths,
        queue_ns=lengths,
        model_load_ns=lengths,
        prefill_ns=lengths,
        decode_ns=lengths,
        head_ns=lengths,
        total_ns=lengths,
        queue_until_headers=st.booleans(),
    )
    return st.builds(
        CallObservation,
        start_ns=instants,
        done_ns=instants,
        outcome=st.sampled_from(list(Outcome)),
        attempts=st.lists(attempts, max_size=3),
        returned_ns=maybe,
        reads=st.none() | _any_reads(instants),
        close_started_ns=maybe,
        reported=st.lists(reported, max_size=3).map(tuple),
        output_tokens=st.none() | st.integers(0, 100),
        choices=st.integers(1, 3),
        body_is_the_callers=st.booleans(),
    )


@st.composite
def _any_reads(draw: st.DrawFn, instants: st.SearchStrategy[int]) -> Reads:
    kinds = draw(st.lists(st.sampled_from([0, 1, 2]), max_size=8))
    stamps = draw(st.lists(instants, min_size=2 * len(kinds), max_size=2 * len(kinds)))
    if draw(st.booleans()):
        stamps.sort()
    reads = Reads(end=draw(st.none() | st.tuples(instants, instants)))
    for before, after, kind in zip(stamps[::2], stamps[1::2], kinds, strict=True):
        reads.add(before, after, kind)
    return reads
