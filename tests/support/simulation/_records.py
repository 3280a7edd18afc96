"""Records of simulated requests, as latspan writes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from latspan import semconv
from latspan._model.metrics import MetricValue
from latspan._model.recording import RequestRecord
from latspan._model.recording.folder import RecordFile, begin_recording
from latspan._model.segments import Kind, Outcome, Segment
from latspan._model.timeline import Activity, Attempt, answering, call_timeline, scope_timeline
from latspan._model.tokens import TokenCounts, TokenSource
from support.simulation._client import CallMade, Client, RequestMade
from support.simulation._kernel import Kernel, Process, Slots, ns
from support.simulation._scenario import Scenario
from support.simulation._server import Replica

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.random import Generator

_EPOCH_NS: Final = 1_790_000_000_000_000_000
_ROUTES: Final = ("/chat", "/search", "/summary", "/agent")
_TENANTS: Final = ("t1", "t2", "t3", "t4", "t5", "t6")
_MODELS: Final = ("small", "large")


def requests_of(scenario: Scenario, seed: int) -> list[RequestMade]:
    """Return the requests of a simulation, in the order of their starts."""
    random = np.random.default_rng(seed)
    kernel = Kernel()
    names = _names(scenario)
    slow, times = scenario.slow
    replicas = {
        name: Replica(kernel, scenario, random, times if name == slow else 1.0) for name in names
    }
    client = Client(kernel, scenario, random, replicas)
    made: list[RequestMade] = []
    kernel.run(
        *(replica.steps() for replica in replicas.values()),
        _load(kernel, scenario, random, client, made),
    )
    return made


def _names(scenario: Scenario) -> tuple[str, ...]:
    if scenario.by == "route":
        return _ROUTES
    if scenario.by == "tenant":
        return _TENANTS
    if scenario.by == "model":
        return _MODELS
    return tuple(f"replica-{number + 1}" for number in range(scenario.replicas))


def _load(
    kernel: Kernel,
    scenario: Scenario,
    random: Generator,
    client: Client,
    made: list[RequestMade],
) -> Process:
    """Start requests at their scheduled times."""
    generator = Slots(kernel, 1)
    names = _names(scenario)
    number = 0
    while number < scenario.requests:
        gap = ns(1e3 * scenario.burst * float(random.exponential(1 / scenario.rate_per_s)))
        if scenario.session and number and number % scenario.session == 0:
            gap += ns(1e3 * scenario.idle_s)
        yield kernel.now + gap
        for _ in range(min(scenario.burst, scenario.requests - number)):
            groups = {
                "route": _ROUTES[int(random.integers(len(_ROUTES)))],
                "tenant": _TENANTS[int(random.integers(len(_TENANTS)))],
                "model": _MODELS[int(random.random() < 0.2)],
                "replica": names[int(random.integers(len(names)))],
            }
            request = RequestMade(0, 0, groups)
            made.append(request)
            kernel.wake(_sent(kernel, scenario, random, client, request, generator), kernel.now)
            number += 1


def _sent(
    kernel: Kernel,
    scenario: Scenario,
    random: Generator,
    client: Client,
    request: RequestMade,
    generator: Slots,
) -> Process:
    scheduled = kernel.now
    if scenario.generator_ms:
        yield generator.take()
        yield kernel.now + ns(scenario.generator_ms * float(random.exponential()))
        generator.give_back()
    request.lag_ns = kernel.now - scheduled
    yield from client.request(request)


def records_of(requests: Iterable[RequestMade], scenario: Scenario) -> Iterator[RequestRecord]:
    """Yield the records of requests, those of calls and stages before that of their request."""
    for number, request in enumerate(requests, 1):
        calls = [
            _call_record(call, request, scenario, number if scenario.in_request else 0)
            for call in request.calls
        ]
        if not scenario.in_request:
            yield from calls
            continue
        if scenario.instrumented:
            yield from calls
        stages = list(_stage_records(request, number))
        yield from stages
        yield _request_record(request, calls if scenario.instrumented else [], scenario, number)


def _call_record(
    call: CallMade, request: RequestMade, scenario: Scenario, parent: int
) -> RequestRecord:
    seen = call.seen
    if not scenario.transport:
        seen = replace(seen, attempts=[_without_events(each) for each in seen.attempts])
    timeline = call_timeline(seen)
    known = seen.outcome is Outcome.COMPLETED
    last = answering(seen.attempts)
    details: dict[str, object] = {
        semconv.LATSPAN_ATTEMPT_COUNT: len(seen.attempts),
        semconv.GEN_AI_RESPONSE_MODEL: request.groups["model"],
        semconv.SERVER_ADDRESS: request.groups["replica"],
        semconv.SERVER_PORT: 8000,
        "customer_tier": "free" if request.groups["tenant"] < "t4" else "paid",
        **call.state,
    }
    if last is not None and last.reused is not None and scenario.transport:
        details[semconv.LATSPAN_CONNECTION_REUSED] = last.reused
    if request.lag_ns and not parent:
        details[semconv.LATSPAN_LOAD_DISPATCH_LAG] = request.lag_ns / 1e9
    return RequestRecord(
        name=f"chat {request.groups['model']}",
        kind=Kind.CALL,
        outcome=seen.outcome,
        start_epoch_ns=_EPOCH_NS + seen.start_ns,
        duration_ns=timeline.duration_ns,
        segments=timeline.segments,
        metrics=timeline.metrics,
        chunk_gaps=timeline.chunk_gaps,
        tokens=TokenCounts(
            input=call.prompt,
            cached=call.cached,
            output=call.output,
            reasoning=call.reasoning or None,
            source=TokenSource.PROVIDER,
        )
        if known
        else TokenCounts(),
        attributes=_attributes(request),
        parent_id=parent,
        root_id=parent,
        marks_ns={
            mark.value: instant - timeline.start_ns for mark, instant in timeline.marks.items()
        },
        details=details,
    )


def _without_events(attempt: Attempt) -> Attempt:
    return replace(
        attempt, pool_acquired_ns=None, connected_ns=None, tls_done_ns=None, sent_ns=None
    )


def _attributes(request: RequestMade) -> dict[str, str]:
    groups = request.groups
    return {
        "route": groups["route"],
        "tenant": groups["tenant"],
        "model": groups["model"],
        "provider": "simulated",
    }


def _stage_records(request: RequestMade, number: int) -> Iterator[RequestRecord]:
    for position, stage in enumerate(request.stages):
        length = stage.done_ns - stage.start_ns
        yield RequestRecord(
            name=stage.name,
            kind=Kind.STAGE,
            outcome=Outcome.COMPLETED,
            start_epoch_ns=_EPOCH_NS + stage.start_ns,
            duration_ns=length,
            segments=(Segment(stage.name, 0, length),),
            metrics={"duration": MetricValue(length)},
            scope_id=1_000_000 * (position + 1) + number,
            parent_id=number,
            root_id=number,
            details={semconv.LATSPAN_STAGE_KIND: stage.kind},
        )


def _request_record(
    request: RequestMade, calls: Sequence[RequestRecord], scenario: Scenario, number: int
) -> RequestRecord:
    inside = [
        Activity(
            Kind.CALL,
            call.name,
            call.start_epoch_ns - _EPOCH_NS,
            call.start_epoch_ns - _EPOCH_NS + call.duration_ns,
            segments=call.segments,
            first_visible_ns=_instant(call, "time_to_first_visible_token"),
        )
        for call in calls
    ]
    inside += [
        Activity(Kind.STAGE, stage.name, stage.start_ns, stage.done_ns) for stage in request.stages
    ]
    scope = scope_timeline(
        Activity(Kind.REQUEST, "answer", request.start_ns, request.done_ns, children=list(inside))
    )
    failed = bool(calls) and calls[-1].outcome.failed
    details: dict[str, object] = {}
    if request.lag_ns:
        details[semconv.LATSPAN_LOAD_DISPATCH_LAG] = request.lag_ns / 1e9
    return RequestRecord(
        name="answer",
        kind=Kind.REQUEST,
        outcome=Outcome.ERROR if failed else Outcome.COMPLETED,
        start_epoch_ns=_EPOCH_NS + request.start_ns,
        duration_ns=scope.timeline.duration_ns,
        segments=scope.timeline.segments,
        metrics=scope.timeline.metrics,
        attributes={"route": request.groups["route"], "tenant": request.groups["tenant"]},
        steps=scope.steps,
        segment_steps=scope.segment_steps if scope.steps else (),
        scope_id=number,
        root_id=number,
        details=details,
    )


def _instant(call: RequestRecord, metric: str) -> int | None:
    value = call.metrics.get(metric)
    return None if value is None else round(call.start_epoch_ns - _EPOCH_NS + value.value)


def write_recording(folder: Path, records: Iterable[RequestRecord]) -> None:
    """Write a recording as a process writes it that latspan runs in."""
    begin_recording(folder, source="record_dir")
    file = RecordFile(folder, largest=float("inf"))
    file.begin()
    for record in records:
        file.append(record)
    file.end()
