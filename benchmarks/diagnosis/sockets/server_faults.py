"""
Faults of model servers.

Each is a configuration of ``_server``, and a load: ``latspan measure``, or a program that calls the
model at planned times. Some come with a calibration: the same prompts, one request at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final

from diagnosis.sockets._fault import Fault, Made
from diagnosis.sockets._load import calibrated, measured, prompts
from diagnosis.sockets._planned import Call, Plan
from diagnosis.sockets._server import ServerConfig, serving

Range = tuple[float, float]
"""Smallest and largest value of a number."""

_LIMIT: Final = "300"
"""Limit of the output tokens of a load, above all answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """
    A load of ``latspan measure``.

    Args:
        options: Options of the command.
        words: Range of the length of the prompts.
        long_share: Share of the prompts that are long.
        long_words: Range of their length.
        shared: Number of words that the prompts of a group begin with.
        groups: Number of these groups.
        prompts: Number of different prompts.
        is_scraped: Whether latspan samples the server's metrics.
    """

    options: tuple[str, ...]
    words: Range = (20, 60)
    long_share: float = 0.0
    long_words: Range = (0, 0)
    shared: int = 0
    groups: int = 1
    prompts: int = 160
    is_scraped: bool = False

    def write(self, path: Path, random: Random) -> Path:
        """Write the prompts to a file."""
        lengths = [
            round(
                random.uniform(
                    *(self.long_words if random.random() < self.long_share else self.words)
                )
            )
            for _ in range(self.prompts)
        ]
        return prompts(path, random, lengths, shared=self.shared, groups=self.groups)


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """
    One or more model servers under a load.

    Args:
        servers: Configurations of the servers; a load goes to the first one.
        load: Load, or plan of a program.
        is_calibrated: Whether a measurement with one request at a time precedes the load.
    """

    servers: tuple[ServerConfig, ...]
    load: Load | Plan
    is_calibrated: bool = False

    def run(self, folder: Path, random: Random) -> Made:
        """Record the requests in a folder."""
        with ExitStack() as parts:
            urls = [parts.enter_context(serving(each)).url for each in self.servers]
            if isinstance(self.load, Plan):
                return Made(self.load.run(urls, folder / "load"))
            temporary = parts.enter_context(TemporaryDirectory())
            file = self.load.write(Path(temporary) / "prompts.jsonl", random)
            options = ("--prompts", str(file), "--max-tokens", _LIMIT)
            calibration = None
            if self.is_calibrated:
                calibration = calibrated(urls[0], folder / "calibration", *options)
            env: dict[str, str] = {}
            if self.load.is_scraped:
                env = {"LATSPAN_SCRAPE_SERVERS": urls[0], "LATSPAN_SCRAPE_INTERVAL_S": "0.1"}
            measured(urls[0], folder / "load", *options, *self.load.options, env=env)
            return Made(folder / "load", calibration)


Build = Callable[[Random], System]
"""Draws the parameters of a system."""


def _server(random: Random, reports: str | tuple[str, ...], **changes: Any) -> ServerConfig:
    """Return a model server with a slot for every request, and short answers."""
    kind = reports if isinstance(reports, str) else random.choice(reports)
    fields: dict[str, Any] = {
        "slots": 32,
        "output_tokens": (9, 14),
        "seed": random.randrange(2**32),
    }
    return ServerConfig(reports=kind, **{**fields, **changes})


def _alone(random: Random, server: ServerConfig, words: Range = (20, 60)) -> System:
    """Return a server under a load of independent requests that it easily sustains."""
    return System(servers=(server,), load=Load(options=_open(random, 20), words=words))


def _open(random: Random, rate: float, *more: str, requests: int = 140) -> tuple[str, ...]:
    """Return the options of an open loop."""
    return (
        *("--rate", f"{rate:.2f}", "--requests", str(requests), "--warmup", "6"),
        *("--seed", str(random.randrange(10_000)), *more),
    )


def _closed(random: Random, users: int, requests: int = 140) -> tuple[str, ...]:
    """Return the options of a closed loop."""
    return (
        *("--concurrency", str(users), "--requests", str(requests)),
        *("--seed", str(random.randrange(10_000))),
    )


def _rate(server: ServerConfig, use: float, words: float = 40) -> float:
    """Return the rate at which requests use a share of a server's slots."""
    low, high = server.output_tokens
    service_ms = (
        server.prefill_ms
        + words * server.prefill_token_ms
        + (low + high) / 2 * server.step_ms / server.pace
    )
    return use * server.slots * 1e3 / service_ms


