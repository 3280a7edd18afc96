"""
Faults of programs that call a model: of their client library, and of their own work.

Each fault is a model server with free places, a program of ``programs/`` with a setting, and in
some cases a proxy between them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final

from diagnosis.sockets._fault import Fault, Made
from diagnosis.sockets._load import measured, program
from diagnosis.sockets._proxies import CERTIFICATE, Gateway, Link, through
from diagnosis.sockets._server import ServerConfig, serving

_PROGRAMS: Final = Path(__file__).with_name("programs")

_Fields = dict[str, Any]
"""Fields of a step, a call or a setting, as a program reads them."""


@dataclass(frozen=True, slots=True)
class System:
    """
    A program, its model server, and what lies between them.

    Args:
        program: Name of the program's file.
        setting: Setting of the program.
        server: Configuration of the model server.
        proxies: Proxies between the program and the server, the server's neighbour first.
    """

    program: str
    setting: _Fields
    server: ServerConfig
    proxies: tuple[Link | Gateway, ...] = ()

    def run(self, folder: Path) -> Made:
        """Record the program's requests in a folder."""
        with ExitStack() as parts:
            server = url = parts.enter_context(serving(self.server)).url
            for proxy in self.proxies:
                url = parts.enter_context(through(proxy, url))
            variables = {
                "MODEL_URL": f"{url}/v1",
                "SPARE_URL": f"{server}/v1",
                "PROGRAM_SETTING": json.dumps(self.setting),
            }
            if url.startswith("https"):
                variables["SSL_CERT_FILE"] = str(CERTIFICATE)
            program(_PROGRAMS / self.program, folder, **variables)
        return Made(folder)


def _server(random: Random, **changes: Any) -> ServerConfig:
    """Return a model server with a place for every request."""
    fields: _Fields = {
        "slots": 16,
        "reports": random.choice(("none", "llamacpp", "vllm", "server_timing")),
        "seed": random.randrange(2**32),
    }
    return ServerConfig(**{**fields, **changes})


def _call(**changes: Any) -> _Fields:
    """Return a step that calls the model, with an answer of moderate length."""
    call: _Fields = {"words": (20, 60), "tokens": (8, 14)}
    call.update({name: changes.pop(name) for name in list(changes) if name in _CALL})
    return {"call": call, **changes}


_CALL: Final = frozenset(
    ("words", "tokens", "model", "hidden", "chunk_ms", "close_after", "fallback", "body_kb")
)


def _wait(stage: str | None, low: float, high: float, **changes: Any) -> _Fields:
    """Return a step in which the program waits."""
    return {"stage": stage, "ms": (low, high), **changes}


def _spread(random: Random, low: float, high: float) -> tuple[float, float]:
    """Draw the middle of a range, and return the range of 20 % around it."""
    middle = random.uniform(low, high)
    return 0.8 * middle, 1.2 * middle


# Of the client library.


def _small_pool_of_threads(random: Random) -> System:
    return System(
        "sdk_threads.py",
        {
            "steps": [_call(tokens=(10, 18))],
            "users": random.randint(8, 10),
            "requests": 140,
            "think_ms": (5, 40),
            "client": {"connections": random.choice((2, 3))},
        },
        _server(random),
    )


def _small_pool_of_tasks(random: Random) -> System:
    return System(
        "sdk_tasks.py",
        {
            "steps": [_call(tokens=(10, 18))],
            "users": random.randint(10, 14),
            "requests": 150,
            "think_ms": (5, 60),
            "client": {"connections": random.choice((2, 3, 4))},
        },
        _server(random),
    )


def _small_connector(random: Random) -> System:
    return System(
        "aiohttp_tasks.py",
        {
            "steps": [_wait("retrieve", 10, 30), _call()],
            "users": random.randint(10, 14),
            "requests": 150,
            "think_ms": (5, 60),
            "client": {"connections": random.choice((2, 3))},
            "name": "answer",
        },
        _server(random),
    )


def _no_session(random: Random) -> System:
    return System(
        "http_threads.py",
        {
            "steps": [_call()],
            "users": 11,
            "client": {
                "library": "requests",
                "new_for_each": True,
                "names_ms": random.uniform(150, 450),
            },
        },
        _server(random),
    )


