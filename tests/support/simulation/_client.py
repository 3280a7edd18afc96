"""
An application and its client library: requests with stages, calls, attempts and streams.

The application stamps what latspan would stamp, and the stamps are turned into timelines by
latspan's own functions.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from latspan._model.segments import Outcome, ReportedTimings
from latspan._model.timeline import Attempt, CallObservation, Reads
from latspan._model.wire import ChunkKind
from support.simulation._kernel import Event, Kernel, Process, Slots, ns
from support.simulation._scenario import Scenario
from support.simulation._server import Replica, Sequence

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Sequence as Many

    from numpy.random import Generator

_ATTEMPTS: Final = 4
_REFUSED_MS: Final = 15.0


@dataclass(slots=True)
class CallMade:
    """
    A call that has ended.

    Args:
        seen: Observation of it.
        prompt: Prompt tokens, cached ones included.
        cached: Prompt tokens from the cache; ``None`` if the server does not report them.
        output: Output tokens, reasoning included.
        reasoning: Reasoning tokens.
        state: State of the server at its arrival, as latspan's scraping records it.
    """

    seen: CallObservation
    prompt: int
    cached: int | None
    output: int
    reasoning: int
    state: Mapping[str, float]


@dataclass(slots=True)
class StageMade:
    """
    A stage that has ended.

    Args:
        name: Its name.
        kind: Its kind.
        start_ns: Its start.
        done_ns: Its end.
    """

    name: str
    kind: str
    start_ns: int
    done_ns: int


@dataclass(slots=True)
class RequestMade:
    """
    A request that has ended.

    Args:
        start_ns: Its start.
        lag_ns: Time between its scheduled and its real start.
        groups: Route, tenant, model and replica.
        calls: Calls in order.
        stages: Stages in order.
        done_ns: Its end.
    """

    start_ns: int
    lag_ns: int
    groups: Mapping[str, str]
    calls: list[CallMade] = field(default_factory=list[CallMade])
    stages: list[StageMade] = field(default_factory=list[StageMade])
    done_ns: int = 0


class Client:
    """
    Client of one application, with a pool of connections.

    Args:
        kernel: The clock.
        scenario: What is simulated.
        random: Source of randomness.
        replicas: Replicas by name.
    """

    def __init__(
        self,
        kernel: Kernel,
        scenario: Scenario,
        random: Generator,
        replicas: Mapping[str, Replica],
    ) -> None:
        self._kernel = kernel
        self._scenario = scenario
        self._random = random
        self._replicas = replicas
        self._pool = Slots(kernel, scenario.pool)
        self._gateway = Slots(kernel, scenario.gateway) if scenario.gateway else None
        self._blocks = self._blocks_until(3_600_000_000_000) if scenario.block_every_s else []

    def request(self, made: RequestMade) -> Process:
        """Make the calls of a request, and its stages around them."""
        scenario, kernel = self._scenario, self._kernel
        made.start_ns = kernel.now
        yield from self._stages(made, after=False)
        if scenario.in_request:
            yield kernel.now + ns(scenario.prepare.draw(self._random))
        for _ in range(scenario.calls_before):
            tokens = max(2, round(scenario.call_tokens.draw(self._random)))
            yield from self._call(made, tokens, 0)
        output = max(2, round(scenario.output.draw(self._random)))
        reasoning = round(scenario.reasoning.draw(self._random))
        yield from self._call(made, output + reasoning, reasoning)
        yield from self._stages(made, after=True)
        made.done_ns = kernel.now

    def _stages(self, made: RequestMade, *, after: bool) -> Process:
        for work in self._scenario.stages:
            if work.after is after:
                start = self._kernel.now
                yield start + ns(work.ms.draw(self._random))
                made.stages.append(StageMade(work.name, work.kind, start, self._kernel.now))

    def _call(self, made: RequestMade, output: int, reasoning: int) -> Process:
        scenario, kernel, random = self._scenario, self._kernel, self._random
        start = kernel.now
        own = 0.5 if scenario.in_request else scenario.prepare.draw(random)
        ready = kernel.now + ns(own)
        yield self._unblocked(ready)
        # Another task ran until the block ended.
        other = kernel.now if kernel.now > ready else None
        attempts: list[Attempt] = []
        prompt = 0
        broken = random.random() < scenario.broken
        for number in range(_ATTEMPTS):
            attempt = Attempt(start_ns=kernel.now)
            attempts.append(attempt)
            yield self._pool.take()
            attempt.pool_acquired_ns = self._unblocked(kernel.now)
            yield attempt.pool_acquired_ns
            yield from self._connect(attempt)
            refused = broken or random.random() < scenario.failing
            prompt = max(1, round(scenario.prompt.draw(random)))
            sent = kernel.now + ns((prompt + scenario.stable) * self._token_ms + 0.05)
            attempt.sent_ns = self._unblocked(sent)
            yield attempt.sent_ns
            if not refused:
                break
            yield self._unblocked(kernel.now + ns(scenario.rtt_ms + _REFUSED_MS * self._noise()))
            attempt.headers_ns = attempt.end_ns = kernel.now
            attempt.status, attempt.error_type = (500, "500") if broken else (429, "429")
            self._pool.give_back()
            if number + 1 == _ATTEMPTS or broken:
                seen = CallObservation(start, kernel.now, Outcome.ERROR, attempts, kernel.now)
                made.calls.append(CallMade(seen, prompt + scenario.stable, None, 0, 0, {}))
                return
            wait = scenario.backoff_ms * 2**number * (0.75 + 0.5 * random.random())
            yield self._unblocked(kernel.now + ns(wait))
        yield from self._answered(made, start, other, attempts, prompt, output, reasoning)

    @property
    def _token_ms(self) -> float:
        return self._scenario.bytes_per_token / self._scenario.bytes_per_ms

    def _noise(self) -> float:
        return float(self._random.lognormal(0, self._scenario.noise))

    def _connect(self, attempt: Attempt) -> Process:
        scenario = self._scenario
        attempt.reused = self._random.random() < scenario.keep_alive
        if attempt.reused:
            return
        connected = self._kernel.now + ns(scenario.rtt_ms * self._noise())
        attempt.connected_ns = self._unblocked(connected)
        secured = attempt.connected_ns + ns(scenario.rtt_ms * scenario.tls_rtts * self._noise())
        attempt.tls_done_ns = self._unblocked(secured)
        yield attempt.tls_done_ns

    def _answered(
        self,
        made: RequestMade,
        start: int,
        other: int | None,
        attempts: list[Attempt],
        prompt: int,
        output: int,
        reasoning: int,
    ) -> Process:
        scenario, kernel, random = self._scenario, self._kernel, self._random
        way = ns(scenario.rtt_ms / 2 * self._noise())
        yield kernel.now + way
        at_gateway = kernel.now
        if self._gateway is not None:
            yield self._gateway.take()
        gateway = kernel.now - at_gateway
        uncached = prompt + (0 if scenario.cached else scenario.stable)
        slow, times = scenario.slow_sequences
        sequence = Sequence(
            Event(kernel),
            prompt=float(uncached),
            context=float(prompt + scenario.stable + output),
            output=output,
            pace=1 / times if slow and random.random() < slow else 1.0,
        )
        self._replicas[made.groups[scenario.by]].submit(sequence)
        yield sequence.done
        if self._gateway is not None:
            self._gateway.give_back()
        back = way + ns(scenario.jitter.draw(random))
        reads, returned = self._read(sequence.tokens, back, reasoning)
        end = reads.end
        assert end is not None
        done = self._unblocked(end[1] + ns(0.02))
        if done > kernel.now:
            yield done
        self._pool.give_back()
        attempts[-1].headers_ns = attempts[-1].end_ns = returned
        attempts[-1].status = 200
        attempts[-1].body_end_ns = end[1]
        seen = CallObservation(
            start,
            done,
            Outcome.COMPLETED,
            attempts,
            returned,
            reads,
            reported=self._reported(sequence, gateway),
            output_tokens=output,
            blocks=self._blocks_between(start, done),
            prepare_other_ns=other,
        )
        cached = None
        if scenario.reported:
            cached = scenario.stable if scenario.cached else 0
        state = {}
        if scenario.reported:
            state = {
                "latspan.kv.usage": min(1.0, sequence.kv_usage),
                "latspan.requests.running": sequence.running,
                "latspan.requests.waiting": sequence.waiting,
            }
        made.calls.append(
            CallMade(seen, prompt + scenario.stable, cached, output, reasoning, state)
        )

    def _read(self, tokens: Many[int], back: int, reasoning: int) -> tuple[Reads, int]:
        """Return the reads of a stream, and the instant at which the stream was handed over."""
        held = ns(self._scenario.consumer_ms)
        if self._scenario.buffered:
            tokens = [tokens[-1] + number * 20_000 for number in range(len(tokens))]
        # Headers arrive with the first token, as servers with a queue send them.
        returned = self._unblocked(tokens[0] + back)
        reads = Reads()
        instant = returned
        stamps = reads.stamps
        for number, token in enumerate(tokens):
            before = instant
            after = max(before + 5_000, token + back)
            if self._blocks:
                after = self._unblocked(after)
            kind = ChunkKind.REASONING if number < reasoning else ChunkKind.VISIBLE
            stamps += (before, after, int(kind))
            instant = after + 8_000
            if held:
                instant += round(held * self._noise())
        end = self._unblocked(max(instant + 5_000, tokens[-1] + back + 200_000))
        reads.end = (instant, end)
        return reads, returned

    def _reported(self, sequence: Sequence, gateway: int) -> tuple[ReportedTimings, ...]:
        scenario = self._scenario
        reports: list[ReportedTimings] = []
        if self._gateway is not None and scenario.gateway_reports and scenario.reported:
            reports.append(ReportedTimings("gateway", gateway_ns=gateway))
        if scenario.reported:
            first, last = sequence.tokens[0], sequence.tokens[-1]
            loading = sequence.loaded - sequence.arrived
            reports.append(
                ReportedTimings(
                    "server",
                    queue_ns=sequence.admitted - sequence.arrived - loading,
                    model_load_ns=loading or None,
                    prefill_ns=first - sequence.admitted,
                    decode_ns=last - first,
                    decode_to_last_token=True,
                )
            )
        return tuple(reports)

    def _blocks_until(self, end: int) -> list[tuple[int, int]]:
        blocks: list[tuple[int, int]] = []
        instant = 0
        while instant < end:
            instant += ns(1e3 * float(self._random.exponential(self._scenario.block_every_s)))
            until = instant + ns(self._scenario.block_ms.draw(self._random))
            blocks.append((instant, until))
            instant = until
        return blocks

    def _unblocked(self, instant: int) -> int:
        """Return when code of the event loop runs that could run at an instant."""
        if not self._blocks:
            return instant
        at = bisect_right(self._blocks, (instant, 1 << 62)) - 1
        return max(instant, self._blocks[at][1]) if at >= 0 else instant

    def _blocks_between(self, start: int, end: int) -> list[tuple[int, int]]:
        if not self._blocks:
            return []
        at = max(0, bisect_right(self._blocks, (start, 0)) - 1)
        until = bisect_right(self._blocks, (end, 0))
        return [block for block in self._blocks[at:until] if block[1] > start]