def _instants(random: Random, rate: float, count: int) -> Iterator[float]:
    """Yield the instants of independent requests."""
    now = 0.2
    for _ in range(count):
        now += random.expovariate(rate)
        yield now


def _picked(random: Random, shares: Mapping[str, float]) -> str:
    """Draw a name with the weights of a mapping."""
    return random.choices(list(shares), list(shares.values()))[0]


# Queues.


def _few_slots(random: Random) -> System:
    server = _server(random, ("llamacpp", "groq"), slots=random.randint(2, 3), step_ms=8)
    rate = _rate(server, random.uniform(0.85, 0.95))
    return System(servers=(server,), load=Load(options=_open(random, rate, requests=160)))


def _few_slots_unreported(random: Random) -> System:
    server = _server(random, "none", slots=random.randint(2, 3), step_ms=random.uniform(6, 8))
    rate = _rate(server, random.uniform(0.85, 0.95))
    return System(servers=(server,), load=Load(options=_open(random, rate)), is_calibrated=True)


def _bursts(random: Random) -> System:
    server = _server(random, ("vllm", "server_timing"), slots=random.randint(3, 4), step_ms=7)
    rate = _rate(server, random.uniform(0.38, 0.5))
    shape = random.uniform(0.06, 0.14)
    options = _open(
        random, rate, "--arrivals", "gamma", "--burstiness", f"{shape:.3f}", requests=130
    )
    return System(servers=(server,), load=Load(options=options))


def _overload(random: Random) -> System:
    server = _server(
        random,
        ("server_timing", "vllm"),
        slots=random.randint(2, 3),
        step_ms=random.uniform(8, 10),
    )
    rate = _rate(server, random.uniform(1.15, 1.7))
    return System(servers=(server,), load=Load(options=_open(random, rate)))


def _overload_unreported(random: Random) -> System:
    server = _server(random, "none", slots=random.randint(1, 2), step_ms=random.uniform(5, 7))
    rate = _rate(server, random.uniform(1.25, 1.9))
    load = Load(options=_open(random, rate, "--arrivals", "constant"))
    return System(servers=(server,), load=load, is_calibrated=True)


def _closed_queue(random: Random) -> System:
    slots = random.randint(2, 4)
    server = _server(random, ("vllm", "llamacpp"), slots=slots, step_ms=random.uniform(5, 8))
    users = round(slots * random.uniform(2.5, 4))
    return System(servers=(server,), load=Load(options=_closed(random, users)))


def _cache_full(random: Random) -> System:
    words = random.uniform(150, 300)
    server = _server(
        random,
        "vllm",
        kv_tokens=round(words * random.uniform(2.4, 4.4)),
        output_tokens=(12, 20),
        prefill_token_ms=0.03,
        step_ms=random.uniform(5, 7),
    )
    places = server.kv_tokens / (words + 20)
    rate = _rate(replace(server, slots=1), random.uniform(0.9, 1.1) * (places - 0.5), words)
    load = Load(
        options=_open(random, rate),
        words=(0.85 * words, 1.15 * words),
        is_scraped=True,
    )
    return System(servers=(server,), load=load)


def _queue_beside_long_prompts(random: Random) -> System:
    server = _server(
        random, "server_timing", slots=2, step_ms=random.uniform(8, 10), prefill_token_ms=0.03
    )
    rate = _rate(server, random.uniform(0.9, 1.0), words=90)
    load = Load(options=_open(random, rate), long_share=0.12, long_words=(300, 500))
    return System(servers=(server,), load=load)


# Prompts.


def _long_prompts(random: Random) -> System:
    server = _server(random, ("llamacpp", "vllm"), prefill_token_ms=random.uniform(0.12, 0.3))
    load = Load(
        options=_open(random, random.uniform(17, 22)),
        long_share=random.uniform(0.13, 0.24),
        long_words=(700, 1400),
    )
    return System(servers=(server,), load=load)


def _long_prompts_unreported(random: Random) -> System:
    server = _server(
        random,
        "none",
        headers=random.choice(("arrival", "first_token")),
        prefill_token_ms=random.uniform(0.15, 0.3),
    )
    load = Load(
        options=_open(random, random.uniform(24, 28)),
        long_share=random.uniform(0.13, 0.24),
        long_words=(600, 1200),
    )
    return System(servers=(server,), load=load, is_calibrated=True)