def _expired_connections(random: Random) -> System:
    return System(
        "http_threads.py",
        {
            "steps": [_call()],
            "users": 10,
            "think_ms": (150, 300),
            "client": {"idle_s": 0.05, "names_ms": random.uniform(150, 400)},
        },
        _server(random),
        (Link(one_way_ms=random.uniform(2, 8)), Gateway(tls=True)),
    )


def _session_for_each_request(random: Random) -> System:
    return System(
        "aiohttp_tasks.py",
        {
            "steps": [_call()],
            "users": 10,
            "client": {"new_for_each": True, "names_ms": random.uniform(150, 450)},
        },
        _server(random),
    )


def _loop_computes(random: Random) -> System:
    ms = random.uniform(200, 450)
    return System(
        "sdk_tasks.py",
        {
            "steps": [_call()],
            "users": 8,
            "background": [{"every_ms": (0.5 * ms, ms), "ms": (0.8 * ms, 1.2 * ms)}],
        },
        _server(random),
    )


def _loop_sleeps(random: Random) -> System:
    return System(
        "sdk_tasks.py",
        {
            "steps": [_call(), _wait(None, *_spread(random, 28, 58), work="block")],
            "users": 9,
            "requests": 125,
        },
        _server(random),
    )


def _lock_held_in_c(random: Random) -> System:
    ms = random.uniform(200, 450)
    return System(
        "aiohttp_tasks.py",
        {
            "steps": [_call()],
            "users": 8,
            "background": [
                {"every_ms": (0.5 * ms, ms), "ms": (0.8 * ms, 1.2 * ms), "work": "hold"}
            ],
        },
        _server(random),
    )


def _slow_sink(random: Random) -> System:
    return System(
        "http_threads.py",
        {
            "steps": [_call(tokens=(14, 20), chunk_ms=random.uniform(18, 45))],
            "users": 12,
            "requests": 125,
        },
        _server(random),
    )


def _hidden_retries(random: Random) -> System:
    return System(
        "sdk_threads.py",
        {"steps": [_call()], "users": 10, "client": {"retries": 5}},
        _server(random),
        (Gateway(refused_share=random.uniform(0.13, 0.3), seed=random.randrange(2**32)),),
    )


def _rate_limit(random: Random) -> System:
    return System(
        "sdk_tasks.py",
        {
            "steps": [_call()],
            "users": 11,
            "requests": 122,
            "think_ms": (150, 400),
            "client": {"retries": 40},
        },
        _server(random),
        (Gateway(rate_per_s=random.uniform(18, 28), burst=random.randint(1, 4), refuses=True),),
    )


def _short_time_limit(random: Random) -> System:
    long = random.uniform(0.12, 0.25)
    return System(
        "sdk_threads.py",
        {
            "steps": [
                _call(only={"size": "short"}),
                _call(only={"size": "long"}, words=(900, 1400)),
            ],
            "labels": {"size": {"short": 1 - long, "long": long}},
            "client": {"timeout_s": random.uniform(0.15, 0.3), "retries": 0},
        },
        _server(random, prefill_token_ms=0.5, headers="first_token"),
    )


def _own_preparation(random: Random) -> System:
    return System(
        "sdk_threads.py",
        {"steps": [_wait(None, *_spread(random, 350, 750)), _call()], "users": 9, "name": "answer"},
        _server(random),
    )


def _lock_around_client(random: Random) -> System:
    return System(
        "sdk_threads.py",
        {
            "steps": [_call(gate="client")],
            "gates": {"client": random.choice((1, 2))},
            "users": random.randint(7, 9),
            "requests": 125,
            "think_ms": (1, 20),
            "name": "answer",
        },
        _server(random, step_ms=5),
    )


def _own_semaphore(random: Random) -> System:
    return System(
        "sdk_tasks.py",
        {
            "steps": [_call(gate="model", stage="take_turn")],
            "gates": {"model": random.choice((2, 3))},
            "users": random.randint(11, 14),
            "think_ms": (1, 40),
            "name": "answer",
        },
        _server(random),
    )


