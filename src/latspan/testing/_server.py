"""
The scripted server: a model server on loopback, in a separate process, with exact records.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Self

from latspan.errors import ConfigError, ServerStartError
from latspan.testing._child import ChildProcess
from latspan.testing._messages import script_to_json, served_from_json
from latspan.testing._script import Script
from latspan.testing._served import ServedRequest


class ScriptedServer:
    """
    Model server that sends the responses defined by scripts, and records when it sent each part.

    It supports OpenAI's chat completions, completions, responses, embeddings and list of models,
    Anthropic's messages, Google's ``generateContent``, Cohere's ``/v2/chat``, Ollama's own API,
    and Amazon Bedrock's Converse and Invoke with Anthropic's models: the end of a request's path
    selects the API, and every script works in each.

    The server sends on its own schedule, whether the client reads or not: every part is due at a
    fixed time after the request was accepted (or got a slot), and the bytes for a slow reader are
    buffered in memory. A request first waits for a slot, then for the ``queue_ns`` of its script.
    Instants are those of ``CLOCK_MONOTONIC``, see :mod:`latspan.testing._served`.

    ::

        with ScriptedServer(Script.chat(tokens=8)) as server:
            client = openai.OpenAI(base_url=server.base_url, api_key="none")

    Args:
        scripts: One script for all responses, or several: each request gets the next one, and after
            the last one the first again.
        named: Scripts that a request selects with the header ``x-latspan-script: <name>``.
        slots: Maximum number of requests served at once, at least 1; the others wait in order of
            arrival. ``None`` sets no limit.

    Raises:
        ConfigError: The number of slots or a script is not valid.
    """

    def __init__(
        self,
        scripts: Script | Iterable[Script] | None = None,
        *,
        named: Mapping[str, Script] | None = None,
        slots: int | None = None,
    ) -> None:
        if slots is not None and slots < 1:
            raise ConfigError(f"a server needs at least 1 slot, not {slots}")
        self._scripts = _servable(Script.chat() if scripts is None else scripts)
        if not self._scripts:
            raise ConfigError("a server needs at least one script")
        self._named = dict(named or {})
        _servable(self._named.values())
        self._slots = slots
        self._child: ChildProcess | None = None
        self._port = 0
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        """
        Start the process.

        Raises:
            ServerStartError: The process ended before it listened.
        """
        child = ChildProcess("latspan.testing._server_process", [json.dumps(self._slots)])
        try:
            greeting = child.receive()
            if greeting is None:
                raise ServerStartError(
                    "the scripted server's process ended before it listened",
                    hint="its standard error shows the reason",
                )
            self._port = json.loads(greeting)["port"]
            self._child = child
            self.use(self._scripts, named=self._named)
        except BaseException:
            self._child = child
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
        """Address of the server, ``http://127.0.0.1:port``; base URL for an Anthropic client."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def base_url(self) -> str:
        """Address for an OpenAI client's ``base_url``."""
        return f"{self.url}/v1"

    @property
    def pid(self) -> int:
        """
        Process id.

        Raises:
            ServerStartError: The server is not running.
        """
        return self._running().pid

    def use(
        self,
        scripts: Script | Iterable[Script] = (),
        *,
        named: Mapping[str, Script] | None = None,
    ) -> None:
        """
        Serve other scripts from the next request on.

        Args:
            scripts: Scripts to serve in turn instead of the present ones; if empty, the present
                ones stay.
            named: Scripts to add to those that a request can select by name.

        Raises:
            ConfigError: A script is not valid.
            ServerStartError: The server is not running.
        """
        self._ask(
            {
                "do": "use",
                "scripts": [script_to_json(script) for script in _servable(scripts)],
                "named": {name: script_to_json(script) for name, script in (named or {}).items()},
            }
        )

    def served_requests(
        self, *, requests: int = 0, since: int = 0, timeout_s: float = 10.0
    ) -> list[ServedRequest]:
        """
        Return the records of all requests so far, in order of acceptance.

        Args:
            requests: Number of requests to wait for, counted since the server started. Pass it if
                the client's send may return before the server has accepted the request.
            since: Index of the first record to return, if earlier ones are already known.
            timeout_s: Seconds to wait until the requests have arrived and ended. A request also
                ends if its client disconnects. 0 does not wait.

        Raises:
            TimeoutError: ``timeout_s`` is not 0, and a request has not arrived or ended in time.
            ServerStartError: The server is not running.
        """
        reply = self._ask(
            {"do": "truth", "requests": requests, "since": since, "timeout_s": timeout_s}
        )
        if timeout_s and not reply["settled"]:
            raise TimeoutError(f"requests still to come or in flight after {timeout_s:g} s")
        return [served_from_json(page) for page in reply["truth"]]

    def _ask(self, order: Mapping[str, Any]) -> dict[str, Any]:
        child = self._running()
        with self._lock:
            child.send(json.dumps(order))
            reply = child.receive()
        if reply is None:
            raise ServerStartError("the scripted server's process has ended")
        return json.loads(reply)

    def _running(self) -> ChildProcess:
        if self._child is None:
            raise ServerStartError(
                "the scripted server is not running", hint="use it as a context manager"
            )
        return self._child

    def _stop(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.stop()
            child.close_pipes()


def _servable(scripts: Script | Iterable[Script]) -> tuple[Script, ...]:
    plan = (scripts,) if isinstance(scripts, Script) else tuple(scripts)
    for script in plan:
        if not isinstance(script, Script):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(f"a script is a Script, not {script!r}", hint="use Script.chat()")
    if any(script.unreachable for script in plan):
        raise ConfigError(
            "a script with unreachable=True cannot be served",
            hint="use scripted_transport, or a port on which no program listens",
        )
    return plan
