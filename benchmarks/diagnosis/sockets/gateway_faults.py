"""Faults of gateways between a client and a model server."""

from __future__ import annotations

import math
from random import Random
from typing import Final

from diagnosis.sockets._fault import Fault
from diagnosis.sockets._proxies import Gateway, Link
from diagnosis.sockets._relayed import Build, Relayed, Users, faults, load, server


def _seed(random: Random) -> int:
    return random.randrange(2**32)


def _bursts(random: Random, low: float, high: float) -> tuple[str, ...]:
    """Return the options of arrivals in bursts."""
    return "--arrivals", "gamma", "--burstiness", f"{random.uniform(low, high):.2f}"


def _at_limit(random: Random, at_once: int) -> tuple[str, ...]:
    """Return the options of a steady load a little above what so many requests at once allow."""
    rate = random.uniform(20, 24)
    # A request takes the server about 12 ms, and 6 ms for each token.
    taken_ms = at_once * random.uniform(1.05, 1.25) / rate * 1000
    tokens = round((taken_ms - 12) / 6)
    return load(random, rate, tokens=(tokens, tokens))


def _queue_reported(random: Random) -> Relayed:
    at_once = random.randint(2, 5)
    return Relayed(
        server(random, random.choice(("llamacpp", "vllm", "server_timing_body"))),
        (Gateway(at_once=at_once, reports="server_timing"),),
        _at_limit(random, at_once),
    )


def _queue_unreported(random: Random) -> Relayed:
    at_once = random.randint(2, 5)
    return Relayed(
        server(random, random.choice(("vllm", "groq"))),
        (Gateway(at_once=at_once),),
        _at_limit(random, at_once),
        is_calibrated=True,
    )


def _places_of_others(random: Random) -> Relayed:
    at_once = random.randint(4, 7)
    others_ms = random.uniform(300, 900)
    return Relayed(
        server(random, "vllm"),
        (
            Gateway(
                at_once=at_once,
                others_ms=others_ms,
                others_per_s=(at_once - 1.5) / others_ms * 1000,
                seed=_seed(random),
            ),
        ),
        load(random, random.uniform(16, 20), tokens=(4, 8)),
    )


def _one_lookup_at_once(random: Random) -> Relayed:
    lookup_ms = random.uniform(32, 62)
    return Relayed(
        server(random, random.choice(("none", "llamacpp", "vllm"))),
        (Gateway(lookup_ms=lookup_ms, lookups_at_once=1, reports="litellm"),),
        load(random, random.uniform(1.05, 1.25) / lookup_ms * 1000),
    )


def _bucket_delays_bursts(random: Random) -> Relayed:
    rate = random.uniform(15, 22)
    return Relayed(
        server(random, "vllm"),
        (Gateway(rate_per_s=rate * random.uniform(1.1, 1.3), burst=random.randint(1, 3)),),
        load(random, rate, *_bursts(random, 0.12, 0.3)),
    )


def _bucket_refuses(random: Random) -> Relayed:
    return Relayed(
        server(random, random.choice(("none", "llamacpp", "vllm"))),
        (Gateway(rate_per_s=random.uniform(18, 24), burst=random.randint(2, 4), refuses=True),),
        Users(
            "sdk_tasks.py",
            {
                "steps": [{"call": {"tokens": (6, 12)}}],
                "users": random.randint(8, 11),
                "requests": 124,
                "think_ms": (200, 450),
                "client": {"retries": 20},
                "seed": _seed(random),
            },
        ),
    )


def _refuses_some(random: Random) -> Relayed:
    return Relayed(
        server(random, random.choice(("none", "vllm"))),
        (Gateway(refused_share=random.uniform(0.12, 0.3), seed=_seed(random)),),
        load(random, random.uniform(17, 24)),
    )


