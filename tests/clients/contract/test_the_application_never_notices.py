"""Whatever the client: its results, its errors, its objects and its bytes are what they were."""

from __future__ import annotations

import asyncio
import gc
import logging
import re
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
import wrapt

import latspan
import latspan_instrumentation
from latspan._base.clock import SystemClock
from latspan._model.recording import Recorder
from latspan.integrations import Outcome
from latspan.testing import RequestRecord, capture
from tests.clients.conftest import asked_for
from tests.clients.contract.clients import TIMEOUT_S, Client, settled
from tests.clients.contract.conftest import (
    Here,
    Program,
    answer_of,
    run,
    switched_off,
    without_places,
    without_trace_context,
)
from tests.clients.contract.ways import EACH_WAY, WAYS, went
from tests.support.loopback import ConnectionEnding, Reply, whole

READ_TIMEOUT_S: Final = 1.0
"""
Read timeout of the clients whose server sends no more. All other reads must end before it, also if
other programs use the processors.
"""


@EACH_WAY
def test_results_and_bytes_are_the_same_with_and_without(
    monkeypatch: pytest.MonkeyPatch, client: Client, program: Program, outcome: Outcome
) -> None:
    """
    Trace context is the one thing added to a request, and it is not even that when off.

    Each piece is there before the server writes the next: none is held back.
    """
    with switched_off():
        bare = went(client, program)
    assert went(client, program) == bare, "not configured"
    with capture() as seen:
        saw, (sent,) = went(client, program)
        assert sent.count(b"\r\ntraceparent: 00-") == 1
        assert (saw, [without_trace_context(sent)]) == bare
        assert [record.outcome for record in seen.records] == [outcome]
        with asked_for(propagate=False):
            assert went(client, program) == bare, "without propagation"
    monkeypatch.setenv("OTEL_PROPAGATORS", "none")
    with capture():
        assert went(client, program) == bare, "without a propagator"


@EACH_WAY
@pytest.mark.parametrize("suppression", ["instrumentation", "http_instrumentation"])
def test_suppressed_instrumentation_records_nothing(
    client: Client, program: Program, outcome: Outcome, suppression: str
) -> None:
    """OpenTelemetry's own switches are honoured, and nothing of ours is sent."""
    utils = pytest.importorskip("opentelemetry.instrumentation.utils")
    with switched_off():
        bare = went(client, program)
    with capture() as seen, getattr(utils, f"suppress_{suppression}")():
        assert went(client, program) == bare
    of_http = suppression == "http_instrumentation" and client.is_sdk
    assert [record.outcome for record in seen.records] == [outcome] * of_http


class BrokenRecorder(Recorder):
    """Takes in nothing."""

    def record(self, record: RequestRecord) -> None:
        """Fail."""
        raise ZeroDivisionError(record.name)


def broken_sink() -> Any:
    """Fail, where spans are to go."""
    raise ZeroDivisionError


def _said(caplog: pytest.LogCaptureFixture) -> set[str]:
    """
    Return what was logged, without the objects that it was said of.

    Not what the event loop says of httpcore2's own generators: version 2.0 cannot be left in the
    middle, with latspan or not, and of which of them that is said depends on when each is
    collected.
    """
    return {
        re.split(" at | <", entry.getMessage())[0]
        for entry in caplog.records
        if not (entry.name == "asyncio" and _httpcore2_alone(entry))
    }


def _httpcore2_alone(entry: logging.LogRecord) -> bool:
    """Return whether what is logged happened in httpcore2, and passed nothing of latspan's."""
    error = entry.exc_info[1] if entry.exc_info else None
    through = {
        str(frame.f_globals.get("__name__")).partition(".")[0]
        for frame, _ in traceback.walk_tb(error and error.__traceback__)
    }
    return "httpcore2" in through and not any(name.startswith("latspan") for name in through)


@pytest.mark.parametrize("program", [way for way, _ in WAYS], ids=lambda way: way.__name__)
def test_what_fails_inside_latspan_stays_there(
    caplog: pytest.LogCaptureFixture, client: Client, program: Program
) -> None:
    """A recorder that fails, a sink that fails: logged, and the application goes on."""
    with switched_off():
        bare = went(client, program)
    without = _said(caplog)
    with capture() as seen:
        with asked_for(strict=False, recorder=BrokenRecorder(SystemClock())):
            saw, (sent,) = went(client, program)
            assert (saw, [without_trace_context(sent)]) == bare
        with asked_for(strict=False, sink=broken_sink):
            assert went(client, program) == bare
    assert seen.records == ()
    assert _said(caplog) <= {"latspan failed", *without}


async def reads_and_closes(here: Here, visit: Callable[[Any], None] | None = None) -> None:
    """Read an answer, and close it whatever happens."""
    answer = await here.ask()
    try:
        await here.read(answer, visit)
    finally:
        await here.close(answer)


async def is_interrupted(here: Here) -> None:
    """Read, until something happens."""
    await reads_and_closes(here)


async def is_refused(here: Here) -> None:
    """Ask for what is not there."""
    answer = await here.ask(stream=False)
    await here.client.refused(answer)


async def raises_itself(here: Here) -> None:
    """Raise an error of the program's own between two pieces."""

    def visit(_: Any) -> None:
        raise LookupError("mine", 1)

    await reads_and_closes(here, visit)


async def asks_wrongly(here: Here) -> None:
    """Give an argument that there is not."""
    await settled(here.client.misuse(here.made))


async def is_cancelled(here: Here) -> None:
    """Be cancelled in the middle of an answer."""
    task = asyncio.current_task()
    assert task is not None

    def visit(_: Any) -> None:
        task.cancel("enough")

    await reads_and_closes(here, visit)