def _long_prompts_first(random: Random) -> System:
    """Sessions begin with a document in most cases, after a pause of the traffic."""
    calls: list[Call] = []
    now = 0.3
    long_words = random.uniform(600, 1200)
    while len(calls) < 138:
        for turn in range(random.randint(5, 7)):
            is_long = random.random() < (0.7 if turn == 0 else 0.04)
            words = long_words * random.uniform(0.7, 1.3) if is_long else random.uniform(20, 60)
            calls.append(Call(at_s=now, words=round(words), tokens=random.randint(6, 10)))
            now += random.uniform(0.02, 0.04)
        now += random.uniform(0.13, 0.2)
    server = _server(
        random, ("llamacpp", "server_timing"), prefill_token_ms=random.uniform(0.15, 0.3)
    )
    return System(servers=(server,), load=Plan(calls=calls))


def _slow_prefill(random: Random) -> System:
    server = _server(
        random,
        ("llamacpp", "vllm"),
        prefill_token_ms=random.uniform(1.6, 4),
        output_tokens=(6, 9),
    )
    load = Load(options=_open(random, random.uniform(16, 20)), words=(80, 110))
    return System(servers=(server,), load=load)


def _slow_prefill_of_some(random: Random) -> System:
    server = _server(
        random,
        ("vllm", "server_timing"),
        prefill_token_ms=0.15,
        slow_prefill_share=random.uniform(0.13, 0.24),
        slow_prefill=random.uniform(10, 25),
    )
    return _alone(random, server, (60, 120))


def _no_prefix_cache(random: Random) -> System:
    server = _server(random, ("vllm", "llamacpp"), prefill_token_ms=random.uniform(0.1, 0.25))
    load = Load(
        options=_open(random, random.uniform(17, 22)),
        shared=random.randint(600, 1100),
        prompts=40,
    )
    return System(servers=(server,), load=load)


def _no_prefix_cache_of_tenant(random: Random) -> System:
    words = random.randint(700, 1100)
    share = random.uniform(0.15, 0.3)
    calls: list[Call] = []
    for at_s in (0.0, *_instants(random, random.uniform(17, 21), 150)):
        is_first = not calls
        tenant = "acme" if is_first else _picked(random, {"acme": 1 - share, "globex": share})
        calls.append(
            Call(
                at_s=at_s if is_first else at_s + 0.5,
                words=random.randint(20, 60),
                tokens=random.randint(6, 10),
                prefix=tenant,
                prefix_words=words,
                user=tenant,
                attributes={"tenant": tenant},
            )
        )
    server = _server(
        random,
        ("llamacpp", "vllm"),
        prefill_token_ms=random.uniform(0.14, 0.28),
        cache_tokens=20_000,
        group_by="user",
        groups={"globex": {"cache_tokens": 0}},
    )
    return System(servers=(server,), load=Plan(calls=calls))


def _small_prefix_cache(random: Random) -> System:
    words = random.randint(600, 1000)
    server = _server(
        random,
        "llamacpp",
        prefill_token_ms=random.uniform(0.14, 0.28),
        cache_tokens=round(words * random.uniform(2.2, 3.2)),
    )
    load = Load(
        options=_open(random, random.uniform(17, 22), requests=150),
        shared=words,
        groups=random.randint(5, 7),
        prompts=40,
    )
    return System(servers=(server,), load=load)


# Interference.


def _whole_prompts(random: Random) -> System:
    server = _server(
        random,
        ("vllm", "none"),
        prefill_mode="whole",
        prefill_token_ms=random.uniform(0.09, 0.18),
        output_tokens=(12, 20),
    )
    load = Load(
        options=_open(random, random.uniform(15, 18)),
        long_share=random.uniform(0.09, 0.12),
        long_words=(900, 1500),
    )
    return System(servers=(server,), load=load)


def _large_chunks(random: Random) -> System:
    """A large share of the steps has a chunk of a prompt, so the median gap grows too."""
    server = _server(
        random,
        "vllm",
        prefill_mode="chunked",
        chunk_tokens=random.randint(200, 500),
        prefill_token_ms=random.uniform(0.08, 0.105),
        output_tokens=(14, 22),
        step_ms=4.5,
    )
    load = Load(
        options=_open(random, random.uniform(13, 14), requests=125),
        words=(200, 500),
        long_share=random.uniform(0.12, 0.2),
        long_words=(1000, 1400),
    )
    return System(servers=(server,), load=load)


