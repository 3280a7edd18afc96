"""
Faults that are put into real parts, and the causes that are right for each.

A fault is a function from a folder to a recording. What is right was decided before the first run,
from what was injected: the name of the cause in the guide, and the segment in which its time is.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from diagnosis.real._delay import delayed
from diagnosis.real._parts import (
    assistant,
    buffering_nginx,
    failing_haproxy,
    llama,
    measured,
    narrow_network,
    queueing_haproxy,
    throttled,
    tls_nginx,
)
from support.tls import CERTIFICATE

_SHORT: Final = ("--prompt-words", "6", "--warmup", "4")
_ONE: Final = ("--concurrency", "1")
_EVEN: Final = ("--body", '{"ignore_eos": true}')

_RULES: Final = " ".join(
    f"Rule {number}: answer briefly, name the source, and never guess a number."
    for number in range(1, 8)
)
"""The same text of some 140 tokens in each prompt."""


@dataclass(frozen=True, slots=True)
class Fault:
    """
    A fault of real parts.

    Args:
        name: What is injected.
        parts: Parts that take part.
        causes: Causes of which one is right.
        segments: Segments of which one must be among the two largest if the answer is a tie.
        inject: Makes a recording in a folder.
    """

    name: str
    parts: str
    causes: frozenset[str]
    segments: frozenset[str]
    inject: Callable[[Path], Path]


def _queue(folder: Path) -> Path:
    with llama(slots=1) as server:
        return measured(
            server.url, folder / "r", "--concurrency", "4", "--requests", "40", *_SHORT,
            "--max-tokens", "16", *_EVEN, variables={"LATSPAN_SCRAPE_SERVERS": server.url},
        )  # fmt: skip


def _long_prompts(folder: Path) -> Path:
    with llama(slots=1) as server:
        return measured(
            server.url, folder / "r", *_ONE, "--requests", "30", "--prompt-words", "50",
            "--warmup", "4", "--max-tokens", "8", *_EVEN,
        )  # fmt: skip


def _long_outputs(folder: Path) -> Path:
    with llama(slots=1) as server:
        return assistant([server.url], folder / "r", "rambles", 50)


def _unstable_prefix(folder: Path) -> Path:
    prompts = folder / "prompts.jsonl"
    lines = [
        json.dumps(
            {
                "messages": [
                    # The fault: the number of the request is before the rules that are the same.
                    {"role": "system", "content": f"Request {number:06d}. {_RULES}"},
                    {"role": "user", "content": f"What is river {number}?"},
                ]
            }
        )
        for number in range(100_000, 100_060)
    ]
    prompts.write_text("\n".join(lines))
    with llama(slots=1) as server:
        return measured(
            server.url, folder / "r", *_ONE, "--requests", "30", "--prompts", str(prompts),
            "--warmup", "4", "--max-tokens", "8", *_EVEN,
        )  # fmt: skip


def _gateway(folder: Path) -> Path:
    with llama(slots=2) as server, queueing_haproxy(server.url, folder) as url:
        return measured(
            url, folder / "r", "--concurrency", "4", "--requests", "40", *_SHORT,
            "--max-tokens", "16", *_EVEN,
        )  # fmt: skip


def _buffering(folder: Path) -> Path:
    with llama(slots=1) as server, buffering_nginx(server.url, folder) as url:
        return assistant([url], folder / "r", "streams", 40)


def _handshakes(folder: Path) -> Path:
    with llama(slots=1) as server, tls_nginx(server.url, folder, delay_s=0.06) as url:
        return measured(
            url, folder / "r", *_ONE, "--requests", "30", "--warmup", "4", *_same(folder),
            "--max-tokens", "2", "--new-connections", "--model", "smollm2-135m",
            variables={"SSL_CERT_FILE": str(CERTIFICATE)},
        )  # fmt: skip


def _distance(folder: Path) -> Path:
    with llama(slots=1) as server, delayed(server.url, 0.2) as url:
        return measured(
            url, folder / "r", *_ONE, "--requests", "30", "--warmup", "4", *_same(folder),
            "--max-tokens", "2",
        )  # fmt: skip


def _same(folder: Path) -> tuple[str, ...]:
    """Return the option for one prompt, which the server has in its cache after the first time."""
    prompts = folder / "prompt.jsonl"
    prompts.write_text(json.dumps({"prompt": "Hi."}))
    return "--prompts", str(prompts)


def _bandwidth(folder: Path) -> Path:
    with narrow_network(folder, kbit_s=24) as network:
        return measured(
            network.url, folder / "r", *_ONE, "--requests", "24", "--warmup", "2", *_same(folder),
            "--max-tokens", "32", *_EVEN, under=network.under,
        )  # fmt: skip


def _slow_replica(folder: Path) -> Path:
    with ExitStack() as parts:
        servers = [parts.enter_context(llama(slots=1)) for _ in range(3)]
        parts.enter_context(throttled(servers[-1].pid, share=0.1))
        return assistant([server.url for server in servers], folder / "r", "none", 45)


def _retries(folder: Path) -> Path:
    with llama(slots=1) as server, failing_haproxy(server.url, folder, percent=30) as url:
        return assistant([url], folder / "r", "none", 50)


def _batches(folder: Path) -> Path:
    with llama(slots=4) as server:
        return measured(
            server.url, folder / "r", "--rate", "1", "--requests", "50", *_SHORT,
            "--max-tokens", "64", *_EVEN, variables={"LATSPAN_SCRAPE_SERVERS": server.url},
        )  # fmt: skip


def _assisted(fault: str, requests: int, *, slots: int = 1) -> Callable[[Path], Path]:
    def inject(folder: Path) -> Path:
        with llama(slots=slots) as server:
            return assistant([server.url], folder / "r", fault, requests)

    return inject


def _one(*names: str) -> frozenset[str]:
    return frozenset(names)


FAULTS: Final = (
    Fault("queue: 4 users, 1 slot", "llama.cpp", _one("under_capacity"), _one("queue"), _queue),
    Fault("long prompts", "llama.cpp", _one("long_context"), _one("prefill"), _long_prompts),
    Fault("long outputs", "llama.cpp, SDK", _one("output_length"), _one("decode"), _long_outputs),
    Fault(
        "unstable prefix",
        "llama.cpp",
        _one("reprocessed_prefix"),
        _one("prefill"),
        _unstable_prefix,
    ),
    Fault(
        "batching: 4 slots, bursts of answers",
        "llama.cpp",
        _one("batch_contention", "prefill_interference"),
        _one("decode"),
        _batches,
    ),
    Fault(
        "gateway queue: maxconn 1",
        "HAProxy, llama.cpp",
        _one("gateway_queue"),
        _one("gateway"),
        _gateway,
    ),
    Fault(
        "buffered stream", "nginx, llama.cpp, SDK", _one("buffering"), _one("decode"), _buffering
    ),
    Fault(
        "TLS without connection reuse, 120 ms away",
        "nginx, llama.cpp",
        _one("no_connection_reuse"),
        _one("connect"),
        _handshakes,
    ),
    Fault("400 ms away", "llama.cpp", _one("network_distance"), _one("network"), _distance),
    Fault(
        "bandwidth of 24 kbit/s",
        "network namespace, llama.cpp",
        _one("network_distance", "network_jitter"),
        _one("network"),
        _bandwidth,
    ),
    Fault(
        "slow replica of three",
        "llama.cpp, SDK",
        _one("slow_group"),
        frozenset(),
        _slow_replica,
    ),
    Fault(
        "retries: 30 % of 503", "HAProxy, llama.cpp, SDK", _one("retries"), _one("retry"), _retries
    ),
    Fault(
        "blocked event loop",
        "SDK, llama.cpp",
        _one("blocked_event_loop"),
        _one("event_loop"),
        _assisted("blocks_its_loop", 30, slots=2),
    ),
    Fault(
        "slow rerank stage",
        "SDK, llama.cpp",
        _one("retrieval"),
        _one("rerank"),
        _assisted("reranks_slowly", 40),
    ),
    Fault(
        "six rewriting calls before the answer",
        "SDK, llama.cpp",
        _one("call_chain"),
        _one("call"),
        _assisted("rewrites_too_often", 25),
    ),
    Fault(
        "one connection for 4 users",
        "SDK, llama.cpp",
        _one("client_pool"),
        _one("pool_wait"),
        _assisted("has_a_small_pool", 60, slots=4),
    ),
    Fault(
        "slow reader of the stream",
        "SDK, llama.cpp",
        _one("slow_consumer"),
        _one("consumer"),
        _assisted("reads_slowly", 40),
    ),
)
