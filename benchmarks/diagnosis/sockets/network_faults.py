"""Faults of the network between a client and a model server."""

from __future__ import annotations

from random import Random
from typing import Final

from diagnosis.sockets._fault import Fault
from diagnosis.sockets._proxies import Gateway, Link
from diagnosis.sockets._relayed import Build, Relayed, Users, faults, load, server


def _seed(random: Random) -> int:
    return random.randrange(2**32)


def _tls_way(random: Random, low_ms: float, high_ms: float) -> Link:
    """Return a way over which TCP's handshake takes as long as a packet and its answer."""
    one_way_ms = random.uniform(low_ms, high_ms)
    return Link(one_way_ms=one_way_ms, handshake_ms=2 * one_way_ms)


def _far_away(random: Random) -> Relayed:
    return Relayed(
        server(random, "llamacpp"),
        (Link(one_way_ms=random.uniform(50, 120)),),
        load(random, random.uniform(22, 26)),
        is_calibrated=True,
    )


def _far_away_tls(random: Random) -> Relayed:
    # The warm-up opens the connections, so that few of the measured requests do.
    return Relayed(
        server(random, random.choice(("server_timing_body", "groq"))),
        (Gateway(tls=True), _tls_way(random, 50, 120)),
        load(random, random.uniform(20, 24), "--arrivals", "constant", "--warmup", "25"),
    )


def _far_away_new_connections(random: Random) -> Relayed:
    return Relayed(
        server(random, random.choice(("none", "llamacpp", "vllm"))),
        (Gateway(tls=True), _tls_way(random, 35, 90)),
        load(random, random.uniform(15, 18), "--new-connections", tokens=(6, 10)),
    )


def _closes_connections(random: Random) -> Relayed:
    return Relayed(
        server(random, random.choice(("none", "vllm"))),
        (
            Gateway(tls=True, responses_per_connection=1),
            _tls_way(random, 35, 90),
        ),
        Users(
            "sdk_tasks.py",
            {
                "steps": [{"call": {"tokens": (6, 12)}}],
                "users": random.randint(8, 10),
                "requests": 130,
                "think_ms": (10, 80),
                "seed": _seed(random),
            },
        ),
    )


def _closes_idle_connections(random: Random) -> Relayed:
    return Relayed(
        server(random, random.choice(("llamacpp", "vllm"))),
        (
            Gateway(tls=True, idle_ms=random.uniform(15, 40)),
            Link(accept_ms=random.uniform(35, 50)),
        ),
        load(random, random.uniform(14, 17), tokens=(3, 5)),
    )


def _late_requests(random: Random) -> Relayed:
    late_ms = random.uniform(250, 600)
    return Relayed(
        server(random, "vllm"),
        (
            Link(
                one_way_ms=random.uniform(2, 10),
                late_share=random.uniform(0.1, 0.25),
                late_ms=(0.8 * late_ms, 1.3 * late_ms),
                late_down=False,
                seed=_seed(random),
            ),
        ),
        load(random, random.uniform(16, 22)),
    )


def _lost_packets(random: Random) -> Relayed:
    late_ms = random.uniform(200, 400)
    return Relayed(
        server(random, random.choice(("llamacpp", "vllm"))),
        (
            Link(
                one_way_ms=random.uniform(5, 20),
                late_share=random.uniform(0.02, 0.05),
                late_ms=(late_ms, 1.5 * late_ms),
                seed=_seed(random),
            ),
        ),
        load(random, random.uniform(16, 20), tokens=(14, 22)),
    )


def _congestion(random: Random) -> Relayed:
    return Relayed(
        server(random, random.choice(("vllm", "groq", "server_timing_body"))),
        (
            Link(
                one_way_ms=random.uniform(2, 12),
                weather_every_ms=random.uniform(2200, 3200),
                weather_lasts_ms=random.uniform(500, 1000),
                weather_ms=random.uniform(150, 400),
            ),
        ),
        load(random, random.uniform(16, 22)),
    )


def _pauses(random: Random) -> Relayed:
    return Relayed(
        server(random, random.choice(("server_timing_body", "groq"))),
        (
            Link(
                one_way_ms=random.uniform(2, 12),
                weather_every_ms=random.uniform(1500, 2200),
                weather_lasts_ms=random.uniform(400, 900),
            ),
        ),
        load(random, random.uniform(16, 22), tokens=(14, 22)),
    )