def _set_up_by_each_worker(random: Random) -> System:
    return System(
        "sdk_threads.py",
        {
            "steps": [_wait(None, *_spread(random, 700, 1500), first=1), _call()],
            "users": 14,
            "requests": 140,
            "name": "answer",
        },
        _server(random),
    )


def _large_body(random: Random) -> System:
    kilobytes = random.randint(60, 180)
    return System(
        "sdk_threads.py",
        {
            "steps": [_call(body_kb=kilobytes)],
            "users": 8,
            "requests": 130,
            "think_ms": (1, 30),
        },
        _server(random, reports="server_timing_body"),
        (Link(up_kb_per_s=kilobytes / random.uniform(0.04, 0.06)),),
    )


def _healthy_tasks(random: Random) -> System:
    return System(
        "sdk_tasks.py",
        {"steps": [_call(tokens=(6, 24))], "users": random.randint(3, 6)},
        _server(random),
    )


def _healthy_threads(random: Random) -> System:
    return System(
        "http_threads.py",
        {
            "steps": [_call(close_after=5, only={"reads": "part"}), _call(only={"reads": "all"})],
            "labels": {"reads": {"part": 0.2, "all": 0.8}},
            "users": random.randint(3, 6),
            "client": {"library": "httpx"},
        },
        _server(random),
    )


def _few_in_flight(folder: Path, random: Random) -> Made:
    """Measure with a load generator that may have fewer requests in flight than arrive."""
    server = _server(random)
    rate = random.uniform(18, 26)
    with serving(server) as running:
        measured(
            running.url,
            folder,
            *("--rate", f"{rate:.1f}", "--requests", "120", "--max-tokens", "20"),
            *("--max-in-flight", str(random.choice((2, 3)))),
        )
    return Made(folder)


# Of the application's own work.


def _assistant(random: Random, *steps: _Fields, **setting: Any) -> System:
    """Return an application of FastAPI with some steps."""
    server = setting.pop("server", {})
    return System("assistant.py", {"steps": steps, **setting}, _server(random, **server))


def _slow_retrieval(random: Random) -> System:
    return _assistant(
        random,
        _wait("auth", 2, 8),
        _wait("retrieve", *_spread(random, 300, 700)),
        _call(),
        users=13,
    )


def _retrieval_slow_for_some(random: Random) -> System:
    share = random.uniform(4, 7)
    return _assistant(
        random,
        _wait("retrieve", 10, 40),
        _wait("rerank", *_spread(random, 450, 1000), kind="retrieve", one_in=share),
        _call(),
    )


def _retrieval_slow_for_tenant(random: Random) -> System:
    return _assistant(
        random,
        _wait("retrieve", 10, 40, only={"tenant": "acme"}),
        _wait("retrieve", 10, 40, only={"tenant": "bolt"}),
        _wait("retrieve", *_spread(random, 400, 1000), only={"tenant": "globex"}),
        _call(),
        labels={"tenant": {"acme": 4, "bolt": 3, "globex": random.uniform(1, 2)}},
    )


def _retrieval_waits_for_threads(random: Random) -> System:
    return System(
        "sdk_tasks.py",
        {
            "steps": [_wait("retrieve", *_spread(random, 30, 60), work="thread"), _call()],
            "threads": 1,
            "users": random.randint(10, 13),
            "requests": 130,
            "think_ms": (1, 30),
            "name": "answer",
        },
        _server(random),
    )


def _slow_tokenization(random: Random) -> System:
    return _assistant(
        random,
        _wait("parse", 2, 10),
        _wait("tokenize", *_spread(random, 300, 700), one_in=random.uniform(1.5, 5)),
        _call(),
        users=13,
    )


def _tokenizer_on_loop(random: Random) -> System:
    return _assistant(
        random,
        _wait("tokenize", *_spread(random, 28, 55), work="compute"),
        _call(),
        users=13,
        requests=125,
    )


def _slow_parsing(random: Random) -> System:
    return _assistant(
        random,
        _wait("parse_upload", *_spread(random, 300, 800), kind="parse"),
        _wait("retrieve", 20, 50),
        _call(),
        users=13,
    )