def _buffers_responses(random: Random) -> Relayed:
    return Relayed(
        server(random, random.choice(("llamacpp", "vllm"))),
        (Gateway(buffers_kb=math.inf),),
        load(random, random.uniform(16, 20), tokens=(35, 80)),
    )


def _flushes_rarely(random: Random) -> Relayed:
    flush_ms = random.uniform(220, 480)
    # A response lasts for two or three intervals.
    tokens = round(random.uniform(2.0, 3.0) * flush_ms / 6)
    return Relayed(
        server(random, random.choice(("llamacpp", "vllm", "groq"))),
        (Gateway(flush_ms=flush_ms),),
        load(random, random.uniform(16, 19), tokens=(tokens, tokens)),
    )


def _buffers_kilobytes(random: Random) -> Relayed:
    kilobytes = random.uniform(4, 10)
    # A token takes about 0.2 kB.
    tokens = round(random.uniform(1.6, 2.6) * kilobytes / 0.2)
    return Relayed(
        server(random, random.choice(("llamacpp", "server_timing_body"))),
        (Gateway(buffers_kb=kilobytes),),
        load(random, random.uniform(16, 19), tokens=(tokens, tokens)),
    )


def _server_asleep(random: Random) -> Relayed:
    return Relayed(
        server(random, random.choice(("vllm", "server_timing_body"))),
        (Gateway(asleep_after_ms=random.uniform(100, 220), wake_ms=random.uniform(400, 900)),),
        load(random, random.uniform(17, 22), *_bursts(random, 0.08, 0.14), tokens=(4, 8)),
    )


def _dead_server(random: Random) -> Relayed:
    return Relayed(
        server(random, "vllm"),
        (Gateway(try_timeout_ms=random.uniform(250, 700)),),
        load(random, random.uniform(16, 22)),
        ways=(*(Link() for _ in range(random.randint(1, 3))), Link(is_dead=True)),
    )


def _dead_server_reported(random: Random) -> Relayed:
    return Relayed(
        server(random, random.choice(("none", "server_timing", "groq"))),
        (
            Gateway(
                try_timeout_ms=random.uniform(250, 700),
                reports=random.choice(("litellm", "server_timing")),
            ),
        ),
        load(random, random.uniform(16, 22), "--arrivals", "constant"),
        ways=(*(Link() for _ in range(random.randint(1, 3))), Link(is_dead=True)),
    )


def _connects_upstream(random: Random) -> Relayed:
    return Relayed(
        server(random, random.choice(("llamacpp", "server_timing_body"))),
        (Gateway(upstream_connect_ms=random.uniform(100, 240)),),
        load(random, random.uniform(22, 26)),
        is_calibrated=True,
    )


def _renews_credential(random: Random) -> Relayed:
    return Relayed(
        server(random, random.choice(("none", "llamacpp", "vllm"))),
        (
            Gateway(
                refresh_every_ms=random.uniform(900, 1600),
                refresh_ms=random.uniform(300, 650),
                reports="server_timing",
            ),
        ),
        load(random, random.uniform(17, 24)),
    )


def _scans_prompts(random: Random) -> Relayed:
    return Relayed(
        server(random, random.choice(("none", "vllm"))),
        (Gateway(lookup_ms_per_kb=random.uniform(80, 200), reports="litellm"),),
        load(random, random.uniform(16, 20), words=(50, 90)),
    )


def _of_models(
    random: Random,
    gateway: Gateway,
    *ways: Link,
    users: int,
    tokens: tuple[int, int] = (8, 14),
) -> Relayed:
    """Return users of two models, of which one has a route of its own."""
    steps = [
        {"call": {"tokens": tokens, "model": model}, "only": {"route": route}}
        for route, model in (("chat", "m-small"), ("report", "m-large"))
    ]
    weight = random.uniform(0.18, 0.3)
    return Relayed(
        server(random, random.choice(("llamacpp", "vllm"))),
        (gateway,),
        Users(
            "sdk_tasks.py",
            {
                "steps": steps,
                "users": users,
                "requests": 150,
                "think_ms": (60, 250),
                "labels": {"route": {"chat": 1 - weight, "report": weight}},
                "seed": _seed(random),
            },
        ),
        ways=ways,
    )


