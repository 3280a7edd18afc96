"""Time of the slow requests compared with the others, and a sentence that summarises it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from latspan._model.recording import RequestRecord
from latspan._model.segments import (
    Outcome,
    SegmentName,
    SegmentTotal,
    Source,
    host_of_exchange,
    weaker,
)
from latspan._model.text import GLOSSARY, SOURCE_WORDS, in_words, listed, percent

_LEAD: Final = 0.10
"""
Minimum lead of the largest segment over the next, as a fraction of the time, to be named alone.
"""

_WORTH_NAMING: Final = 0.10
"""Fraction of the time below which the sentence does not name the second segment."""

_UNBLOCK: Final = (
    "Move CPU-bound work off the event loop: pure Python code to another process, because"
    " asyncio.to_thread helps only with code that releases the interpreter's lock (I/O, numpy)."
)


@dataclass(frozen=True, slots=True)
class SegmentShare:
    """
    One segment's share of the summed time of some requests.

    Args:
        name: The segment's name.
        share: Fraction in (0, 1].
        source: The least certain source among its intervals.
    """

    name: str
    share: float
    source: Source


@dataclass(frozen=True, slots=True)
class Slowest:
    """
    The slowest tenth of some calls, and the others.

    Args:
        slow: The slowest tenth, slowest first; at least one call if there are any.
        others: The remaining calls.
    """

    slow: tuple[RequestRecord, ...]
    others: tuple[RequestRecord, ...]

    @property
    def shares(self) -> tuple[SegmentShare, ...]:
        """Each segment's share of the slowest tenth's summed time, largest first."""
        return _shares(self.slow)

    @property
    def shares_of_others(self) -> tuple[SegmentShare, ...]:
        """Each segment's share of the others' summed time, largest first."""
        return _shares(self.others)

    def share(self, name: str) -> float | None:
        """Return a segment's share of the slowest tenth's time; ``None`` if that time is zero."""
        if not any(record.duration_ns for record in self.slow):
            return None
        return _share_named(self.shares, name)


def median_of(calls: Sequence[RequestRecord]) -> RequestRecord | None:
    """Return the call with the median duration, the faster of two; ``None`` if there is none."""
    return _by_duration(calls)[(len(calls) - 1) // 2] if calls else None


def slowest_of(calls: Sequence[RequestRecord]) -> RequestRecord | None:
    """Return the longest call; ``None`` if there is none."""
    return _by_duration(calls)[-1] if calls else None


def slowest_tenth(calls: Sequence[RequestRecord]) -> Slowest:
    """Separate the slowest tenth, rounded down but at least one call, from the others."""
    slowest_first = _by_duration(calls)[::-1]
    size = max(len(calls) // 10, 1)
    return Slowest(slow=slowest_first[:size], others=slowest_first[size:])


def sentence(records: Sequence[RequestRecord], noun: str) -> str:
    """
    Return a plain sentence on where the slowest tenth spent their time.

    The sentence names a single segment only if it leads clearly. It compares the slowest tenth with
    the others, and marks estimated numbers and records that did not complete.

    Args:
        records: Records of one kind.
        noun: Word for one of them: ``call`` or ``request``.
    """
    parts = slowest_tenth(records)
    shares = parts.shares
    if not shares:
        return f"No {noun} took any time, so there are no slow ones to explain."
    alone = len(shares) == 1 or shares[0].share - shares[1].share >= _LEAD
    surely = 1 if alone else 2
    named = (
        *shares[:surely],
        *(share for share in shares[surely:3] if share.share >= _WORTH_NAMING),
    )
    spent = f"{_who(parts, noun)} spent {_spent_on(named, of=len(parts.slow))}"
    text = spent if alone else f"No single cost: {spent[0].lower()}{spent[1:]}"
    text += _endings(parts.slow)
    if parts.others:
        text += f"; {_others_spent(named[:1] if alone else named, parts)}"
    blocked = any(share.name == SegmentName.EVENT_LOOP for share in named)
    return f"{text}. {_UNBLOCK}" if blocked else f"{text}."


def _by_duration(calls: Iterable[RequestRecord]) -> tuple[RequestRecord, ...]:
    return tuple(sorted(calls, key=lambda call: (call.duration_ns, call.start_epoch_ns)))


def _shares(records: Iterable[RequestRecord]) -> tuple[SegmentShare, ...]:
    summed: dict[str, SegmentTotal] = {}
    for total in (total for record in records for total in record.segment_totals):
        before = summed.get(total.name, SegmentTotal(total.name, 0, Source.MEASURED))
        summed[total.name] = SegmentTotal(
            total.name,
            before.duration_ns + total.duration_ns,
            weaker(before.source, total.source),
        )
    whole_ns = sum(total.duration_ns for total in summed.values())
    shares = (
        SegmentShare(total.name, total.duration_ns / whole_ns, total.source)
        for total in summed.values()
        if total.duration_ns
    )
    return tuple(sorted(shares, key=lambda share: -share.share))


def _share_named(shares: Iterable[SegmentShare], name: str) -> float:
    return next((share.share for share in shares if share.name == name), 0.0)


def _who(parts: Slowest, noun: str) -> str:
    slow, of = len(parts.slow), len(parts.slow) + len(parts.others)
    if of == 1:
        return f"The only {noun}"
    return (
        f"The slowest of {of:,} {noun}s" if slow == 1 else f"The slowest {slow:,} of {of:,} {noun}s"
    )


def _spent_on(named: Sequence[SegmentShare], *, of: int) -> str:
    whose = "its" if of == 1 else "their"
    first, *rest = named
    return listed(
        [
            f"{percent(first.share)} of {whose} time in {_explained(first)}",
            *(f"{percent(share.share)} in {_explained(share)}" for share in rest),
        ]
    )


def _explained(share: SegmentShare) -> str:
    other = "a stage of its own" if host_of_exchange(share.name) is None else "HTTP requests"
    meaning = GLOSSARY.get(share.name, other)
    certain = share.source in (Source.MEASURED, Source.SERVER_REPORTED)
    known = "" if certain else f"; {SOURCE_WORDS[share.source]}"
    return f"{share.name} ({meaning}{known})"


def _others_spent(named: Sequence[SegmentShare], parts: Slowest) -> str:
    others = parts.shares_of_others
    spent = [f"{percent(_share_named(others, share.name))} in {share.name}" for share in named]
    whose = "the other one" if len(parts.others) == 1 else f"the other {len(parts.others):,}"
    return f"{whose} spent {listed(spent)}"


def _endings(slow: Sequence[RequestRecord]) -> str:
    ended = Counter(call.outcome for call in slow if call.outcome is not Outcome.COMPLETED)
    if not ended:
        return ""
    if len(slow) == 1:
        return f" (it ended as {in_words(slow[0].outcome)})"
    outcomes = [f"{n:,} ended as {in_words(outcome)}" for outcome, n in sorted(ended.items())]
    return f" (of these, {listed(outcomes)})"
