"""HAProxy in front of a server: it limits concurrent requests and queues the others."""

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

REPORTS_WAIT: Final = 'http-response add-header Server-Timing "gateway;dur=%Tw"'
"""The configuration line that the documentation recommends; the tests run exactly this line."""

# Without `http-no-delay`, HAProxy waits for more data before it forwards a part of a stream.
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
  {reports_wait}
  server model {upstream} maxconn {at_once}
"""
_WAITED: Final = re.compile(
    r"^waited 00-[0-9a-f]{32}-([0-9a-f]{16})-[0-9a-f]{2} (-?\d+)$", re.MULTILINE
)
_DEADLINE_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class HAProxy:
    """
    A running gateway.

    Args:
        url: URL of the gateway.
        log: File in which it logs each request at its end.
    """

    url: str
    log: Path

    @property
    def base_url(self) -> str:
        """``base_url`` for an OpenAI client."""
        return f"{self.url}/v1"

    def waits_ms(self, requests: int) -> dict[int, int]:
        """
        Return the waiting time of each request in HAProxy's log, by the caller's span id.

        Args:
            requests: Number of requests to wait for: HAProxy writes its log after the client has
                the response.
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
    server_url: str, program: Path, folder: Path, *, at_once: int = 1, reports_wait: bool
) -> Generator[HAProxy]:
    """
    Run HAProxy inside the block.

    Args:
        server_url: URL of the server behind it.
        program: Path of HAProxy.
        folder: Folder for its configuration and its log.
        at_once: Maximum number of concurrent requests; the others wait.
        reports_wait: Whether its responses report the waiting time.
    """
    port = free_port()
    config = folder / "haproxy.cfg"
    config.write_text(
        _CONFIG.format(
            port=port,
            upstream=server_url.removeprefix("http://"),
            at_once=at_once,
            reports_wait=REPORTS_WAIT if reports_wait else "",
        )
    )
    log = folder / "haproxy.log"
    with running([program, "-db", "-f", config], log=log, ready=lambda: listens(port)):
        yield HAProxy(f"http://127.0.0.1:{port}", log)
