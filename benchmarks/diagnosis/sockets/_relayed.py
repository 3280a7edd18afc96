"""A model server behind gateways or network paths, under a load or used by a program."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final

from diagnosis.sockets._fault import Fault, Made
from diagnosis.sockets._load import calibrated, measured, program
from diagnosis.sockets._proxies import CERTIFICATE, Gateway, Link, through
from diagnosis.sockets._server import ServerConfig, serving

_PROGRAMS: Final = Path(__file__).with_name("programs")

_CALIBRATION: Final = ("--requests", "12", "--max-tokens", "6")
"""Options of a calibration; it is short, because each of its requests may take long."""


@dataclass(frozen=True, slots=True)
class Users:
    """
    A program that uses the model instead of a load generator.

    Args:
        program: Name of the program's file.
        setting: Setting of the program.
    """

    program: str
    setting: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Relayed:
    """
    A system with proxies.

    Args:
        server: Configuration of the model server.
        proxies: Proxies between the client and the server, the server's neighbour first.
        load: Options of ``latspan measure``, or a program.
        ways: Further ways from the first proxy to the server, besides the direct one.
        is_calibrated: Whether a measurement with one request at a time precedes the load.
    """

    server: ServerConfig
    proxies: tuple[Link | Gateway, ...]
    load: tuple[str, ...] | Users
    ways: tuple[Link, ...] = field(default=())
    is_calibrated: bool = False

    def run(self, folder: Path) -> Made:
        """Record the requests in a folder."""
        with ExitStack() as parts:
            url = parts.enter_context(serving(self.server)).url
            urls = [url, *(parts.enter_context(through(way, url)) for way in self.ways)]
            for proxy in self.proxies:
                urls = [parts.enter_context(through(proxy, *urls))]
            return self._recorded(urls[0], folder)

    def _recorded(self, url: str, folder: Path) -> Made:
        """Record the requests to an address."""
        env = {"SSL_CERT_FILE": str(CERTIFICATE)} if url.startswith("https") else {}
        recording, calibration = folder / "load", folder / "calibration"
        if isinstance(self.load, Users):
            # The program has no spare address.
            env |= dict.fromkeys(("MODEL_URL", "SPARE_URL"), f"{url}/v1")
            env["PROGRAM_SETTING"] = json.dumps(self.load.setting)
            program(_PROGRAMS / self.load.program, recording, **env)
            return Made(recording)
        if self.is_calibrated:
            calibrated(url, calibration, *_CALIBRATION)
        measured(url, recording, *self.load, env=env)
        return Made(recording, calibration if self.is_calibrated else None)


Build = Callable[[Random], Relayed]
"""Draws the parameters of a system."""


def faults(builds: Mapping[str, Build]) -> tuple[Fault, ...]:
    """Return a fault of each system, by its name."""
    return tuple(Fault(name, partial(_inject, build)) for name, build in builds.items())


def _inject(build: Build, folder: Path, random: Random) -> Made:
    return build(random).run(folder)


def server(random: Random, reports: str, **changes: Any) -> ServerConfig:
    """Return a model server with a place for every request."""
    config = ServerConfig(slots=24, reports=reports, seed=random.randrange(2**32))
    return replace(config, **changes)


def load(
    random: Random,
    rate: float,
    *more: str,
    tokens: tuple[int, int] = (8, 16),
    words: tuple[int, int] = (20, 60),
    requests: int = 130,
) -> tuple[str, ...]:
    """
    Return the options of an open loop.

    Args:
        random: Source of the parameters.
        rate: Requests per second.
        more: Further options.
        tokens: Range of the limit of output tokens.
        words: Range of the length of the prompts.
        requests: Number of measured requests.
    """
    return (
        *("--rate", f"{rate:.2f}", "--requests", str(requests), "--warmup", "4"),
        *("--max-tokens", str(random.randint(*tokens))),
        *("--prompt-words", str(random.randint(*words))),
        *("--seed", str(random.randrange(2**31))),
        *more,
    )
