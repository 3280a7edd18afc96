"""
Runner of one step: sends each request when it is due, and accounts for every one of them.

**Open loop.** Requests are sent on their schedule and never wait for earlier ones. If the caller
limits the number in flight, a request may wait for a free place; that wait is dispatch lag. It
counts in every metric from the scheduled time, but is not caused by the generator.

**Closed loop.** Each user sends the next request when the last one has ended. The users begin one
after the other, because users that begin together stay together: their requests would arrive in
bursts that no application has.

**End.** A step is over when its last measured request has ended, or when it is interrupted. Then
the requests of the drain are cancelled. A measured request that an interrupt cancels is *cut*: it
is neither a success nor a failure of the server, so it is listed and not counted.

The runner has one thread, one event loop and one clock; a measured function may run in threads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Final, Protocol

from latspan import semconv
from latspan._base.nanoseconds import NS_PER_S
from latspan._live.operations import with_attributes
from latspan._live.otel.spans import AttributeValue
from latspan._load._generator_load import GeneratorLoad
from latspan._load._plan import LoadStep
from latspan._load._progress import Progress, RequestResult
from latspan._model.goals import LoadSettings
from latspan._model.recording.folder import StepAccount
from latspan._model.segments import Phase

_DEFAULT_LOAD: Final = LoadSettings()
_PERCENTILES: Final = (50, 99)

_SATURATED: Final = 0.9
"""Fraction of the offered rate below which the throughput indicates saturation."""

_GROWTH: Final = 1.5
"""Least ratio of the median wait of the last third to that of the first third at saturation."""


class Sender(Protocol):
    """Sends the requests of a measurement."""

    async def send(self, index: int) -> RequestResult:
        """
        Send the request with that index, and return when it has ended, however it ended.

        Raises:
            asyncio.CancelledError: The runner has cancelled it.
        """
        ...


@dataclass(slots=True)
class _Account:
    """Instants and lags of the measured requests in nanoseconds, and the indexes of cut ones."""

    due_ns: list[int] = field(default_factory=list[int])
    start_ns: list[int] = field(default_factory=list[int])
    own_lag_ns: list[int] = field(default_factory=list[int])
    ended_ns: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    """Due time and end of each request that has ended, in the order of the ends."""
    ended: int = 0
    cut: list[int] = field(default_factory=list[int])


class StepRunner:
    """
    Runner of one step, on the running event loop.

    Args:
        step: The step.
        sender: Sends the requests.
        now: Clock, monotonic nanoseconds; that of the recorded requests.
        progress: Receives what happens, for a display.
        number: Number of the step in a ladder; ``None`` if there is only one.
        first_index: Index of the first request, unique in the measurement.
        load: Settings of every request.
        ramp_ns: Time over which the users of a closed loop begin.
    """

    def __init__(
        self,
        step: LoadStep,
        sender: Sender,
        *,
        now: Callable[[], int],
        progress: Progress,
        number: int | None = None,
        first_index: int = 0,
        load: LoadSettings = _DEFAULT_LOAD,
        ramp_ns: int = 0,
    ) -> None:
        self._step = step
        self._sender = sender
        self._now = now
        self._progress = progress
        self._number = number
        self._first_index = first_index
        maximum = load.max_in_flight
        self._places = None if maximum is None else asyncio.Semaphore(maximum)
        self._ramp_ns = ramp_ns
        self._load = GeneratorLoad(now)
        self._over = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._account = _Account()
        self._next = 0
        self._sent = dict.fromkeys(Phase, 0)
        self._all_begun = False
        self._failure: BaseException | None = None
        self.was_interrupted = False
        """Whether the step was interrupted before its last measured request had ended."""

    @property
    def is_open(self) -> bool:
        """Whether the step is an open loop."""
        return self._step.schedule.is_open

    def interrupt(self) -> None:
        """End the step now; what was measured so far is recorded, as an interrupted step."""
        self.was_interrupted = not self._over.is_set()
        self._over.set()

    async def run(self) -> None:
        """Run the step to its end; raise the first exception that one of its tasks raised."""
        try:
            if self._step.schedule.is_open:
                self._spawn(self._run_open_loop())
            else:
                users = self._step.schedule.concurrency or 1
                for user in range(users):
                    self._spawn(self._be_a_user(self._ramp_ns * user // users))
            await self._over.wait()
        finally:
            self._generator = self._load.result()
            self._load.stop()
            for task in tuple(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._failure is not None:
            raise self._failure

    async def _run_open_loop(self) -> None:
        offsets = self._step.schedule.offsets_ns
        began_ns = self._now()
        for offset_ns in offsets:
            due_ns = free_ns = began_ns + offset_ns
            while (left_ns := due_ns - self._now()) > 0 and not self._over.is_set():
                await self._sleep(left_ns)
            if self._places is not None and not self._over.is_set():
                await self._places.acquire()
                free_ns = max(due_ns, self._now())
            if self._over.is_set():
                return
            self._spawn(self._send_one(due_ns, free_ns))

    async def _sleep(self, duration_ns: int) -> None:
        """Sleep, but at most until the step is over."""
        try:
            async with asyncio.timeout(duration_ns / NS_PER_S):
                await self._over.wait()
        except TimeoutError:
            pass

    async def _be_a_user(self, begins_after_ns: int) -> None:
        if begins_after_ns:
            await self._sleep(begins_after_ns)
        while not self._over.is_set():
            await self._send_one(None, None)

    def _spawn(self, coroutine: Any) -> None:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failure = self._failure or error
            self._over.set()

    async def _send_one(self, due_ns: int | None, free_ns: int | None) -> None:
        index, now_ns = self._next, self._now()
        phase = self._phase(index, now_ns)
        if self._is_over():
            return
        self._next += 1
        self._sent[phase] += 1
        due_ns = now_ns if due_ns is None else due_ns
        lag_ns = now_ns - due_ns
        if phase is Phase.MEASURED:
            self._account.due_ns.append(due_ns)
            self._account.start_ns.append(now_ns)
            self._account.own_lag_ns.append(now_ns - (now_ns if free_ns is None else free_ns))
            self._all_begun |= len(self._account.start_ns) == self._step.measured
        self._progress.started(phase)
        answer: RequestResult | None = None
        try:
            with with_attributes({}, self._attributes(index, phase, lag_ns)):
                answer = await self._sender.send(self._first_index + index)
        finally:
            if self._places is not None:
                self._places.release()
            self._progress.ended(phase, answer, lag_ns)
            if phase is Phase.MEASURED:
                if answer is None:
                    self._account.cut.append(self._first_index + index)
                else:
                    self._account.ended_ns.append((due_ns, self._now()))
                self._account.ended += 1
            self._is_over()

    def _is_over(self) -> bool:
        """Return whether the step is over, which it is once every measured request has ended."""
        if self._all_begun and self._account.ended == len(self._account.start_ns):
            self._over.set()
        return self._over.is_set()

    def _phase(self, index: int, now_ns: int) -> Phase:
        phase = self._step.phase_of(index)
        if phase is Phase.MEASURED:
            begun = self._account.start_ns
            if not begun:
                self._load.restart()
            elif self._time_is_up(now_ns):
                phase = Phase.DRAIN
        # Do not set `_all_begun` here for the last measured request: it is added to the account
        # only after its phase is determined, so the step would seem to be over before it was sent.
        self._all_begun |= phase is Phase.DRAIN
        return phase

    def _time_is_up(self, now_ns: int) -> bool:
        duration_ns = self._step.duration_ns
        # In an open loop the schedule has been cut to the duration.
        if duration_ns is None or self._step.schedule.is_open:
            return False
        return now_ns - self._account.start_ns[0] >= duration_ns

    def _attributes(self, index: int, phase: Phase, lag_ns: int) -> Mapping[str, AttributeValue]:
        known: dict[str, AttributeValue] = {
            semconv.LATSPAN_LOAD_INDEX: self._first_index + index,
            semconv.LATSPAN_LOAD_PHASE: phase.value,
            semconv.LATSPAN_LOAD_DISPATCH_LAG: lag_ns / NS_PER_S,
        }
        if self._number is not None:
            known[semconv.LATSPAN_LOAD_STEP] = self._number
        return known

    @property
    def throughput_per_s(self) -> float:
        """Measured requests that ended per second."""
        ends = [end for _, end in self._account.ended_ns]
        return _rate_per_s(ends) if len(ends) > 1 and ends[-1] > ends[0] else 0.0

    @property
    def is_saturated(self) -> bool:
        """Whether requests arrived faster than they ended, and waited ever longer."""
        due, ended = self._account.due_ns, self._account.ended_ns
        third = len(ended) // 3
        if not self._step.schedule.is_open or not third or due[-1] == due[0]:
            return False
        waits = [end - due for due, end in sorted(ended)]
        early, late = median(waits[:third]), median(waits[-third:])
        return self.throughput_per_s < _SATURATED * _rate_per_s(due) and late > _GROWTH * early

    def result(self) -> StepAccount:
        """Return the account of the step, for the manifest of the recording."""
        account, step = self._account, self._step
        begun = len(account.start_ns)
        intended = begun if step.measured is None else step.measured
        generator = dict(self._generator)
        has_rate = False
        if step.schedule.is_open and begun:
            generator["dispatch_lag"] = _quantiles_s(account.own_lag_ns)
            has_rate = begun > 1 and account.due_ns[-1] > account.due_ns[0]
        return StepAccount(
            load=step.schedule.conditions(),
            intended=intended,
            unsent=intended - begun,
            cut=tuple(sorted(account.cut)),
            sent={phase.value: number for phase, number in self._sent.items() if number},
            generator=generator,
            interrupted=self.was_interrupted,
            offered_per_s=_rate_per_s(account.due_ns) if has_rate else None,
            reached_per_s=_rate_per_s(account.start_ns) if has_rate else None,
        )


def _rate_per_s(instants_ns: list[int]) -> float:
    return (len(instants_ns) - 1) * NS_PER_S / (instants_ns[-1] - instants_ns[0])


def _quantiles_s(values_ns: list[int]) -> dict[str, float]:
    ordered = sorted(values_ns)
    # By rank: a percentile is one of the values.
    ranks = {f"p{each}": -(-each * len(ordered) // 100) - 1 for each in _PERCENTILES}
    return {name: ordered[rank] / NS_PER_S for name, rank in ranks.items()} | {
        "max": ordered[-1] / NS_PER_S
    }
