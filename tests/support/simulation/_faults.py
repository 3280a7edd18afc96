"""
Faults: how each cause changes a scenario, and the segments in which a client sees it.

The names of faults are the causes that a diagnosis should name. A strength of 1 makes the fault the
largest part of the slow requests' time; strengths differ by a factor of up to 4.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from support.simulation._scenario import HEALTHY, Length, Scenario, Work

Change = Callable[[Scenario, float], Scenario]

SERVER_CAUSES: Final = frozenset(
    {
        "under_capacity",
        "bursts",
        "kv_cache",
        "reprocessed_prefix",
        "long_context",
        "slow_prefill",
    }
)
"""Causes that separate queue and prefill, which needs evidence of the server or a calibration."""


@dataclass(frozen=True, slots=True)
class Fault:
    """
    A cause of slow requests.

    Args:
        name: Name of the fault, unique.
        cause: Cause that a diagnosis should name.
        change: Function that puts the fault into a scenario.
        segments: Segments of which one should lead if no server reports times.
        goal: Metric and percentile that it makes worse.
        named: Text that the sentence should contain, for example the slow replica.
    """

    name: str
    cause: str
    change: Change
    segments: frozenset[str]
    goal: str = "p95 duration"
    named: str = ""

    def of(self, strength: float, *, on: Scenario = HEALTHY) -> Scenario:
        """Return a scenario with the fault."""
        return self.change(on, strength)


def noisy(scenario: Scenario) -> Scenario:
    """Return a scenario with twice the variation, and small faults of many kinds."""
    return replace(
        scenario,
        noise=scenario.noise * 2,
        prompt=scenario.prompt._replace(sigma=scenario.prompt.sigma * 1.5),
        output=scenario.output._replace(sigma=scenario.output.sigma * 1.3),
        keep_alive=min(scenario.keep_alive, 0.98),
        failing=max(scenario.failing, 0.005),
        jitter=scenario.jitter
        if scenario.jitter.heavy
        else Length(scenario.jitter.median, 0.5, heavy=0.01, factor=80),
        stall_every_s=scenario.stall_every_s or 60,
        stall_ms=scenario.stall_ms if scenario.stall_every_s else Length(150),
    )


def _stage(scenario: Scenario, work: Work) -> Scenario:
    return replace(scenario, in_request=True, stages=(*scenario.stages, work))


def _prefix(scenario: Scenario, strength: float) -> Scenario:
    return replace(scenario, stable=round(5_000 * strength), cached=False, rate_per_s=0.4)


def _chain(scenario: Scenario, strength: float) -> Scenario:
    """Return a scenario of several calls per request, with as many calls per second as before."""
    before = 2 + round(2 * strength)
    rate_per_s = scenario.rate_per_s / (before + 1)
    return replace(scenario, in_request=True, calls_before=before, rate_per_s=rate_per_s)


def _slow_group(by: str, value: str) -> Change:
    def change(scenario: Scenario, strength: float) -> Scenario:
        return replace(scenario, by=by, slow=(value, 1 + 3 * strength), rate_per_s=2.0)

    return change


def spread_out(scenario: Scenario, strength: float) -> Scenario:
    """Return a scenario in which six parts take about as long."""
    works = (
        Work("search", "retrieve", Length(500 * strength)),
        Work("count_tokens", "tokenize", Length(500 * strength)),
        Work("plan", "plan", Length(500 * strength)),
        Work("moderate", "safety", Length(500 * strength), after=True),
        Work("format", "postprocess", Length(500 * strength), after=True),
    )
    return replace(scenario, in_request=True, stages=works)


_FAULTS: Final = (
    Fault(
        "load_generator",
        "load_generator",
        lambda on, by: replace(on, generator_ms=160 + 20 * by),
        frozenset({"dispatch_lag"}),
    ),
    Fault(
        "blocked_event_loop",
        "blocked_event_loop",
        lambda on, by: replace(on, block_every_s=2.0, block_ms=Length(2_000 * by)),
        frozenset({"event_loop"}),
    ),
    Fault(
        "client_pool",
        "client_pool",
        lambda on, by: replace(on, pool=4, rate_per_s=4.6 + 0.4 * by),
        frozenset({"pool_wait"}),
    ),
    Fault(
        "no_connection_reuse",
        "no_connection_reuse",
        lambda on, by: replace(on, keep_alive=0.0, rtt_ms=100 * by),
        frozenset({"connect", "server_wait"}),
        goal="p95 ttft",
    ),
    Fault(
        "network_distance",
        "network_distance",
        lambda on, by: replace(on, rtt_ms=400 * by),
        frozenset({"server_wait"}),
        goal="p95 ttft",
    ),
    Fault(
        "payload_size",
        "network_distance",
        lambda on, by: replace(on, bytes_per_ms=8 / by),
        frozenset({"send"}),
        goal="p95 ttft",
    ),
    Fault(
        "network_jitter",
        "network_jitter",
        lambda on, by: replace(on, jitter=Length(1.0, 0.3, heavy=0.12, factor=800 * by)),
        frozenset({"server_wait"}),
        goal="p95 ttft",
    ),
    Fault(
        "gateway_queue",
        "gateway_queue",
        lambda on, by: replace(on, gateway=4, rate_per_s=4.7 + 0.4 * by),
        frozenset({"server_wait"}),
    ),
    Fault(
        "retries",
        "retries",
        lambda on, by: replace(on, failing=0.12, backoff_ms=1_500 * by),
        frozenset({"retry"}),
    ),
    Fault(
        "call_chain",
        "call_chain",
        _chain,
        frozenset({"decode"}),
    ),
    Fault(
        "slow_consumer",
        "slow_consumer",
        lambda on, by: replace(on, consumer_ms=45 * by),
        frozenset({"consumer"}),
    ),
    Fault(
        "post_processing",
        "post_processing",
        lambda on, by: _stage(on, Work("format", "postprocess", Length(1_800 * by), after=True)),
        frozenset({"format"}),
    ),
    Fault(
        "safety_check",
        "safety_check",
        lambda on, by: _stage(on, Work("moderate", "safety", Length(1_800 * by), after=True)),
        frozenset({"moderate"}),
    ),
    Fault(
        "client_preparation",
        "client_preparation",
        lambda on, by: replace(on, prepare=Length(1_500 * by)),
        frozenset({"prepare"}),
    ),
    Fault(
        "retrieval",
        "retrieval",
        lambda on, by: _stage(on, Work("search", "retrieve", Length(1_500 * by))),
        frozenset({"search"}),
    ),
    Fault(
        "tokenization",
        "tokenization",
        lambda on, by: _stage(on, Work("count_tokens", "tokenize", Length(500 * by))),
        frozenset({"count_tokens"}),
        goal="p95 time_to_first_visible_token",
    ),
    Fault(
        "own_stage",
        "own_stage",
        lambda on, by: _stage(on, Work("plan", "plan", Length(1_500 * by))),
        frozenset({"plan"}),
    ),
    Fault(
        "cold_start",
        "cold_start",
        lambda on, by: replace(on, session=80, idle_s=120.0, load_ms=4_000 * by, rate_per_s=2.0),
        frozenset({"server_wait"}),
        goal="p95 ttft",
    ),
    Fault(
        "under_capacity",
        "under_capacity",
        lambda on, by: replace(on, replicas=1, slots=4, rate_per_s=5.0 + by),
        frozenset({"server_wait"}),
        goal="p95 ttft",
    ),
    Fault(
        "bursts",
        "bursts",
        lambda on, by: replace(on, replicas=1, slots=6, burst=round(16 * by), rate_per_s=3.0),
        frozenset({"server_wait"}),
        goal="p95 ttft",
    ),
    Fault(
        "kv_cache",
        "kv_cache",
        lambda on, by: replace(
            on,
            replicas=1,
            slots=64,
            kv_tokens=6_000,
            output=Length(90),
            rate_per_s=3.5 + 0.5 * by,
        ),
        frozenset({"server_wait"}),
        goal="p95 ttft",
    ),
    Fault(
        "reprocessed_prefix", "reprocessed_prefix", _prefix, frozenset({"server_wait"}), "p95 ttft"
    ),
    Fault(
        "long_context",
        "long_context",
        lambda on, by: replace(
            on, prompt=Length(600, 0.3, heavy=0.12, factor=8 * by), rate_per_s=1.0
        ),
        frozenset({"server_wait"}),
        goal="p95 ttft",
    ),
    Fault(
        "long_prompts",
        "long_context",
        lambda on, by: replace(on, prompt=Length(5_000 * by, 0.3), rate_per_s=0.4),
        frozenset({"server_wait"}),
        goal="p95 ttft",
    ),
    Fault(
        "slow_prefill",
        "slow_prefill",
        lambda on, by: replace(on, prefill_token_ms=0.6 * by, step_ms=10.0, rate_per_s=0.6),
        frozenset({"server_wait"}),
        goal="p95 ttft",
    ),
    Fault(
        "reasoning",
        "reasoning",
        lambda on, by: replace(on, reasoning=Length(150 * by), rate_per_s=3.0),
        frozenset({"reasoning"}),
        goal="p95 time_to_first_visible_token",
    ),
    Fault(
        "output_length",
        "output_length",
        lambda on, by: replace(on, output=Length(45, 0.3, heavy=0.12, factor=5 * by)),
        frozenset({"decode"}),
    ),
    Fault(
        "slow_model",
        "slow_model",
        lambda on, by: replace(on, step_ms=60 * by, rate_per_s=3.0),
        frozenset({"decode"}),
    ),
    Fault(
        "batch_contention",
        "batch_contention",
        lambda on, by: replace(on, step_sequence_ms=12 * by, slots=64, rate_per_s=2.5, burst=3),
        frozenset({"decode"}),
    ),
    Fault(
        "prefill_interference",
        "prefill_interference",
        lambda on, by: replace(
            on,
            chunk_tokens=0,
            replicas=1,
            rate_per_s=3.0,
            prompt=Length(400, 0.3, heavy=0.03, factor=20 * by),
        ),
        frozenset({"decode"}),
    ),
    Fault(
        "buffering",
        "buffering",
        lambda on, by: replace(on, buffered=True, output=Length(90 * by)),
        frozenset({"server_wait"}),
        goal="p95 ttft",
    ),
    Fault(
        "random_stalls",
        "random_stalls",
        lambda on, by: replace(on, stall_every_s=5.0, stall_ms=Length(900 * by), rate_per_s=2.0),
        frozenset({"decode"}),
    ),
    Fault(
        "slow_decode",
        "slow_decode",
        lambda on, by: replace(on, slow_sequences=(0.12, 1 + 3 * by)),
        frozenset({"decode"}),
    ),
    Fault(
        "slow_replica",
        "slow_group",
        _slow_group("replica", "replica-2"),
        frozenset({"decode", "server_wait"}),
        named="replica-2",
    ),
    Fault(
        "slow_tenant",
        "slow_group",
        _slow_group("tenant", "t3"),
        frozenset({"decode", "server_wait"}),
        named="t3",
    ),
    Fault(
        "slow_route",
        "slow_group",
        _slow_group("route", "/search"),
        frozenset({"decode", "server_wait"}),
        named="/search",
    ),
    Fault(
        "slow_variant",
        "slow_group",
        _slow_group("model", "large"),
        frozenset({"decode", "server_wait"}),
        named="large",
    ),
    Fault(
        "unreliable_service",
        "unreliable_service",
        lambda on, by: replace(on, broken=0.1 + 0.05 * by),
        frozenset(),
    ),
    Fault(
        "not_instrumented",
        "not_instrumented",
        lambda on, _: replace(on, in_request=True, instrumented=False),
        frozenset({"unattributed"}),
    ),
)

FAULTS: Final[Mapping[str, Fault]] = {fault.name: fault for fault in _FAULTS}
"""All faults by name."""


def scenario_of(*faults: tuple[str, float], noise: bool = False) -> Scenario:
    """Return the scenario with faults of given strengths."""
    scenario = HEALTHY
    for name, strength in faults:
        before = scenario.rate_per_s
        scenario = FAULTS[name].change(scenario, strength)
        if scenario is not HEALTHY and len(faults) > 1:
            scenario = replace(scenario, rate_per_s=min(before, scenario.rate_per_s))
    return noisy(scenario) if noise else scenario
