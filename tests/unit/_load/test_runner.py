"""The runner: when each request is sent, which ones count, and how a step ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from latspan import semconv
from latspan._base.nanoseconds import NS_PER_MS, NS_PER_S
from latspan._live.operations._context import custom_attributes
from latspan._load._plan import LoadStep, cut_to, step_of
from latspan._load._progress import Progress, RequestResult
from latspan._load._runner import StepRunner
from latspan._load._schedule import open_loop
from latspan._model.goals import Arrivals, LoadSettings
from latspan._model.recording.folder import StepAccount
from latspan._model.segments import Outcome, Phase
from latspan.testing import ManualClock
from support.virtual_time import run_virtually

_Service = Callable[[int], Coroutine[Any, Any, None]]


class _Sender:
    """A server in virtual time, which writes down what it was sent."""

    def __init__(self, clock: ManualClock, service: _Service) -> None:
        self._clock = clock
        self._service = service
        self.sent: list[tuple[float, str, float]] = []
        """Start, phase and dispatch lag of each request, in seconds."""
        self.indexes: list[int] = []
        self.cancelled = 0

    async def send(self, index: int) -> RequestResult:
        began_ns = self._clock.monotonic_ns()
        attributes: Any = custom_attributes()
        assert attributes[semconv.LATSPAN_LOAD_INDEX] == index
        self.indexes.append(index)
        self.sent.append(
            (
                round(began_ns / NS_PER_S, 6),
                attributes[semconv.LATSPAN_LOAD_PHASE],
                round(attributes[semconv.LATSPAN_LOAD_DISPATCH_LAG], 6),
            )
        )
        try:
            await self._service(index)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return RequestResult(
            outcome=Outcome.COMPLETED, duration_ns=self._clock.monotonic_ns() - began_ns
        )

    def phases(self) -> dict[str, int]:
        counted = [phase for _, phase, _ in self.sent]
        return {phase: counted.count(phase) for phase in dict.fromkeys(counted)}


def _run(
    step: LoadStep,
    service: _Service,
    *,
    load: LoadSettings | None = None,
    interrupt_at_s: float | None = None,
) -> tuple[_Sender, StepAccount, Progress]:
    clock = ManualClock()
    sender, progress = _Sender(clock, service), Progress(step.measured)

    async def run() -> StepAccount:
        runner = StepRunner(
            step, sender, now=clock.monotonic_ns, progress=progress, load=load or LoadSettings()
        )
        if interrupt_at_s is not None:
            asyncio.get_running_loop().call_later(interrupt_at_s, runner.interrupt)
        await runner.run()
        return runner.result()

    return sender, run_virtually(clock, run()), progress


def _taking(seconds: float) -> _Service:
    async def service(index: int) -> None:
        await asyncio.sleep(seconds)

    return service


def _constant(rate: float, *, warmup: int, requests: int) -> LoadStep:
    return step_of(Arrivals.CONSTANT, rate, warmup=warmup, requests=requests, duration_ns=None)


def _closed(concurrency: int, *, warmup: int, requests: int | None, seconds: float = 0) -> LoadStep:
    duration_ns = round(seconds * NS_PER_S) if seconds else None
    return step_of(
        Arrivals.CLOSED, concurrency, warmup=warmup, requests=requests, duration_ns=duration_ns
    )


def test_an_open_loop_never_waits_for_a_response() -> None:
    """At ten per second, requests that take ten seconds are sent on schedule all the same."""
    sender, result, _ = _run(_constant(10, warmup=0, requests=5), _taking(10))
    assert sender.sent[:5] == [(number / 10, "measured", 0.0) for number in range(5)]
    assert result.offered_per_s == 10
    assert result.reached_per_s == pytest.approx(10)
    assert result.generator["dispatch_lag"]["max"] < 1e-6


def test_the_load_goes_on_until_the_last_measured_request_has_ended() -> None:
    """The drain is sent on schedule too, and what is left of it is cancelled."""
    step = _constant(10, warmup=2, requests=4)
    sender, result, progress = _run(step, _taking(0.25))
    # The last measured request is due at 0.5 s and ends at 0.75 s.
    assert sender.phases() == {"warmup": 2, "measured": 4, "drain": 2}
    assert sender.cancelled == 2
    assert result.sent == {"warmup": 2, "measured": 4, "drain": 2}
    assert (result.intended, result.unsent, result.cut) == (4, 0, ())
    assert (progress.measured, progress.in_flight) == (4, 0)


def test_a_limit_on_the_number_in_flight_makes_requests_late() -> None:
    """The wait for a free place is dispatch lag, but not the generator's own."""
    step = _constant(10, warmup=0, requests=3)
    sender, result, progress = _run(step, _taking(0.3), load=LoadSettings(max_in_flight=1))
    assert sender.sent[:3] == [(0, "measured", 0), (0.3, "measured", 0.2), (0.6, "measured", 0.4)]
    assert result.generator["dispatch_lag"]["max"] == 0
    assert result.reached_per_s == pytest.approx(2 / 0.6)
    assert progress.duration.max_ns == pytest.approx(700 * NS_PER_MS, rel=0.001)


def test_a_closed_loop_keeps_its_number_in_flight() -> None:
    """The next request is sent when one has ended, with no dispatch lag."""
    sender, result, _ = _run(_closed(2, warmup=2, requests=4), _taking(1))
    assert sender.sent[:6] == [
        (0, "warmup", 0), (0, "warmup", 0), (1, "measured", 0), (1, "measured", 0),
        (2, "measured", 0), (2, "measured", 0),
    ]  # fmt: skip
    assert result.sent["measured"] == 4
    assert "dispatch_lag" not in result.generator
    assert result.offered_per_s is None


