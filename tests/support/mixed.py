"""A recording of one program that serves several routes, has background jobs and makes calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from latspan import Kind
from latspan._base.nanoseconds import NS_PER_MS
from latspan._model.recording.folder import RecordFile, begin_recording
from latspan.integrations import Outcome
from latspan.testing import MetricValue, RequestRecord, Segment, Side

_T0_NS: Final = 1_700_000_000_000_000_000
_SERVER_WAIT: Final = "server_wait"


def mixed_records(
    requests: Mapping[str, int], *, jobs: Mapping[str, int], bare: int = 0
) -> Iterator[RequestRecord]:
    """
    Yield finished records, each call before its request.

    The requests of a route alternate between the tenants ``acme`` and ``bolt``, which only the
    request has. Jobs have the attribute ``job``.

    Args:
        requests: Number of served requests by name, for example ``POST /ask``.
        jobs: Number of the program's own requests by name.
        bare: Number of calls outside any request, of the model ``m-2``.
    """
    number = 0
    for name, count in requests.items():
        route = name.partition(" ")[2]
        for index in range(count):
            number += 1
            details = {"tenant": ("acme", "bolt")[index % 2]}
            yield from _pair(number, name, Side.SERVER, {"route": route}, details, index)
    for name, count in jobs.items():
        for index in range(count):
            number += 1
            yield from _pair(number, name, Side.CLIENT, {}, {"job": name}, index, wait_ms=2_000)
    for index in range(bare):
        yield _call(index, 0, {"model": "m-2"}, 50 + index)


def _pair(
    number: int,
    name: str,
    side: Side,
    attributes: Mapping[str, str],
    details: Mapping[str, str],
    index: int,
    wait_ms: int = 100,
) -> Iterator[RequestRecord]:
    # One request in ten waits three times as long for the server.
    wait_ms = wait_ms * (3 if index % 10 == 9 else 1) + index
    call = _call(number, number, {"model": "m-1", **attributes}, wait_ms)
    yield call
    rerank = Segment("rerank", 0, 20 * NS_PER_MS)
    wait = Segment(_SERVER_WAIT, rerank.end_ns, rerank.end_ns + call.duration_ns)
    yield RequestRecord(
        name=name,
        kind=Kind.REQUEST,
        side=side,
        outcome=Outcome.COMPLETED,
        start_epoch_ns=call.start_epoch_ns - rerank.end_ns,
        duration_ns=wait.end_ns,
        segments=(rerank, wait),
        metrics={"duration": MetricValue(wait.end_ns)},
        attributes=attributes,
        details=details,
        reports=(rerank,),
        scope_id=number,
    )


def _call(number: int, parent: int, attributes: Mapping[str, str], wait_ms: int) -> RequestRecord:
    length_ns = wait_ms * NS_PER_MS
    return RequestRecord(
        name=f"chat {attributes['model']}",
        kind=Kind.CALL,
        outcome=Outcome.COMPLETED,
        start_epoch_ns=_T0_NS + number * 1_000 * NS_PER_MS,
        duration_ns=length_ns,
        segments=(Segment(_SERVER_WAIT, 0, length_ns),),
        metrics={"duration": MetricValue(length_ns)},
        attributes=attributes,
        parent_id=parent,
    )


def mixed_recording(
    folder: Path, requests: Mapping[str, int], *, jobs: Mapping[str, int], bare: int = 0
) -> str:
    """Write such records to a folder, and return its path; see :func:`mixed_records`."""
    begin_recording(folder, source="run", conditions={})
    file = RecordFile(folder)
    file.begin()
    for record in mixed_records(requests, jobs=jobs, bare=bare):
        file.append(record)
    file.end()
    return str(folder)