# Decode.


def _contention(random: Random) -> System:
    server = _server(
        random,
        ("vllm", "llamacpp"),
        step_ms=random.uniform(2.5, 3.5),
        step_sequence_ms=random.uniform(2.2, 4),
        output_tokens=(14, 18),
    )
    rate = random.uniform(0.72, 0.82) * 1e3 / (16 * server.step_sequence_ms)
    return System(servers=(server,), load=Load(options=_open(random, rate)))


def _contention_unreported(random: Random) -> System:
    server = _server(
        random,
        "none",
        step_ms=random.uniform(3, 5),
        step_sequence_ms=random.uniform(1.3, 2.6),
        output_tokens=(14, 18),
    )
    load = Load(options=_closed(random, random.randint(6, 11), requests=125))
    return System(servers=(server,), load=load, is_calibrated=True)


def _slow_model(random: Random) -> System:
    server = _server(
        random, ("llamacpp", "vllm", "none"), step_ms=random.uniform(30, 70), output_tokens=(9, 12)
    )
    load = Load(options=_open(random, random.uniform(14, 18)))
    return System(servers=(server,), load=load)


def _slow_replica_unnamed(random: Random) -> System:
    server = _server(
        random,
        ("vllm", "groq"),
        replicas=tuple(
            {"name": "", **({"step_ms": random.uniform(24, 50)} if not place else {})}
            for place in range(random.randint(3, 5))
        ),
        route="random",
    )
    return _alone(random, server)


def _throttled(random: Random) -> System:
    server = _server(
        random,
        ("none", "vllm"),
        throttle_every_ms=random.uniform(1800, 2600),
        throttle_lasts_ms=random.uniform(350, 500),
        throttle=random.uniform(5, 9),
    )
    return _alone(random, server)


def _failed_speculation(random: Random) -> System:
    server = _server(
        random,
        ("vllm", "llamacpp"),
        step_ms=5,
        slow_share=random.uniform(0.14, 0.28),
        slow_pace=random.uniform(0.12, 0.28),
    )
    return _alone(random, server)


def _degrades(random: Random) -> System:
    server = _server(
        random, ("none", "llamacpp"), step_growth=random.uniform(1.2, 2.4), grows_after_s=4.5
    )
    return _alone(random, server)


def _stalls(random: Random) -> System:
    server = _server(
        random,
        ("none", "vllm"),
        stall_share=random.uniform(0.012, 0.025),
        stall_ms=(200, random.uniform(300, 600)),
    )
    return _alone(random, server)


def _pauses(random: Random) -> System:
    server = _server(
        random,
        ("vllm", "llamacpp", "none"),
        pause_every_ms=random.uniform(900, 1400),
        pause_ms=(220, random.uniform(300, 500)),
    )
    return _alone(random, server)


def _long_answers(random: Random) -> System:
    server = _server(
        random,
        ("none", "llamacpp", "server_timing"),
        output_tokens=(7, 11),
        long_share=random.uniform(0.13, 0.24),
        long_factor=random.uniform(4, 8),
    )
    return _alone(random, server)


def _uneven_answers(random: Random) -> System:
    server = _server(
        random, ("vllm", "server_timing_body"), output_sigma=random.uniform(0.75, 1.0), step_ms=5
    )
    return _alone(random, server)


def _long_answers_beside_prefix(random: Random) -> System:
    """The prompts share a beginning that is not cached, but its prefill is short."""
    server = _server(
        random,
        "vllm",
        prefill_token_ms=0.02,
        output_tokens=(7, 11),
        long_share=random.uniform(0.13, 0.24),
        long_factor=random.uniform(5, 9),
    )
    load = Load(options=_open(random, 17), shared=random.randint(250, 450), prompts=40)
    return System(servers=(server,), load=load)


def _long_whole_answers(random: Random) -> System:
    server = _server(
        random,
        ("llamacpp", "server_timing"),
        output_tokens=(8, 12),
        long_share=random.uniform(0.13, 0.24),
        long_factor=random.uniform(5, 9),
    )
    calls = [
        Call(at_s=at_s, words=random.randint(20, 60), tokens=300, streams=False)
        for at_s in _instants(random, 20, 150)
    ]
    return System(servers=(server,), load=Plan(calls=calls))


