"""HAProxy before a server: it lets few requests through at once, and the others wait in it."""

from __future__ import annotations

import re
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from support.daemons import listens, running
from support.otlp import free_port

__all__ = ["TELLS_ITS_WAIT", "HAProxy", "haproxy_before"]

TELLS_ITS_WAIT: Final = 'http-response add-header Server-Timing "gateway;dur=%Tw"'
"""What the documentation tells users to write, which is what a test runs."""

# `http-no-delay`: else it waits for more before it sends on a part of a stream.
_CONFIG: Final = """
global
  log stdout format raw local0
defaults
  mode http
  log global
  option http-no-delay
  timeout connect 5s
  timeout client 60s
  timeout server 60s
  timeout queue 60s
frontend gateway
  bind 127.0.0.1:{port}
  http-request capture req.hdr(traceparent) len 64
  log-format "waited %[capture.req.hdr(0)] %Tw"
  default_backend models
backend models
  {tells}
  server model {upstream} maxconn {at_once}
"""
_WAITED: Final = re.compile(
    r"^waited 00-[0-9a-f]{32}-([0-9a-f]{16})-[0-9a-f]{2} (-?\d+)$", re.MULTILINE
)
_DEADLINE_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class HAProxy:
    """
    A gateway that runs.

    Args:
        url: Where it listens.
        log: Where it writes down each request when that has ended.
    """

    url: str
    log: Path

    @property
    def base_url(self) -> str:
        """What an OpenAI client takes as its ``base_url``."""
        return f"{self.url}/v1"

    def waits_ms(self, requests: int) -> dict[int, int]:
        """
        Return how long each request waited in it by its own log, by the caller's span id.

        Args:
            requests: How many the log must hold; it writes after the client has its answer.
        """
        deadline = time.monotonic() + _DEADLINE_S
        while True:
            waits = {int(span, 16): int(ms) for span, ms in _WAITED.findall(self.log.read_text())}
            if len(waits) >= requests:
                return waits
            assert time.monotonic() < deadline, f"its log has {len(waits)} of {requests} requests"
            time.sleep(0.01)


@contextmanager
def haproxy_before(
    server_url: str, program: Path, folder: Path, *, at_once: int = 1, tells: bool
) -> Generator[HAProxy]:
    """
    Run HAProxy inside the block.

    Args:
        server_url: What it is a gateway to.
        program: HAProxy's.
        folder: For its configuration and its log.
        at_once: Requests that it lets through; the others wait.
        tells: Whether its answers say how long they waited.
    """
    port = free_port()
    config = folder / "haproxy.cfg"
    config.write_text(
        _CONFIG.format(
            port=port,
            upstream=server_url.removeprefix("http://"),
            at_once=at_once,
            tells=TELLS_ITS_WAIT if tells else "",
        )
    )
    log = folder / "haproxy.log"
    with running([program, "-db", "-f", config], log=log, ready=lambda: listens(port)):
        yield HAProxy(f"http://127.0.0.1:{port}", log)
