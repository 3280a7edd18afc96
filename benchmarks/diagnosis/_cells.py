"""
Cells of the matrix, and which of them may be used to set a threshold.

The split is by strength, seed and pair: no strength, seed or pair of ``HELD_OUT`` occurs in
``TRAINING``. Thresholds were set on ``TRAINING`` only; the published figures are of ``HELD_OUT``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from support.simulation import FAULTS


class Evidence(StrEnum):
    """What latspan sees of the server."""

    REPORTED = "reported"
    """The server and the gateway report their times."""
    NONE = "none"
    """Nothing but the client's own marks."""
    CALIBRATED = "calibrated"
    """The client's own marks, and a measurement at concurrency 1."""


@dataclass(frozen=True, slots=True)
class Split:
    """
    A part of the cells.

    Args:
        strengths: Strengths of the faults.
        seeds: Seeds of the simulations.
        pairs: Pairs of faults.
        healthy: Seeds of simulations without a fault.
    """

    strengths: tuple[float, ...]
    seeds: tuple[int, ...]
    pairs: tuple[tuple[str, str], ...]
    healthy: range


TRAINING: Final = Split(
    strengths=(0.75, 0.78, 0.8, 0.85, 0.9, 1.0, 1.05, 1.1, 1.15, 1.25, 1.4, 1.45, 1.5, 1.6),
    seeds=(1, 101, 201, 301, 401, 402),
    pairs=(
        ("retrieval", "output_length"),
        ("post_processing", "network_jitter"),
        ("retries", "slow_decode"),
        ("call_chain", "safety_check"),
        ("client_pool", "retrieval"),
        ("tokenization", "reprocessed_prefix"),
        ("no_connection_reuse", "long_context"),
        ("slow_replica", "retries"),
        ("gateway_queue", "post_processing"),
        ("slow_consumer", "retrieval"),
        ("blocked_event_loop", "retries"),
        ("reasoning", "tokenization"),
        ("retrieval", "post_processing"),
        ("own_stage", "output_length"),
        ("retries", "network_jitter"),
        ("call_chain", "retrieval"),
        ("client_pool", "safety_check"),
        ("gateway_queue", "own_stage"),
        ("slow_tenant", "retrieval"),
        ("slow_model", "post_processing"),
        ("slow_consumer", "safety_check"),
        ("load_generator", "retries"),
        ("random_stalls", "safety_check"),
        ("blocked_event_loop", "output_length"),
        ("batch_contention", "own_stage"),
        ("network_distance", "long_prompts"),
        ("payload_size", "network_jitter"),
        ("no_connection_reuse", "reprocessed_prefix"),
        ("buffering", "network_jitter"),
        ("tokenization", "long_context"),
        ("slow_decode", "post_processing"),
        ("slow_route", "call_chain"),
        ("output_length", "retries"),
        ("client_preparation", "slow_decode"),
        ("retrieval", "slow_model"),
        ("own_stage", "network_jitter"),
        ("retries", "call_chain"),
        ("client_preparation", "output_length"),
        ("gateway_queue", "retrieval"),
        ("client_pool", "own_stage"),
        ("slow_route", "post_processing"),
        ("slow_consumer", "own_stage"),
        ("random_stalls", "retrieval"),
        ("blocked_event_loop", "slow_model"),
        ("safety_check", "output_length"),
        ("tokenization", "long_prompts"),
        ("payload_size", "long_prompts"),
        ("network_distance", "long_context"),
        ("no_connection_reuse", "network_jitter"),
        ("slow_decode", "retrieval"),
        ("batch_contention", "safety_check"),
        ("slow_tenant", "own_stage"),
        ("load_generator", "post_processing"),
        ("retries", "slow_consumer"),
        ("buffering", "network_distance"),
        ("client_preparation", "retries"),
        ("retrieval", "network_jitter"),
        ("post_processing", "output_length"),
        ("post_processing", "call_chain"),
        ("own_stage", "retries"),
        ("own_stage", "slow_decode"),
        ("safety_check", "retries"),
        ("safety_check", "slow_replica"),
        ("client_preparation", "slow_model"),
        ("client_preparation", "post_processing"),
        ("gateway_queue", "safety_check"),
        ("client_pool", "post_processing"),
        ("load_generator", "retrieval"),
        ("blocked_event_loop", "slow_consumer"),
        ("blocked_event_loop", "own_stage"),
        ("tokenization", "slow_decode"),
        ("network_distance", "reprocessed_prefix"),
        ("network_jitter", "long_context"),
        ("no_connection_reuse", "long_prompts"),
        ("batch_contention", "retrieval"),
        ("slow_variant", "own_stage"),
        ("output_length", "random_stalls"),
        ("client_pool", "tokenization"),
        ("gateway_queue", "slow_model"),
        ("buffering", "client_pool"),
        ("slow_decode", "slow_replica"),
        ("long_prompts", "post_processing"),
        ("network_jitter", "slow_tenant"),
        ("call_chain", "gateway_queue"),
        ("blocked_event_loop", "slow_replica"),
        ("blocked_event_loop", "long_prompts"),
        ("batch_contention", "network_jitter"),
        ("long_prompts", "reprocessed_prefix"),
        ("own_stage", "retrieval"),
        ("gateway_queue", "payload_size"),
        ("blocked_event_loop", "client_preparation"),
        ("client_pool", "slow_consumer"),
        ("output_length", "reasoning"),
        ("output_length", "slow_variant"),
        ("long_context", "payload_size"),
        ("gateway_queue", "load_generator"),
        ("call_chain", "payload_size"),
        ("buffering", "gateway_queue"),
        ("client_preparation", "safety_check"),
        ("client_pool", "random_stalls"),
        ("batch_contention", "payload_size"),
    ),
    healthy=range(1_000, 1_100),
)
"""
Cells on which thresholds were set and errors of the rules were found. Four parts of them were
held out at first; once their wrong answers had been read, they were no longer new.
"""

