"""
The reference server of the documentation, with its own time stamps and clocks minutes ahead.

It serves until its standard input ends. It then prints the times from its own monotonic clock, by
trace, and latspan's records; latspan does not use the former.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any

import uvicorn
from opentelemetry import trace

import latspan
from latspan._base.clock import SystemClock
from latspan.testing import capture

GUIDES = Path(__file__).parents[3] / "docs" / "guides"
sys.path.insert(0, str(GUIDES))
from reference_server import ReferenceServer, application  # noqa: E402

AHEAD_NS = 7 * 60 * 1_000_000_000
HELD_UP_NS = 1_000_000
STAGES = {
    "auth": "authenticate",
    "parse": "parse",
    "route": "route",
    "tokenize": "tokenize",
    "safety": "check",
    "queue": "wait",
}

stamps: dict[str, dict[str, int]] = {}


class AheadClock(SystemClock):
    """A clock that is minutes ahead of all others, monotonic time and Unix time alike."""

    def monotonic_ns(self) -> int:
        """Return the current reading."""
        return super().monotonic_ns() + AHEAD_NS

    def epoch_offset_ns(self) -> int:
        """Return Unix time at the monotonic instant zero."""
        return super().epoch_offset_ns() + 3 * AHEAD_NS


def note(what: str, begun_ns: int) -> None:
    trace_id = trace.get_current_span().get_span_context().trace_id
    stamps.setdefault(f"{trace_id:032x}", {})[what] = time.perf_counter_ns() - begun_ns


def stamped(stage: str, method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    async def stamp(*args: Any) -> Any:
        begun_ns = time.perf_counter_ns()
        try:
            return await method(*args)
        finally:
            note(stage, begun_ns)

    return stamp


class StampedServer(ReferenceServer):
    """The reference server with time stamps before and after each of its methods."""

    def __init__(self, model: str, key: str) -> None:
        super().__init__(model, key)
        for stage, method in STAGES.items():
            setattr(self, method, stamped(stage, getattr(self, method)))

    async def tokens(self, url: str, chat: dict[str, Any]) -> AsyncGenerator[str]:
        """Record the times of the first and the last token."""
        begun_ns = first_ns = time.perf_counter_ns()
        async for token in super().tokens(url, chat):
            if first_ns == begun_ns:
                note("prefill", begun_ns)
                first_ns = time.perf_counter_ns()
            # The value of the last token remains.
            note("decode", first_ns)
            yield token
        note("tokens", begun_ns)


def with_totals(app: Any) -> Any:
    """Record the times from the start of each request to its last token and to its end."""

    async def outside(scope: Any, receive: Any, send: Any) -> None:
        begun_ns = time.perf_counter_ns()
        parent = dict(scope.get("headers", ())).get(b"traceparent", b"--").decode().split("-")[1]
        mine = stamps.setdefault(parent, {})

        async def sending(message: Any) -> None:
            before_ns = time.perf_counter_ns()
            if b'"delta": {"content"' in message.get("body", b""):
                mine["until_last_token"] = before_ns - begun_ns - mine.get("held_up", 0)
            await send(message)
            after_ns = time.perf_counter_ns()
            mine["all"] = after_ns - begun_ns
            if after_ns - before_ns > HELD_UP_NS:
                mine["held_up"] = mine.get("held_up", 0) + after_ns - before_ns

        await app(scope, receive, sending)

    return outside


def main() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    with capture(clock=AheadClock()) as seen:
        latspan.auto_instrument()
        app = with_totals(application(StampedServer(sys.argv[1], "key")))
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        print(listener.getsockname()[1], flush=True)  # noqa: T201
        sys.stdin.read()
        server.should_exit = True
        thread.join()
        listener.close()
    records = [
        {
            "kind": record.kind,
            "side": record.side,
            "name": record.name,
            "outcome": record.outcome,
            "trace": f"{record.trace_id:032x}",
            "start_epoch_ns": record.start_epoch_ns,
            "duration_ns": record.duration_ns,
            "segments": [asdict_of(each) for each in record.segments],
            "own": [asdict_of(each) for each in record.reports or ()],
        }
        for record in seen.records
    ]
    print(json.dumps({"stamps": stamps, "records": records}))  # noqa: T201


def asdict_of(segment: Any) -> dict[str, Any]:
    return dict(segment._asdict())


if __name__ == "__main__":
    main()
