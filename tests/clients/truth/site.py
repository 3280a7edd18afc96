"""The site: a model server, a way to it, and what both sides wrote down of the same chats."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from typing import Any, Final, NamedTuple

import pytest
from opentelemetry.sdk.trace import ReadableSpan

from latspan._base.clock import SystemClock
from latspan.integrations import Outcome
from latspan.testing import RequestRecord, ScriptedServer, ServedRequest, capture
from tests.clients.truth.programs import Program, Setting
from tests.clients.truth.situations import Situation
from tests.support.road import road_to

_NAME: Final = "model.test"


class SharedClock(SystemClock):
    """
    The machine's clock with the calendar left out.

    So the start of a record is a reading of the clock that the server's process stamps with.
    """

    __slots__ = ()

    def epoch_offset_ns(self) -> int:
        """Return 0."""
        return 0


class Heard:
    """
    What a program had of one answer, and when: events, or bytes of them.

    Args:
        whole: Gives the events of a body's beginning that are complete.
    """

    def __init__(self, whole: Callable[[bytes], bytes]) -> None:
        self._whole = whole
        self._items: list[tuple[int, object]] = []

    def hear(self, item: object) -> None:
        """Note an item."""
        self._items.append((time.perf_counter_ns(), item))

    def when(self, text: str) -> int:
        """Return when the program first had the event with ``text``, whole."""
        so_far = b""
        for instant_ns, item in self._items:
            if isinstance(item, bytes):
                so_far += item
                if text.encode() in self._whole(so_far):
                    return instant_ns
            elif text in str(item):
                return instant_ns
        raise AssertionError(f"the program never had {text!r}")


class Visit(NamedTuple):
    """
    What was seen of a program's chats, in order.

    Args:
        records: What latspan recorded.
        spans: The spans without a parent.
        heard: What the program had.
        served: What the server wrote down; a try is a request of its own.
        look_ups_ns: When each look-up of the server's name began and ended.
        handshakes_ns: When each connection stood and when hands were shaken, at the other end.
    """

    records: tuple[RequestRecord, ...]
    spans: tuple[ReadableSpan, ...]
    heard: list[Heard]
    served: list[ServedRequest]
    look_ups_ns: list[tuple[int, int]]
    handshakes_ns: list[tuple[int, int]]


class Site:
    """
    A model server and the ways to it.

    Args:
        server: One that runs.
    """

    def __init__(self, server: ScriptedServer) -> None:
        self._server = server
        self._known = 0

    def visit(self, program: Program, situation: Situation) -> Visit:
        """Let ``program`` have its chats in ``situation``, and return when both sides are done."""
        self._server.use(situation.scripts)
        # One that does not try again by itself asks once more.
        chats = situation.chats * (1 if program.is_sdk else len(situation.scripts))
        fails = suppress(Exception) if situation.outcome is not Outcome.COMPLETED else nullcontext()
        heard = [Heard(program.whole) for _ in range(chats)]
        url = self._server.url
        look_ups_ns, handshakes_ns = list[tuple[int, int]](), list[tuple[int, int]]()
        with ExitStack() as way:
            if situation.conditions is not None:
                road = way.enter_context(road_to(url, situation.conditions))
                url, handshakes_ns = road.url, road.handshakes_ns
            if situation.look_up_s is not None:
                url = url.replace("127.0.0.1", _NAME)
                look_ups_ns = way.enter_context(_slow_resolver(situation.look_up_s))
            headers = {} if situation.keeps_alive else {"connection": "close"}
            setting = Setting(url=url, headers=headers, **situation.setting)
            seen = way.enter_context(capture(clock=SharedClock()))
            with program.opened(setting) as chat:
                for each in heard:
                    with fails:
                        chat(each.hear)
        roots = tuple(span for span in seen.spans if span.parent is None)
        served = self._served(situation.chats * len(situation.scripts))
        return Visit(seen.records, roots, heard, served, look_ups_ns, handshakes_ns)

    def _served(self, tries: int) -> list[ServedRequest]:
        since, self._known = self._known, self._known + tries
        served = self._server.served_requests(requests=self._known, since=since)
        assert len(served) == tries
        return served


@contextmanager
def _slow_resolver(takes_s: float) -> Generator[list[tuple[int, int]]]:
    """
    Have a name found on loopback inside the block, by whoever asks the C library.

    Yields:
        When each look-up began and ended, monotonic nanoseconds.
    """
    ask, never, look_ups_ns = socket.getaddrinfo, threading.Event(), list[tuple[int, int]]()

    def getaddrinfo(host: Any, *arguments: Any, **options: Any) -> Any:
        if host not in {_NAME, _NAME.encode()}:
            return ask(host, *arguments, **options)
        begun_ns = time.perf_counter_ns()
        never.wait(takes_s)
        found = ask("127.0.0.1", *arguments, **options)
        look_ups_ns.append((begun_ns, time.perf_counter_ns()))
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", getaddrinfo)
        yield look_ups_ns