HELD_OUT: Final = Split(
    strengths=(0.83, 0.97, 1.3),
    seeds=(501, 502),
    pairs=(
        ("blocked_event_loop", "long_context"),
        ("gateway_queue", "slow_decode"),
        ("retrieval", "safety_check"),
        ("gateway_queue", "reasoning"),
        ("slow_consumer", "slow_variant"),
        ("reasoning", "slow_replica"),
        ("network_jitter", "slow_replica"),
        ("no_connection_reuse", "random_stalls"),
        ("call_chain", "network_distance"),
        ("random_stalls", "reasoning"),
        ("retrieval", "slow_replica"),
        ("load_generator", "slow_consumer"),
        ("no_connection_reuse", "retrieval"),
        ("no_connection_reuse", "slow_replica"),
        ("load_generator", "network_distance"),
        ("no_connection_reuse", "payload_size"),
        ("network_distance", "slow_route"),
        ("payload_size", "slow_decode"),
        ("network_distance", "slow_consumer"),
        ("call_chain", "slow_replica"),
        ("gateway_queue", "network_jitter"),
        ("blocked_event_loop", "random_stalls"),
        ("payload_size", "slow_model"),
        ("gateway_queue", "tokenization"),
    ),
    healthy=range(8_000, 8_100),
)
"""
Cells that were never used to set a threshold or to find an error. The pairs were drawn at random
from those that are not in ``TRAINING``.
"""

CALIBRATED: Final = (
    "under_capacity",
    "bursts",
    "long_context",
    "long_prompts",
    "slow_prefill",
    "reprocessed_prefix",
)
"""Faults that a calibration distinguishes without evidence of the server."""


@dataclass(frozen=True, slots=True)
class Cell:
    """
    One simulated measurement.

    Args:
        faults: Names and strengths of its faults, none for a healthy system.
        seed: Seed of the simulation.
        noise: Whether there are small faults of many kinds.
        evidence: What latspan sees of the server.
    """

    faults: tuple[tuple[str, float], ...]
    seed: int
    noise: bool
    evidence: Evidence = Evidence.REPORTED

    def __str__(self) -> str:
        names = " + ".join(f"{name} x {strength:g}" for name, strength in self.faults)
        noise = ", noise" if self.noise else ""
        return f"{names or 'healthy'}, seed {self.seed}{noise}, evidence {self.evidence}"


def cells_of(split: Split, *, quick: bool = False) -> Iterator[Cell]:
    """Yield the cells of a split; with ``quick``, one seed of each."""
    seeds = split.seeds[:1] if quick else split.seeds
    for seed in seeds:
        for noise in (False, True):
            for name in FAULTS:
                for strength in split.strengths:
                    fault = ((name, strength),)
                    # Other seeds, so that the same random numbers do not occur in two strengths.
                    own = seed * 1_000 + round(strength * 100) + noise
                    if name != "slow_prefill":
                        yield Cell(fault, own, noise)
                        if seed == seeds[0]:
                            yield Cell(fault, own + 10, noise, Evidence.NONE)
                    if name in CALIBRATED:
                        yield Cell(fault, own + 20, noise, Evidence.CALIBRATED)
        for first, second in split.pairs:
            # A weak one with a strong one, and two of about the same strength or the reverse.
            for strengths in zip(split.strengths[:2], split.strengths[:-3:-1], strict=True):
                pair = ((first, strengths[0]), (second, strengths[1]))
                yield Cell(
                    pair, seed * 1_000 + 500 + round(strengths[0] * 100), noise=seed % 2 == 1
                )
    for seed in split.healthy[:: 5 if quick else 1]:
        yield Cell((), seed, noise=seed % 2 == 1)