def _few_sessions_for_auth(random: Random) -> System:
    return _assistant(
        random,
        _wait("auth", *_spread(random, 28, 60), gate="sessions"),
        _call(),
        gates={"sessions": 1},
        users=random.randint(8, 11),
        requests=125,
        think_ms=(1, 30),
    )


def _slow_safety_check(random: Random) -> System:
    return _assistant(
        random,
        _wait("retrieve", 20, 50),
        _call(),
        _wait("moderate", *_spread(random, 300, 700), kind="safety"),
        users=13,
    )


def _slow_post_processing(random: Random) -> System:
    return _assistant(
        random,
        _wait("retrieve", 20, 50),
        _call(),
        _wait(None, *_spread(random, 300, 700)),
        users=13,
    )


def _slow_classification(random: Random) -> System:
    return _assistant(
        random,
        _call(hidden=True, tokens=_spread(random, 70, 130)),
        _wait("retrieve", 10, 30),
        _call(tokens=(6, 10)),
        users=13,
    )


def _many_tool_calls(random: Random) -> System:
    return _assistant(
        random,
        _call(hidden=True, times=(1, random.uniform(5, 9))),
        _call(),
        users=13,
        requests=130,
    )


def _repaired_output(random: Random) -> System:
    return _assistant(
        random,
        _wait("retrieve", 10, 30),
        _call(hidden=True, tokens=(10, 16)),
        _call(hidden=True, tokens=(10, 16), one_in=random.uniform(3, 6), times=(2, 3)),
        _wait("parse", 5, 15),
    )


def _guard_model(random: Random) -> System:
    return _assistant(
        random,
        _call(hidden=True, stage="guard", kind="safety", tokens=_spread(random, 50, 100)),
        _call(tokens=(6, 10)),
        users=13,
    )


def _first_model_hangs(random: Random) -> System:
    system = _assistant(
        random,
        _wait("retrieve", 10, 30),
        _call(fallback="spare"),
        users=13,
        client={"retries": 0, "timeout_s": random.uniform(0.4, 0.9)},
    )
    return replace(system, proxies=(Link(is_dead=True),))


def _slow_model_choice(random: Random) -> System:
    return _assistant(
        random,
        _wait("choose_model", *_spread(random, 300, 700), kind="route"),
        _call(),
        users=13,
    )


def _slow_enrichment(random: Random) -> System:
    return _assistant(
        random,
        _wait("retrieve", 20, 50),
        _wait("enrich", *_spread(random, 350, 800), one_in=random.uniform(1, 5)),
        _call(),
        users=13,
    )


def _no_stage(random: Random) -> System:
    return _assistant(
        random,
        _wait("auth", 3, 10),
        _wait(None, *_spread(random, 250, 600)),
        users=8,
    )


def _slow_users(random: Random) -> System:
    return _assistant(
        random,
        _wait("retrieve", 10, 30),
        _call(tokens=(14, 20)),
        users=13,
        requests=130,
        reader={"buffer": 8192, "pause_ms": random.uniform(4, 8.5), "padding": 20_000},
    )


def _slo_follows(random: Random) -> System:
    return _assistant(
        random,
        _wait("retrieve", 10, 40),
        _wait("retrieve", *_spread(random, 400, 900), one_in=random.uniform(4, 6)),
        _call(),
        slo_ms=400,
        labels={"user.plan": {"free": 3, "pro": 1}},
    )


def _handler_sleeps(random: Random) -> System:
    return _assistant(
        random,
        _wait(None, *_spread(random, 30, 62), work="block"),
        _call(),
        users=13,
        requests=130,
    )


def _feature_flag(random: Random) -> System:
    return _assistant(
        random,
        _wait("retrieve", 20, 40),
        _wait("rerank", *_spread(random, 400, 900), kind="retrieve", only={"flag.rerank": "on"}),
        _call(),
        labels={"flag.rerank": {"on": random.uniform(0.15, 0.3), "off": 0.7}},
    )


def _long_threads(random: Random) -> System:
    return _assistant(
        random,
        _call(only={"route": "/ask"}),
        _call(only={"route": "/thread"}, words=_spread(random, 1200, 2200)),
        labels={"route": {"/ask": 5, "/thread": random.uniform(0.8, 1.5)}},
        server={
            "reports": random.choice(("llamacpp", "vllm", "server_timing")),
            "prefill_token_ms": 0.3,
        },
    )