def _reasoning(random: Random) -> System:
    server = _server(
        random,
        ("none", "vllm"),
        reasoning_tokens=(10, random.uniform(45, 90)),
        output_tokens=(7, 10),
        step_ms=5,
    )
    load = Load(options=_open(random, 17))
    return System(servers=(server,), load=load)


def _effort_of_route(random: Random) -> System:
    share = random.uniform(0.14, 0.28)
    calls: list[Call] = []
    for at_s in _instants(random, 16, 140):
        route = _picked(random, {"/summarize": 1 - share, "/plan": share})
        calls.append(
            Call(
                at_s=at_s,
                words=random.randint(20, 60),
                tokens=random.randint(7, 11),
                effort="high" if route == "/plan" else "low",
                attributes={"route": route},
            )
        )
    tokens = random.uniform(18, 38)
    server = _server(
        random,
        ("none", "llamacpp"),
        reasoning_tokens=(0.8 * tokens, 1.2 * tokens),
        effort=True,
        output_tokens=(0, 0),
        step_ms=10,
    )
    return System(servers=(server,), load=Plan(calls=calls))


# Groups.


def _slow_model_of_three(random: Random) -> System:
    share = random.uniform(0.14, 0.28)
    calls: list[Call] = []
    for at_s in _instants(random, 17, 150):
        model = _picked(random, {"tide-small": 0.45, "tide-fast": 0.4, "tide-large": share})
        calls.append(
            Call(
                at_s=at_s,
                words=random.randint(20, 60),
                tokens=random.randint(9, 13),
                model=model,
            )
        )
    server = _server(
        random,
        ("none", "vllm"),
        models=("tide-small", "tide-fast", "tide-large"),
        group_by="model",
        groups={"tide-large": {"pace": random.uniform(0.12, 0.26)}},
    )
    return System(servers=(server,), load=Plan(calls=calls))


def _quota_of_tenant(random: Random) -> System:
    """One customer may only have one sequence at a time."""
    share = random.uniform(0.3, 0.36)
    calls: list[Call] = []
    for at_s in _instants(random, random.uniform(22, 25), 170):
        tenant = _picked(random, {"acme": 0.4, "initech": 0.6 - share, "globex": share})
        calls.append(
            Call(
                at_s=at_s,
                words=random.randint(20, 60),
                tokens=random.randint(12, 15),
                user=tenant,
                attributes={"tenant": tenant},
            )
        )
    server = _server(
        random,
        ("vllm", "llamacpp"),
        step_ms=random.uniform(7, 8.5),
        output_tokens=(0, 0),
        group_by="user",
        groups={"globex": {"own_slots": 1}},
    )
    return System(servers=(server,), load=Plan(calls=calls))


def _priority(random: Random) -> System:
    """The requests of interactive users wait behind those of a background job."""
    server = _server(
        random,
        ("server_timing", "vllm"),
        slots=4,
        step_ms=random.uniform(11, 14),
        output_tokens=(11, 13),
        policy="priority",
        group_by="user",
        groups={"interactive": {"priority": 1}},
    )
    steady = _rate(server, 0.82)
    seldom = _rate(server, random.uniform(0.13, 0.17))
    arrivals = [("backfill", 0.2 + place / steady) for place in range(round(7 * steady))]
    arrivals += [("interactive", at_s) for at_s in _instants(random, seldom, round(7 * seldom))]
    calls = [
        Call(
            at_s=at_s,
            words=random.randint(20, 60),
            tokens=int(_LIMIT),
            user=tenant,
            attributes={"tenant": tenant},
        )
        for tenant, at_s in arrivals
    ]
    return System(servers=(server,), load=Plan(calls=calls))


def _of_two_servers(random: Random, share: float, slow: ServerConfig) -> System:
    """Return two servers; the program knows which one it sends a request to."""
    calls: list[Call] = []
    for at_s in _instants(random, 18, 150):
        place = int(random.random() < share)
        calls.append(
            Call(
                at_s=at_s,
                words=random.randint(30, 60),
                tokens=random.randint(8, 12),
                server=place,
                attributes={"replica": ("east-1", "east-2")[place]},
            )
        )
    fast = replace(slow, prefill_token_ms=0.05, slots=32)
    return System(servers=(fast, slow), load=Plan(calls=calls))


