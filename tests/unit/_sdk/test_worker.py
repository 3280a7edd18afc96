"""The worker does every job once, in order, and nobody waits for one without wanting to."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable

import pytest

from latspan._sdk import _worker
from latspan._sdk._worker import Worker

DEADLINE_S = 30.0


def waiting_for(event: threading.Event) -> Callable[[], None]:
    def wait() -> None:
        event.wait(DEADLINE_S)

    return wait


def collect() -> None:
    gc.collect()


def nothing() -> None:
    pass


def test_jobs_run_in_order_on_one_thread_of_their_own() -> None:
    """The thread starts with the first job."""
    worker = Worker()
    done: list[tuple[int, int]] = []
    for number in range(100):
        worker.submit(lambda number=number: done.append((number, threading.get_ident())))

    assert worker.drain(DEADLINE_S)
    assert [number for number, _ in done] == list(range(100))
    assert len({thread for _, thread in done} | {threading.get_ident()}) == 2
    assert worker.stop(DEADLINE_S)


def test_draining_waits_for_what_was_submitted_before() -> None:
    """And gives up in time where a job takes longer."""
    worker = Worker()
    go_on = threading.Event()
    worker.submit(waiting_for(go_on))

    assert not worker.drain(0.001)
    go_on.set()
    assert worker.drain()
    assert worker.stop(DEADLINE_S)


def test_draining_an_idle_worker_starts_no_thread() -> None:
    """There is nothing to wait for."""
    before = threading.active_count()

    assert Worker().drain()
    assert threading.active_count() == before


def test_a_job_may_drain_its_own_worker() -> None:
    """It is part of what is being done, so there is nothing to wait for."""
    worker = Worker()
    drained: list[bool] = []
    worker.submit(lambda: drained.append(worker.drain(DEADLINE_S)))

    assert worker.stop(DEADLINE_S)
    assert drained == [True]


def test_stopping_finishes_what_waits_and_ends_the_thread() -> None:
    """What comes later is done at once, by who brings it."""
    worker = Worker("latspan-worker-that-stops")
    done: list[str] = []
    for _ in range(10):
        worker.submit(lambda: done.append(threading.current_thread().name))
    (thread,) = [t for t in threading.enumerate() if t.name == "latspan-worker-that-stops"]

    assert worker.stop(DEADLINE_S)
    assert done == [thread.name] * 10
    worker.submit(lambda: done.append(threading.current_thread().name))
    assert done[10:] == [threading.current_thread().name]
    thread.join(DEADLINE_S)
    assert not thread.is_alive()
    assert worker.drain()


def test_stopping_waits_no_longer_than_it_is_told() -> None:
    """A job that hangs holds up its own thread."""
    worker = Worker()
    go_on = threading.Event()
    worker.submit(waiting_for(go_on))

    assert not worker.stop(0.001)
    go_on.set()


def test_a_job_that_raises_is_logged_and_the_next_is_done(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One request's telemetry is lost, no more."""
    worker = Worker()
    done: list[str] = []
    worker.submit(lambda: done.append(str(1 // 0)))
    worker.submit(lambda: done.append("next"))

    assert worker.stop(DEADLINE_S)
    assert done == ["next"]
    assert [record.getMessage() for record in caplog.records] == [
        "latspan lost the telemetry of a request"
    ]


def interrupt() -> None:
    raise KeyboardInterrupt


def test_an_interrupt_ends_a_job_of_the_worker_and_is_the_callers_on_his_own_thread() -> None:
    """The worker goes on; who does a job himself is not kept from being interrupted."""
    worker = Worker()
    done: list[str] = []
    worker.submit(interrupt)
    worker.submit(lambda: done.append("the next"))

    assert worker.stop(DEADLINE_S)
    assert done == ["the next"]
    with pytest.raises(KeyboardInterrupt):
        worker.submit(interrupt)


def test_a_finaliser_may_submit() -> None:
    """A stream that is garbage collected ends its call wherever the collector runs."""
    worker = Worker()
    done: list[str] = []

    class Stream:
        cycle: Stream

    stream = Stream()
    stream.cycle = stream
    weakref.finalize(stream, worker.submit, lambda: done.append("ended"))
    del stream
    gc.collect()

    assert worker.stop(DEADLINE_S)
    assert done == ["ended"]


def test_a_finaliser_may_submit_while_a_job_is_submitted() -> None:
    """The queue's own lock is not held then, or this would never end."""
    worker = Worker()
    done: list[int] = []
    for number in range(2000):

        class Garbage:
            cycle: object

        garbage = Garbage()
        garbage.cycle = garbage
        weakref.finalize(garbage, worker.submit, lambda number=number: done.append(number))
        del garbage
        worker.submit(collect if number % 100 == 0 else nothing)
    gc.collect()

    assert worker.stop(DEADLINE_S)
    assert sorted(done) == list(range(2000))


def test_beyond_the_limit_who_brings_a_job_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Late is better than lost, and memory is bounded."""
    monkeypatch.setattr(_worker, "_LIMIT", 3)
    worker = Worker()
    go_on, held = threading.Event(), threading.Event()

    def hold() -> None:
        held.set()
        go_on.wait(DEADLINE_S)

    worker.submit(hold)
    assert held.wait(DEADLINE_S)
    doers: list[str] = []
    for _ in range(5):
        worker.submit(lambda: doers.append(threading.current_thread().name))

    here = threading.current_thread().name
    assert doers == [here, here]
    go_on.set()
    assert worker.stop(DEADLINE_S)
    assert doers == [here, here, *["latspan-worker"] * 3]


def test_where_no_thread_starts_jobs_are_done_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """From Python 3.12 on that is so while the interpreter goes down."""

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    worker = Worker()
    done: list[int] = []
    for number in range(3):
        worker.submit(lambda number=number: done.append(number))

    assert done == [0, 1, 2]
    assert worker.drain()
    assert worker.stop(DEADLINE_S)


def test_starting_says_so_once_on_the_starters_thread() -> None:
    """Before any job is done; and the thread then has had none."""
    starters: list[str] = []
    worker = Worker(on_start=lambda: starters.append(threading.current_thread().name))
    assert not worker.started
    worker.start()
    worker.start()
    worker.submit(nothing)

    assert worker.started
    assert worker.stop(DEADLINE_S)
    assert starters == [threading.current_thread().name]


def test_an_idle_worker_has_something_to_do() -> None:
    """Again and again, until it is stopped."""
    done = threading.Semaphore(0)
    worker = Worker(when_idle=done.release, idle_s=0.001)
    worker.start()

    assert done.acquire(timeout=DEADLINE_S)
    assert done.acquire(timeout=DEADLINE_S)
    assert worker.stop(DEADLINE_S)
