"""Over real sockets every segment of every client agrees with what the server wrote down."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final

import pytest

from latspan import Kind, Source
from latspan.testing import RequestRecord, Script, ServedRequest, ServerFlavor
from tests.clients.truth.programs import Program, with_every_program, with_every_program_marked
from tests.clients.truth.site import Site
from tests.clients.truth.situations import Situation
from tests.conftest import Measured
from tests.support.road import Conditions
from tests.support.stillness import when_still

_MS: Final = 1_000_000

_CHATS: Final = 50
_WARM_UP: Final = 3

_LIMIT_MS: Final = 2.0
_LIMIT_ON_THE_WAY_MS: Final = 5.0
"""With TLS and a slow resolver both ends compute, and share the machine's cores for it."""

# Each longer than the limit, so that one which is missing fails; no longer than it must be.
_PLAN: Final[dict[str, Any]] = {"tokens": 3, "queue_ms": 4, "prefill_ms": 4, "gap_ms": 3}
_FINISH_GAP_NS: Final = 3 * _MS
_ON_THE_WAY_S: Final = 0.006

_NEW_CONNECTIONS: Final = Situation(
    name="new connections",
    scripts=(Script.chat(tokens=2, prefill_ms=6, gap_ms=1, flavor="plain"),),
    chats=_CHATS,
    keeps_alive=False,
    conditions=Conditions(secure=True, accepts_after_s=_ON_THE_WAY_S),
    look_up_s=_ON_THE_WAY_S,
)

_Truth = Callable[[ServedRequest], int]

_with_each_program = with_every_program_marked({"openai-aiohttp": [pytest.mark.undisturbed]})
"""The median of this client's ``stream_close`` is nearest to the limit."""


def _kept_alive(dialect: ServerFlavor) -> Situation:
    script = replace(Script.chat(**_PLAN, flavor=dialect), finish_gap_ns=_FINISH_GAP_NS)
    return Situation(name="kept alive", scripts=(script,), chats=_CHATS + _WARM_UP)


def _wait(served: ServedRequest) -> int:
    return served.token_ns[0] - served.accepted_ns


def _decode(served: ServedRequest) -> int:
    return served.token_ns[-1] - served.token_ns[0]


def _close(served: ServedRequest) -> int:
    return _at(served.end_ns) - served.token_ns[-1]


@_with_each_program
def test_with_evidence(program: Program, site: Site, measured: Measured) -> None:
    """Queue, prefill, network, decode and the close, from a server that reports its timings."""
    if not program.hears_timings:
        pytest.skip("its API has no place for what a server reports of itself")
    pairs = _pairs(site, program, ServerFlavor.LLAMA_CPP)

    truths: dict[str, _Truth] = {
        "queue": lambda served: _at(served.headers_ns) - served.accepted_ns,
        "prefill": lambda served: served.token_ns[0] - _at(served.slot_ns),
        "network": lambda _: 0,
        "decode": _decode,
        "stream_close": _close,
    }
    _agree(pairs, truths, measured)


@_with_each_program
def test_without_evidence(program: Program, site: Site, measured: Measured) -> None:
    """The composite wait, the generation, its gaps and pace, from a server that says nothing."""
    if not program.parses_at_once:
        pytest.skip("the SDK's own time for an event is longer than the limit")
    pairs = _pairs(site, program, ServerFlavor.PLAIN)

    _agree(pairs, {"server_wait": _wait, "decode": _decode, "stream_close": _close}, measured)

    gap_errors: list[float] = []
    pace_errors: list[float] = []
    for record, served in pairs:
        truth = [later - earlier for earlier, later in pairwise(served.token_ns)]
        # Where a busy machine had two events come at once, a reader of bytes has one chunk less.
        if len(record.chunk_gaps) == len(truth):
            gap_errors += [
                abs(gap.value - true) / _MS
                for gap, true in zip(record.chunk_gaps, truth, strict=True)
                if gap.source is Source.MEASURED
            ]
        pace = record.metrics.get("time_per_output_token")
        # And where all of them came at once there is no pace.
        if pace is not None:
            pace_errors.append(abs(pace.value - _decode(served) / len(truth)) / _MS)
    assert len(gap_errors) >= _CHATS
    assert len(pace_errors) >= _CHATS * 9 // 10
    assert measured("error of chunk_gap", gap_errors) <= _LIMIT_MS
    assert measured("error of time_per_output_token", pace_errors) <= _LIMIT_MS


@with_every_program
def test_on_the_way(program: Program, site: Site, measured: Measured) -> None:
    """Look-up and handshake of new connections, and the wait behind them."""
    visit = when_still(lambda: site.visit(program, _NEW_CONNECTIONS))

    truths = {
        "tls": [over - reached for reached, over in visit.handshakes_ns],
        "server_wait": [_wait(served) for served in visit.served],
    }
    if program.look_up == "dns":
        truths["dns"] = [over - begun for begun, over in visit.look_ups_ns]
    elif program.look_up == "connect":
        looked_up = zip(visit.look_ups_ns, visit.handshakes_ns, strict=True)
        truths["connect"] = [reached - begun for (begun, _), (reached, _) in looked_up]
    for name, truth in truths.items():
        errors = _errors(visit.records, name, truth)
        assert measured(f"error of {name}", errors) <= _LIMIT_ON_THE_WAY_MS, name


def _pairs(
    site: Site, program: Program, dialect: ServerFlavor
) -> list[tuple[RequestRecord, ServedRequest]]:
    """Return each record beside the server's, without those of the warming up."""
    visit = when_still(lambda: site.visit(program, _kept_alive(dialect)))
    pairs = list(zip(visit.records, visit.served, strict=True))[_WARM_UP:]
    assert len(pairs) == _CHATS
    assert {record.kind for record, _ in pairs} == {Kind.CALL}
    return pairs


def _agree(
    pairs: Sequence[tuple[RequestRecord, ServedRequest]],
    truths: dict[str, _Truth],
    measured: Measured,
) -> None:
    """Hold the median error of each segment."""
    records = [record for record, _ in pairs]
    for name, truth in truths.items():
        errors = _errors(records, name, [truth(served) for _, served in pairs])
        assert measured(f"error of {name}", errors) <= _LIMIT_MS, name


def _errors(records: Iterable[RequestRecord], name: str, truths: Iterable[int]) -> list[float]:
    """Return by how many milliseconds the segment of each record is wrong."""
    return [
        abs(_total(record, name) - true) / _MS for record, true in zip(records, truths, strict=True)
    ]


def _total(record: RequestRecord, name: str) -> int:
    return sum(segment.duration_ns for segment in record.segments if segment.name == name)


def _at(instant_ns: int | None) -> int:
    assert instant_ns is not None
    return instant_ns