def _slow_server_of_two(random: Random) -> System:
    slow = _server(
        random,
        ("none", "vllm"),
        output_tokens=(0, 0),
        prefill_token_ms=random.uniform(3, 7),
    )
    return _of_two_servers(random, random.uniform(0.15, 0.3), slow)


def _small_server_of_two(random: Random) -> System:
    """One of two servers has a single slot."""
    slow = _server(
        random,
        ("llamacpp", "server_timing"),
        output_tokens=(0, 0),
        slots=1,
        step_ms=random.uniform(8, 11),
    )
    return _of_two_servers(random, random.uniform(0.38, 0.45), slow)


# Starts.


def _cold_requests(random: Random) -> System:
    server = _server(
        random,
        ("none", "vllm", "llamacpp"),
        cold_requests=random.randint(14, 24),
        cold_ms=(250, random.uniform(400, 900)),
    )
    options = _open(random, random.uniform(16, 20), "--warmup", "0", requests=150)
    return System(servers=(server,), load=Load(options=options))


def _compiles(random: Random) -> System:
    """The first prompt of each range of lengths is slow."""
    server = _server(
        random,
        ("vllm", "llamacpp"),
        compile_tokens=random.randint(8, 10),
        compile_ms=random.uniform(250, 700),
    )
    options = _open(random, random.uniform(16, 20), "--warmup", "0", requests=150)
    return System(servers=(server,), load=Load(options=options, words=(20, 170)))


def _sleeps(random: Random) -> System:
    server = _server(
        random,
        "server_timing",
        idle_ms=random.uniform(110, 150),
        wake_ms=random.uniform(180, 450),
        output_tokens=(6, 9),
    )
    options = _open(random, 16, "--arrivals", "gamma", "--burstiness", "0.2", requests=130)
    return System(servers=(server,), load=Load(options=options))


def _sleeps_unreported(random: Random) -> System:
    server = _server(
        random,
        "none",
        headers=random.choice(("arrival", "first_token")),
        idle_ms=130,
        wake_ms=random.uniform(180, 400),
        output_tokens=(6, 9),
    )
    calls: list[Call] = []
    now = 0.6
    while len(calls) < 130:
        for _ in range(random.randint(10, 14)):
            calls.append(Call(at_s=now, words=random.randint(20, 60), tokens=8))
            now += random.uniform(0.03, 0.05)
        now += random.uniform(0.2, 0.28)
    return System(servers=(server,), load=Plan(calls=calls))


def _swaps_models(random: Random) -> System:
    """Two of four models fit into memory, so a model is loaded now and then."""
    models = ("tide-a", "tide-b", "tide-c", "tide-d")
    calls: list[Call] = []
    now = 0.3
    while len(calls) < 160:
        model = random.choice([each for each in models if not calls or each != calls[-1].model])
        for _ in range(random.randint(14, 22)):
            calls.append(Call(at_s=now, words=random.randint(20, 60), tokens=8, model=model))
            now += random.expovariate(20)
    server = _server(
        random,
        "server_timing",
        models=models,
        resident=2,
        load_ms=random.uniform(200, 450),
    )
    return System(servers=(server,), load=Plan(calls=calls))


# Failures.


def _rejects_above_limit(random: Random) -> System:
    server = _server(
        random,
        ("none", "vllm"),
        slots=2,
        queue_limit=random.randint(1, 2),
        retry_after_s=random.uniform(0.25, 0.6),
    )
    calls = [
        Call(at_s=at_s, words=random.randint(20, 60), tokens=300)
        for at_s in _instants(random, _rate(server, random.uniform(0.7, 0.8)), 150)
    ]
    return System(servers=(server,), load=Plan(calls=calls, retries=8))


def _rejects_at_random(random: Random) -> System:
    server = _server(
        random,
        ("none", "llamacpp"),
        reject_share=random.uniform(0.13, 0.24),
        reject_status=random.choice((429, 503)),
        retry_after_s=random.uniform(0.3, 0.7),
    )
    calls = [
        Call(at_s=at_s, words=random.randint(20, 60), tokens=300)
        for at_s in _instants(random, 18, 150)
    ]
    return System(servers=(server,), load=Plan(calls=calls, retries=6))


def _errors(random: Random) -> System:
    server = _server(
        random,
        ("none", "vllm"),
        error_share=random.uniform(0.13, 0.24),
        error_ms=random.uniform(5, 60),
    )
    return _alone(random, server)


