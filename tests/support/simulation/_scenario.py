"""What is simulated: a load, an application, a network, a gateway and a model server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from numpy.random import Generator


class Length(NamedTuple):
    """
    Distribution of a number of tokens or of a time: lognormal.

    Args:
        median: Median.
        sigma: Standard deviation of the logarithm.
        heavy: Probability of a value that is ``factor`` times as large.
        factor: The factor.
    """

    median: float
    sigma: float = 0.3
    heavy: float = 0.0
    factor: float = 1.0

    def draw(self, random: Generator) -> float:
        """Return a value."""
        value = self.median * float(random.lognormal(0, self.sigma)) if self.median else 0.0
        return value * self.factor if self.heavy and random.random() < self.heavy else value


class Work(NamedTuple):
    """
    A stage of the application.

    Args:
        name: Name of the stage.
        kind: Kind of the stage.
        ms: Its duration.
        after: Whether it follows the last call, instead of preceding it.
    """

    name: str
    kind: str
    ms: Length
    after: bool = False


_PREPARE: Final = Length(3.0)
_CALL_TOKENS: Final = Length(25.0)
_NONE: Final = Length(0.0)
_JITTER: Final = Length(1.0)
_PROMPT: Final = Length(600.0)
_OUTPUT: Final = Length(45.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """
    All parameters of a simulation. The defaults describe a healthy system at a moderate load.

    Args:
        requests: Number of requests.
        rate_per_s: Arrivals per second, as a Poisson process.
        burst: Number of requests that arrive together.
        session: Number of requests after which the load is idle for a while; 0 never.
        idle_s: Length of that time.
        generator_ms: CPU time of the load generator per request; 0 if it is not a load test.
        in_request: Whether the application opens a request around its calls.
        prepare: Application time before a call in ms, apart from stages.
        stages: Stages of the application.
        calls_before: Number of calls before the last one, one after another.
        call_tokens: Output tokens of these calls.
        instrumented: Whether calls are instrumented.
        transport: Whether the transport reports its events.
        consumer_ms: Application time per chunk.
        block_every_s: Mean time between blocks of the event loop; 0 for none.
        block_ms: Length of a block.
        pool: Number of connections of the client.
        keep_alive: Probability that a connection can be reused.
        rtt_ms: Round trip time.
        tls_rtts: Round trips of a TLS handshake.
        jitter: Additional network time in ms per response; its ``heavy`` values are the jitter.
        bytes_per_ms: Bandwidth of the client's uplink.
        bytes_per_token: Size of the request per prompt token.
        failing: Probability that an attempt is refused and is retried.
        backoff_ms: Wait before the first retry, doubled for each further one.
        broken: Probability that a call fails in the end.
        gateway: Number of requests that the gateway forwards at a time; 0 without a gateway.
        gateway_reports: Whether the gateway reports its time.
        buffered: Whether a proxy delivers streams whole.
        replicas: Number of replicas.
        by: Attribute that selects the replica; ``replica`` is a random one.
        slow: Value of that attribute whose replica is slow, and how many times.
        slots: Number of sequences that a replica processes at a time.
        kv_tokens: Tokens of the KV cache of a replica.
        prefill_ms: Fixed time of a prefill.
        prefill_token_ms: Time of a prefill per uncached token.
        chunk_tokens: Prompt tokens per step of a replica; 0 for whole prompts at a time.
        step_ms: Time of a decode step of one sequence.
        step_sequence_ms: Additional time per further sequence of the batch.
        slow_sequences: Probability that a sequence is decoded slowly, and how many times.
        stall_every_s: Mean time between pauses of a replica; 0 for none.
        stall_ms: Length of a pause.
        load_ms: Time of loading the model after an idle time; 0 if it stays loaded.
        prompt: Prompt tokens.
        stable: Tokens at the start of each prompt that are the same in all.
        cached: Whether the server keeps these in its cache.
        output: Visible output tokens.
        reasoning: Reasoning tokens.
        reported: Whether the server reports its times.
        noise: Relative random variation of every time.
    """

    requests: int = 500
    rate_per_s: float = 5.0
    burst: int = 1
    session: int = 0
    idle_s: float = 60.0
    generator_ms: float = 0.0
    in_request: bool = False
    prepare: Length = _PREPARE
    stages: tuple[Work, ...] = ()
    calls_before: int = 0
    call_tokens: Length = _CALL_TOKENS
    instrumented: bool = True
    transport: bool = True
    consumer_ms: float = 0.0
    block_every_s: float = 0.0
    block_ms: Length = _NONE
    pool: int = 100
    keep_alive: float = 0.99
    rtt_ms: float = 4.0
    tls_rtts: float = 2.0
    jitter: Length = _JITTER
    bytes_per_ms: float = 12_500.0
    bytes_per_token: float = 5.0
    failing: float = 0.0
    backoff_ms: float = 500.0
    broken: float = 0.0
    gateway: int = 0
    gateway_reports: bool = True
    buffered: bool = False
    replicas: int = 3
    by: str = "replica"
    slow: tuple[str, float] = ("", 1.0)
    slots: int = 16
    kv_tokens: int = 200_000
    prefill_ms: float = 15.0
    prefill_token_ms: float = 0.15
    chunk_tokens: int = 128
    step_ms: float = 10.0
    step_sequence_ms: float = 0.2
    slow_sequences: tuple[float, float] = (0.0, 1.0)
    stall_every_s: float = 0.0
    stall_ms: Length = _NONE
    load_ms: float = 0.0
    prompt: Length = _PROMPT
    stable: int = 0
    cached: bool = True
    output: Length = _OUTPUT
    reasoning: Length = _NONE
    reported: bool = True
    noise: float = 0.1


HEALTHY: Final = Scenario()
"""A system without a fault."""