def _long_reports(random: Random) -> System:
    return _assistant(
        random,
        _call(only={"route": "/ask"}),
        _call(only={"route": "/report"}, tokens=_spread(random, 60, 130)),
        labels={"route": {"/ask": 5, "/report": random.uniform(0.8, 1.5)}},
    )


def _healthy_assistant(random: Random) -> System:
    return _assistant(
        random,
        _wait("auth", 2, 8),
        _wait("retrieve", 20, 60),
        _call(),
        _wait("safety", 5, 20),
        labels={"tenant": {"acme": 3, "bolt": 1}, "route": {"/ask": 2, "/search": 1}},
        users=random.randint(3, 6),
    )


def _healthy_chain(random: Random) -> System:
    return _assistant(
        random,
        _call(hidden=True, tokens=(3, 6)),
        _wait("retrieve", 20, 60),
        _call(),
        slo_ms=250,
        users=random.randint(3, 6),
    )


_SYSTEMS: Final[Mapping[str, Callable[[Random], System]]] = {
    "client-small-pool-of-threads": _small_pool_of_threads,
    "client-small-pool-of-tasks": _small_pool_of_tasks,
    "client-small-aiohttp-connector": _small_connector,
    "client-no-session": _no_session,
    "client-expired-connections": _expired_connections,
    "client-session-for-each-request": _session_for_each_request,
    "client-loop-computes": _loop_computes,
    "client-loop-sleeps": _loop_sleeps,
    "client-lock-held-in-c": _lock_held_in_c,
    "client-slow-sink": _slow_sink,
    "client-hidden-retries": _hidden_retries,
    "client-rate-limit-retry-after": _rate_limit,
    "client-short-time-limit": _short_time_limit,
    "client-own-preparation": _own_preparation,
    "client-lock-around-client": _lock_around_client,
    "client-own-semaphore": _own_semaphore,
    "client-set-up-by-each-worker": _set_up_by_each_worker,
    "client-large-body": _large_body,
    "client-healthy-tasks": _healthy_tasks,
    "client-healthy-threads": _healthy_threads,
    "application-slow-retrieval": _slow_retrieval,
    "application-retrieval-slow-for-some": _retrieval_slow_for_some,
    "application-retrieval-slow-for-tenant": _retrieval_slow_for_tenant,
    "application-retrieval-waits-for-threads": _retrieval_waits_for_threads,
    "application-slow-tokenization": _slow_tokenization,
    "application-tokenizer-on-loop": _tokenizer_on_loop,
    "application-slow-parsing": _slow_parsing,
    "application-few-sessions-for-auth": _few_sessions_for_auth,
    "application-slow-safety-check": _slow_safety_check,
    "application-slow-post-processing": _slow_post_processing,
    "application-slow-classification": _slow_classification,
    "application-many-tool-calls": _many_tool_calls,
    "application-repaired-output": _repaired_output,
    "application-guard-model": _guard_model,
    "application-first-model-hangs": _first_model_hangs,
    "application-slow-model-choice": _slow_model_choice,
    "application-slow-enrichment": _slow_enrichment,
    "application-no-stage": _no_stage,
    "application-slow-users": _slow_users,
    "application-slo-follows": _slo_follows,
    "application-handler-sleeps": _handler_sleeps,
    "application-feature-flag": _feature_flag,
    "application-long-threads": _long_threads,
    "application-long-reports": _long_reports,
    "application-healthy": _healthy_assistant,
    "application-healthy-chain": _healthy_chain,
}


def _inject(build: Callable[[Random], System], folder: Path, random: Random) -> Made:
    system = build(random)
    seed = random.randrange(2**32)
    return replace(system, setting={**system.setting, "seed": seed}).run(folder)


FAULTS: Final = (
    Fault("client-few-in-flight", _few_in_flight),
    *(Fault(name, partial(_inject, build)) for name, build in _SYSTEMS.items()),
)
"""Faults of clients and applications, and healthy ones."""