def test_a_closed_loop_is_kept_full_while_the_last_ones_run() -> None:
    """The other users go on, and what they send is not counted."""

    async def service(index: int) -> None:
        await asyncio.sleep(4.5 if index == 3 else 1)

    sender, result, _ = _run(_closed(2, warmup=0, requests=4), service)
    assert result.sent == {"measured": 4, "drain": 4}
    assert sender.sent[-1][0] == 5


def test_the_users_of_a_closed_loop_begin_one_after_the_other() -> None:
    """So their requests do not arrive in bursts."""
    clock = ManualClock()
    sender = _Sender(clock, _taking(1))

    async def run() -> None:
        step = _closed(4, warmup=4, requests=4)
        await StepRunner(
            step, sender, now=clock.monotonic_ns, progress=Progress(4), ramp_ns=NS_PER_S
        ).run()

    run_virtually(clock, run())
    starts = [start for start, *_ in sender.sent[:8]]
    assert starts == pytest.approx([0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75], abs=1e-4)


def test_a_closed_loop_can_measure_for_a_time() -> None:
    """Requests that begin within it are measured to their end."""
    sender, result, _ = _run(_closed(1, warmup=1, requests=None, seconds=2.5), _taking(1))
    assert sender.phases() == {"warmup": 1, "measured": 3}
    assert result.intended == 3


def test_an_interrupt_keeps_what_was_measured() -> None:
    """Requests in flight are cut: they are neither successes nor failures."""
    step = _constant(1, warmup=0, requests=10)
    sender, result, progress = _run(step, _taking(2.5), interrupt_at_s=4.2)
    assert len(sender.sent) == 5
    assert result.interrupted is True
    assert result.cut == (2, 3, 4)
    assert (result.intended, result.unsent) == (10, 5)
    assert (progress.measured, progress.in_flight) == (2, 0)


def test_an_interrupt_does_not_wait_for_a_free_place() -> None:
    """A server that never answers must not keep the measurement from ending."""
    clock = ManualClock()
    sender = _Sender(clock, _taking(3600))

    async def run() -> StepAccount:
        step = _constant(1, warmup=0, requests=3)
        runner = StepRunner(
            step,
            sender,
            now=clock.monotonic_ns,
            progress=Progress(3),
            load=LoadSettings(max_in_flight=1),
        )
        asyncio.get_running_loop().call_later(5, runner.interrupt)
        await runner.run()
        return runner.result()

    result = run_virtually(clock, run())
    assert clock.monotonic_ns() < 6 * NS_PER_S
    assert (result.cut, result.unsent) == ((0,), 2)


def test_an_error_of_the_sender_ends_the_step() -> None:
    """It is an error of the program, because an unsuccessful request has an answer."""

    async def service(index: int) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        _run(_constant(1, warmup=0, requests=3), service)


def test_a_blocked_generator_sends_late_and_says_so() -> None:
    """A request that is due meanwhile has dispatch lag, and the event loop has lag."""
    clock = ManualClock()

    async def service(index: int) -> None:
        clock.advance(150 * NS_PER_MS)

    sender, progress = _Sender(clock, service), Progress(3)

    async def run() -> StepAccount:
        step = _constant(10, warmup=0, requests=3)
        runner = StepRunner(step, sender, now=clock.monotonic_ns, progress=progress)
        await runner.run()
        return runner.result()

    result = run_virtually(clock, run())
    assert [lag for *_, lag in sender.sent[:3]] == [0, 0.05, 0.1]
    assert result.generator["dispatch_lag"]["max"] == 0.1
    assert result.generator["loop_lag"]["max"] >= 0.1
    assert (result.reached_per_s or 0) < 0.98 * (result.offered_per_s or 0)


def test_saturation_is_found_when_waits_grow() -> None:
    """A server that takes five per second does not take ten."""

    def saturated(rate: float) -> bool:
        clock = ManualClock()
        free = asyncio.Semaphore(1)

        async def service(index: int) -> None:
            async with free:
                await asyncio.sleep(0.2)

        async def run() -> bool:
            step = _constant(rate, warmup=0, requests=30)
            sender = _Sender(clock, service)
            runner = StepRunner(step, sender, now=clock.monotonic_ns, progress=Progress(30))
            await runner.run()
            assert runner.throughput_per_s == pytest.approx(min(rate, 5), rel=0.01)
            return runner.is_saturated

        return run_virtually(clock, run())

    assert [saturated(4), saturated(10)] == [False, True]


def test_indexes_are_unique_in_a_measurement() -> None:
    """A second step begins with an index of its own."""
    clock = ManualClock()
    sender = _Sender(clock, _taking(0.01))

    async def run() -> None:
        for first in (1, 1001):
            step = _constant(10, warmup=0, requests=2)
            await StepRunner(
                step, sender, now=clock.monotonic_ns, progress=Progress(2), first_index=first
            ).run()

    run_virtually(clock, run())
    assert sender.indexes == [1, 2, 1001, 1002]


def test_a_schedule_is_cut_to_what_is_measured() -> None:
    """A duration limits the measured requests, and the drain has as many at most."""
    schedule = open_loop(Arrivals.CONSTANT, 10, 1000)
    step = cut_to(schedule, warmup=5, requests=None, duration_ns=NS_PER_S)
    assert step.measured == 10
    assert len(step.schedule.offsets_ns) == 25
    assert [step.phase_of(index) for index in (4, 5, 14, 15)] == [
        Phase.WARMUP, Phase.MEASURED, Phase.MEASURED, Phase.DRAIN,
    ]  # fmt: skip