async def asks_nobody(here: Here) -> None:
    """Ask where nobody listens."""
    nowhere = "http://127.0.0.1:1"
    made = here.client.make(nowhere)
    try:
        await settled(here.client.ask(made, stream=False))
    finally:
        await settled(here.client.close(made))


@dataclass(frozen=True)
class Failure:
    """
    Something that goes wrong.

    Args:
        program: What is done.
        parts: How many writes of an answer come.
        ending: What becomes of the connection then.
        refusal: What comes instead of an answer.
        times_out: Whether the caller does not wait that long.
    """

    program: Program
    parts: int | None = None
    ending: ConnectionEnding = ConnectionEnding.KEEP
    refusal: Reply | None = None
    times_out: bool = False

    def reply(self, client: Client) -> Reply:
        """Return what the server answers."""
        if self.refusal is not None:
            return self.refusal
        parts = answer_of(client, stream=True, parts=self.parts).parts
        return Reply(parts, ending=self.ending)


def refusal(status: int) -> Reply:
    """Return an answer that is none, in one write."""
    reply = whole(b'{"error": {}}', status=status, content_type="application/json")
    return Reply((b"".join(reply.parts),))


FAILURES: Final = {
    "cut": Failure(is_interrupted, parts=2, ending=ConnectionEnding.CLOSE),
    "reset": Failure(is_interrupted, parts=2, ending=ConnectionEnding.RESET),
    "too slow": Failure(is_interrupted, parts=2, times_out=True),
    "no headers": Failure(is_interrupted, refusal=Reply((), ending=ConnectionEnding.CLOSE)),
    "late headers": Failure(is_interrupted, refusal=whole(after_s=10), times_out=True),
    "404": Failure(is_refused, refusal=refusal(404)),
    "429": Failure(is_refused, refusal=refusal(429)),
    "no HTTP": Failure(
        is_refused, refusal=Reply((b"hello\r\n\r\n",), ending=ConnectionEnding.CLOSE)
    ),
    "nobody there": Failure(asks_nobody),
    "the program's own": Failure(raises_itself),
    "wrong arguments": Failure(asks_wrongly),
    "cancelled": Failure(is_cancelled),
}

OURS: Final = (
    str(Path(latspan.__file__).parent),
    str(Path(wrapt.__file__).parent),
    str(Path(latspan_instrumentation.__file__).parent),
)


def chain(client: Client, failure: Failure) -> list[Any]:
    """Return every error of the chain: its class, what it says, and the frames it came through."""

    async def fails(here: Here) -> list[Any]:
        try:
            await failure.program(here)
        except BaseException as raised:  # noqa: BLE001 - whatever it is, it must stay the same
            return [_told(error) for error in _linked(raised)]
        return []

    timeout_s = READ_TIMEOUT_S if failure.times_out else TIMEOUT_S
    (told, left), _ = run(client, fails, failure.reply(client), timeout_s=timeout_s)
    return [told, left]


def _linked(error: BaseException | None) -> list[BaseException]:
    linked: list[BaseException] = []
    while error is not None and error not in linked:
        linked.append(error)
        error = error.__cause__ or error.__context__
    return linked


def _told(error: BaseException) -> list[Any]:
    frames = [
        (frame.filename, frame.lineno, frame.name)
        for frame in traceback.extract_tb(error.__traceback__)
        if not _is_ours(frame)
    ]
    args = [without_places(repr(arg)) for arg in error.args]
    return [
        type(error),
        args,
        without_places(str(error)),
        without_places(repr(error)),
        type(error.__cause__),
        error.__suppress_context__,
        frames,
    ]


def _is_ours(frame: traceback.FrameSummary) -> bool:
    # The integration of urllib3 connects a moment before `http.client` would.
    connects = (Path(frame.filename).parts[-2:], frame.name) == (("http", "client.py"), "send")
    return connects or frame.filename.startswith(OURS)


@pytest.mark.parametrize("name", FAILURES)
def test_errors_are_the_same_with_and_without(client: Client, name: str) -> None:
    """Their classes, arguments, words and causes, and whence they came."""
    failure = FAILURES[name]
    if failure.program is is_cancelled and not client.asynchronous:
        pytest.skip("nobody can cancel a synchronous client")
    with switched_off():
        bare = chain(client, failure)
    with capture() as seen:
        assert chain(client, failure) == bare
    told, _ = bare
    # urllib3 has no error for a refusal.
    assert told or failure.program is is_refused
    # Some libraries refuse an argument before they begin anything, and some after.
    assert len(seen.records) == 1 or failure.program is asks_wrongly


async def drops_what_it_asked(here: Here) -> list[Any]:
    """Never await a question, and cancel the task of another before its first step."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        asked = here.client.ask(here.made, stream=True)
        saw: list[Any] = [type(asked), without_places(repr(asked)), asyncio.iscoroutine(asked)]
        del asked
        task = asyncio.ensure_future(here.client.ask(here.made, stream=True))
        saw.append(without_places(repr(task.get_coro())))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        del task
        gc.collect()
    return [*saw, *(str(warning.message) for warning in warned)]


def test_what_is_never_awaited_is_warned_of_as_ever(client: Client) -> None:
    """By the library's own name for it, once, and not at all where a task was cancelled."""
    if not client.asynchronous:
        pytest.skip("there is nothing to await")

    def warned() -> Any:
        return run(client, drops_what_it_asked, answer_of(client, stream=True))

    with switched_off():
        bare = warned()
    with capture() as seen:
        assert warned() == bare
    assert seen.records == ()