def _narrow_to_client(random: Random) -> Relayed:
    # A token takes about 0.22 kB, and the rest of a response 0.8 kB.
    rate, tokens = random.uniform(18, 22), random.randint(20, 45)
    needed = rate * (tokens * 0.22 + 0.8)
    return Relayed(
        server(random, random.choice(("vllm", "groq"))),
        (Link(down_kb_per_s=needed * random.uniform(0.88, 0.97)),),
        load(random, rate, tokens=(tokens, tokens)),
        is_calibrated=True,
    )


def _narrow_to_server(random: Random) -> Relayed:
    # One prompt in ten is ten times longer, and has half of the bytes.
    return Relayed(
        server(random, "vllm", prefill_token_ms=0.01),
        (Link(up_kb_per_s=random.uniform(70, 150)),),
        load(random, random.uniform(18, 21), words=(200, 280)),
    )


def _handshakes_queue(random: Random) -> Relayed:
    accept_ms = random.uniform(45, 65)
    return Relayed(
        server(random, random.choice(("none", "llamacpp", "vllm"))),
        (Gateway(tls=True), Link(accept_ms=accept_ms)),
        load(random, random.uniform(0.85, 0.95) / accept_ms * 1000, "--new-connections"),
    )


def _sync_sdk_over_tls(random: Random) -> Relayed:
    return Relayed(
        server(random, random.choice(("none", "llamacpp", "server_timing"))),
        (Gateway(tls=True), _tls_way(random, 30, 75)),
        Users(
            "sdk_threads.py",
            {
                "steps": [{"call": {"tokens": (6, 10)}}],
                "users": random.randint(6, 8),
                "requests": 130,
                "think_ms": (10, 60),
                "seed": _seed(random),
            },
        ),
    )


def _clumps(random: Random) -> Relayed:
    return Relayed(
        server(random, random.choice(("llamacpp", "vllm"))),
        (Link(clump_ms=random.uniform(250, 600)),),
        load(random, random.uniform(16, 20), tokens=(70, 140)),
    )


def _falls_asleep(random: Random) -> Relayed:
    return Relayed(
        server(random, random.choice(("vllm", "server_timing_body"))),
        (
            Link(
                one_way_ms=random.uniform(5, 15),
                asleep_after_ms=random.uniform(100, 220),
                wake_ms=random.uniform(400, 900),
            ),
        ),
        load(
            random,
            random.uniform(17, 22),
            *("--arrivals", "gamma", "--burstiness", f"{random.uniform(0.08, 0.14):.2f}"),
            tokens=(4, 8),
        ),
    )


def _two_ways(random: Random) -> Relayed:
    return Relayed(
        server(random, random.choice(("vllm", "groq"))),
        (
            Link(
                one_way_ms=random.uniform(2, 10),
                far_share=random.uniform(0.2, 0.4),
                far_ms=random.uniform(110, 300),
                seed=_seed(random),
            ),
        ),
        load(random, random.uniform(16, 20), "--new-connections"),
    )


def _healthy_region(random: Random) -> Relayed:
    return Relayed(
        server(random, random.choice(("vllm", "groq"))),
        (Gateway(tls=True), _tls_way(random, 3, 10)),
        load(random, random.uniform(14, 20)),
    )


def _healthy_continent(random: Random) -> Relayed:
    return Relayed(
        server(random, "llamacpp"),
        (Link(one_way_ms=random.uniform(15, 30), late_ms=(1, 3), late_share=0.2),),
        load(random, random.uniform(20, 24)),
        is_calibrated=True,
    )


_BUILDS: Final[dict[str, Build]] = {
    "network-far-away": _far_away,
    "network-far-away-tls": _far_away_tls,
    "network-far-away-new-connections": _far_away_new_connections,
    "network-closes-connections": _closes_connections,
    "network-closes-idle-connections": _closes_idle_connections,
    "network-late-requests": _late_requests,
    "network-lost-packets": _lost_packets,
    "network-congestion": _congestion,
    "network-pauses": _pauses,
    "network-narrow-to-client": _narrow_to_client,
    "network-narrow-to-server": _narrow_to_server,
    "network-handshakes-queue": _handshakes_queue,
    "network-sync-sdk-over-tls": _sync_sdk_over_tls,
    "network-clumps": _clumps,
    "network-falls-asleep": _falls_asleep,
    "network-two-ways": _two_ways,
    "network-healthy-region": _healthy_region,
    "network-healthy-continent": _healthy_continent,
}

FAULTS: Final[tuple[Fault, ...]] = faults(_BUILDS)
"""Faults of networks, and healthy ones."""