def _checks_one_model(random: Random) -> Relayed:
    gateway = Gateway(lookup_ms=random.uniform(280, 700), lookup_model="m-large")
    return _of_models(random, gateway, users=random.randint(7, 10))


def _model_far_away(random: Random) -> Relayed:
    far = Link(one_way_ms=random.uniform(140, 320))
    gateway = Gateway(server_of_model={"m-small": 0, "m-large": 1})
    return _of_models(random, gateway, far, users=random.randint(7, 10))


def _starves_one_model(random: Random) -> Relayed:
    gateway = Gateway(at_once=2, last_model="m-large", reports="server_timing")
    return _of_models(random, gateway, users=random.randint(9, 14), tokens=(12, 18))


def _stops_at_times(random: Random) -> Relayed:
    stop_ms = random.uniform(150, 350)
    return Relayed(
        server(random, random.choice(("llamacpp", "vllm"))),
        (
            Gateway(
                blocks_every_ms=stop_ms * random.uniform(2.5, 4.5),
                blocks_ms=(0.7 * stop_ms, 1.3 * stop_ms),
                seed=_seed(random),
            ),
        ),
        load(random, random.uniform(17, 20), tokens=(12, 18)),
    )


def _paces_output(random: Random) -> Relayed:
    return Relayed(
        server(random, "vllm"),
        (Gateway(pace_ms=random.uniform(30, 70)),),
        load(random, random.uniform(16, 20), tokens=(10, 18)),
    )


def _healthy_gateway(random: Random) -> Relayed:
    return Relayed(
        server(random, random.choice(("llamacpp", "vllm"))),
        (Gateway(at_once=32, lookup_ms=random.uniform(2, 6), reports="server_timing"),),
        load(random, random.uniform(14, 20)),
    )


def _healthy_balancer(random: Random) -> Relayed:
    return Relayed(
        server(random, random.choice(("none", "server_timing_body"))),
        (Gateway(tls=True, lookup_ms=random.uniform(1, 4), reports="envoy"),),
        load(random, random.uniform(14, 20)),
        ways=(Link(one_way_ms=random.uniform(1, 3)),),
    )


_BUILDS: Final[dict[str, Build]] = {
    "gateway-queue-reported": _queue_reported,
    "gateway-queue-unreported": _queue_unreported,
    "gateway-places-of-others": _places_of_others,
    "gateway-one-lookup-at-once": _one_lookup_at_once,
    "gateway-bucket-delays-bursts": _bucket_delays_bursts,
    "gateway-bucket-refuses": _bucket_refuses,
    "gateway-refuses-some": _refuses_some,
    "gateway-buffers-responses": _buffers_responses,
    "gateway-flushes-rarely": _flushes_rarely,
    "gateway-buffers-kilobytes": _buffers_kilobytes,
    "gateway-server-asleep": _server_asleep,
    "gateway-dead-server": _dead_server,
    "gateway-dead-server-reported": _dead_server_reported,
    "gateway-connects-upstream": _connects_upstream,
    "gateway-renews-credential": _renews_credential,
    "gateway-scans-prompts": _scans_prompts,
    "gateway-checks-one-model": _checks_one_model,
    "gateway-model-far-away": _model_far_away,
    "gateway-starves-one-model": _starves_one_model,
    "gateway-stops-at-times": _stops_at_times,
    "gateway-paces-output": _paces_output,
    "gateway-healthy": _healthy_gateway,
    "gateway-healthy-balancer": _healthy_balancer,
}

FAULTS: Final[tuple[Fault, ...]] = faults(_BUILDS)
"""Faults of gateways, and healthy ones."""
