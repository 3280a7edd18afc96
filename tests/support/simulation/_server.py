"""A replica of a model server: a queue, slots, a KV cache, and steps over a batch of sequences."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from support.simulation._kernel import Event, Kernel, Process, ns
from support.simulation._scenario import Scenario

if TYPE_CHECKING:
    from numpy.random import Generator

_IDLE_NS = 30_000_000_000


@dataclass(slots=True)
class Sequence:
    """
    One request inside the server. Instants are nanoseconds of the simulation.

    Args:
        done: Event of its last token.
        prompt: Tokens to process, cached ones excluded.
        context: Tokens that it holds in the KV cache.
        output: Tokens to generate.
        pace: Probability that a step generates its next token.
        arrived: Its arrival.
        loaded: End of loading the model, if it waited for that; otherwise its arrival.
        admitted: Begin of its prefill.
        tokens: Instant of each token.
        kv_usage: Used fraction of the KV cache at its arrival.
        running: Number of sequences in work at its arrival.
        waiting: Number of sequences in the queue at its arrival.
    """

    done: Event
    prompt: float
    context: float
    output: int
    pace: float = 1.0
    arrived: int = 0
    loaded: int = 0
    admitted: int = 0
    tokens: list[int] = field(default_factory=list[int])
    kv_usage: float = 0.0
    running: int = 0
    waiting: int = 0


class Replica:
    """
    A replica with continuous batching.

    Each step processes a part of the prompts in work, and generates one token of each sequence
    whose prompt is processed.

    Args:
        kernel: The clock.
        scenario: Speeds and limits.
        random: Source of noise.
        factor: How many times slower than usual it is.
    """

    def __init__(
        self, kernel: Kernel, scenario: Scenario, random: Generator, factor: float = 1.0
    ) -> None:
        self._kernel = kernel
        self._scenario = scenario
        self._random = random
        self._factor = factor
        self._queue: deque[Sequence] = deque()
        self._prompts: deque[Sequence] = deque()
        self._batch: list[Sequence] = []
        self._held = 0.0
        self._last_ns = -_IDLE_NS
        self._next_stall = self._stall_after(0)
        self._begun = Event(kernel)

    def submit(self, sequence: Sequence) -> None:
        """Add a sequence to the queue."""
        sequence.arrived = self._kernel.now
        sequence.kv_usage = self._held / self._scenario.kv_tokens
        sequence.running = len(self._prompts) + len(self._batch)
        sequence.waiting = len(self._queue)
        self._queue.append(sequence)
        if not self._begun.happened:
            self._begun.happen()

    def steps(self) -> Process:
        """Process sequences for ever."""
        kernel, scenario = self._kernel, self._scenario
        while True:
            if not (self._queue or self._prompts or self._batch):
                self._last_ns = kernel.now
                self._begun = Event(kernel)
                yield self._begun
            loaded = 0
            if scenario.load_ms and kernel.now - self._last_ns > _IDLE_NS:
                loaded = kernel.now + ns(scenario.load_ms * self._noise())
                yield loaded
            self._last_ns = kernel.now
            self._admit(loaded)
            yield kernel.now + ns(self._step_ms() * self._factor)
            if self._next_stall and kernel.now >= self._next_stall:
                yield kernel.now + ns(scenario.stall_ms.draw(self._random))
                self._next_stall = self._stall_after(kernel.now)
            self._generate()

    def _stall_after(self, instant: int) -> int:
        every_s = self._scenario.stall_every_s
        return instant + ns(1e3 * float(self._random.exponential(every_s))) if every_s else 0

    def _noise(self) -> float:
        return float(self._random.lognormal(0, self._scenario.noise))

    def _admit(self, loaded: int) -> None:
        scenario = self._scenario
        while self._queue and len(self._prompts) + len(self._batch) < scenario.slots:
            sequence = self._queue[0]
            others = self._prompts or self._batch
            if others and self._held + sequence.context > scenario.kv_tokens:
                return
            self._queue.popleft()
            self._held += sequence.context
            sequence.loaded = max(sequence.arrived, loaded)
            # The fixed time of a prefill counts as tokens.
            sequence.prompt += scenario.prefill_ms / scenario.prefill_token_ms
            self._prompts.append(sequence)

    def _step_ms(self) -> float:
        """Return the time of the next step, and process a part of the prompts in it."""
        scenario = self._scenario
        took = 0.0
        if self._batch:
            took += scenario.step_ms + scenario.step_sequence_ms * (len(self._batch) - 1)
        room = float(scenario.chunk_tokens or 1e9)
        while self._prompts and room > 0:
            sequence = self._prompts[0]
            if not sequence.admitted:
                sequence.admitted = self._kernel.now
            part = min(room, sequence.prompt)
            sequence.prompt -= part
            room -= part
            took += part * scenario.prefill_token_ms
            if sequence.prompt > 0:
                break
            self._prompts.popleft()
            self._batch.append(sequence)
        return took * self._noise()

    def _generate(self) -> None:
        now, ended = self._kernel.now, False
        for sequence in self._batch:
            if sequence.pace < 1 and sequence.tokens and self._random.random() > sequence.pace:
                continue
            sequence.tokens.append(now)
            ended |= len(sequence.tokens) >= sequence.output
        if not ended:
            return
        for sequence in self._batch:
            if len(sequence.tokens) >= sequence.output:
                self._held -= sequence.context
                sequence.done.happen()
        self._batch = [each for each in self._batch if len(each.tokens) < each.output]