def _hangs(random: Random) -> System:
    server = _server(random, ("none", "llamacpp"), hang_share=random.uniform(0.13, 0.2))
    options = _open(random, 18, "--timeout", f"{random.uniform(0.7, 1.4):.2f}s")
    return System(servers=(server,), load=Load(options=options))


def _broken_streams(random: Random) -> System:
    server = _server(random, ("none", "vllm"), break_share=random.uniform(0.13, 0.24))
    return _alone(random, server)


# Healthy systems.


def _healthy(random: Random) -> System:
    return _alone(random, _server(random, ("none", "llamacpp", "vllm", "server_timing", "groq")))


def _healthy_long_prompts(random: Random) -> System:
    server = _server(random, ("llamacpp", "vllm"), prefill_token_ms=random.uniform(0.05, 0.1))
    load = Load(options=_open(random, 17), long_share=0.15, long_words=(600, 1000))
    return System(servers=(server,), load=load)


def _healthy_speculation(random: Random) -> System:
    """Several tokens leave together, at the pace of single ones."""
    server = _server(
        random, ("none", "vllm"), burst=random.randint(3, 6), output_tokens=(18, 30), step_ms=5
    )
    return _alone(random, server)


def _healthy_replicas(random: Random) -> System:
    server = _server(
        random,
        ("none", "vllm"),
        replicas=tuple(
            {"name": f"node-{place}", "step_ms": random.uniform(5, 7)} for place in range(3)
        ),
        route="turn",
        reasoning_tokens=(3, 6),
    )
    return _alone(random, server)


builds: Final[Mapping[str, Build]] = {
    "server-few-slots": _few_slots,
    "server-few-slots-unreported": _few_slots_unreported,
    "server-bursts": _bursts,
    "server-overload": _overload,
    "server-overload-unreported": _overload_unreported,
    "server-closed-queue": _closed_queue,
    "server-cache-full": _cache_full,
    "server-queue-beside-long-prompts": _queue_beside_long_prompts,
    "server-long-prompts": _long_prompts,
    "server-long-prompts-unreported": _long_prompts_unreported,
    "server-long-prompts-first": _long_prompts_first,
    "server-slow-prefill": _slow_prefill,
    "server-slow-prefill-of-some": _slow_prefill_of_some,
    "server-no-prefix-cache": _no_prefix_cache,
    "server-no-prefix-cache-of-tenant": _no_prefix_cache_of_tenant,
    "server-small-prefix-cache": _small_prefix_cache,
    "server-whole-prompts": _whole_prompts,
    "server-large-chunks": _large_chunks,
    "server-contention": _contention,
    "server-contention-unreported": _contention_unreported,
    "server-slow-model": _slow_model,
    "server-slow-replica-unnamed": _slow_replica_unnamed,
    "server-throttled": _throttled,
    "server-failed-speculation": _failed_speculation,
    "server-degrades": _degrades,
    "server-stalls": _stalls,
    "server-pauses": _pauses,
    "server-long-answers": _long_answers,
    "server-uneven-answers": _uneven_answers,
    "server-long-answers-beside-prefix": _long_answers_beside_prefix,
    "server-long-whole-answers": _long_whole_answers,
    "server-reasoning": _reasoning,
    "server-effort-of-route": _effort_of_route,
    "server-slow-model-of-three": _slow_model_of_three,
    "server-quota-of-tenant": _quota_of_tenant,
    "server-priority": _priority,
    "server-slow-one-of-two": _slow_server_of_two,
    "server-small-one-of-two": _small_server_of_two,
    "server-cold-requests": _cold_requests,
    "server-compiles": _compiles,
    "server-sleeps": _sleeps,
    "server-sleeps-unreported": _sleeps_unreported,
    "server-swaps-models": _swaps_models,
    "server-rejects-above-limit": _rejects_above_limit,
    "server-rejects-at-random": _rejects_at_random,
    "server-errors": _errors,
    "server-hangs": _hangs,
    "server-broken-streams": _broken_streams,
    "server-healthy": _healthy,
    "server-healthy-long-prompts": _healthy_long_prompts,
    "server-healthy-speculation": _healthy_speculation,
    "server-healthy-replicas": _healthy_replicas,
}


def _inject(build: Build, folder: Path, random: Random) -> Made:
    return build(random).run(folder, random)


FAULTS: Final = tuple(Fault(name, partial(_inject, build)) for name, build in builds.items())
"""Faults of the family ``server``."""
