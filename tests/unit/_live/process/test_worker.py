"""The worker runs each job once and in order, and callers do not wait for it."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from queue import SimpleQueue

import pytest

from latspan._live.process import worker as _worker
from latspan._live.process.worker import Worker

DEADLINE_S = 30.0


def waiting_for(event: threading.Event) -> Callable[[], None]:
    def wait() -> None:
        event.wait(DEADLINE_S)

    return wait


def collect() -> None:
    gc.collect()


def nothing() -> None:
    pass


def test_jobs_run_in_order_on_one_separate_thread() -> None:
    """The thread starts with the first job."""
    worker = Worker()
    done: list[tuple[int, int]] = []
    for number in range(100):
        worker.submit(lambda number=number: done.append((number, threading.get_ident())))

    assert worker.drain(DEADLINE_S)
    assert [number for number, _ in done] == list(range(100))
    assert len({thread for _, thread in done} | {threading.get_ident()}) == 2
    assert worker.stop(DEADLINE_S)


def test_drain_waits_for_jobs_submitted_before() -> None:
    """It returns ``False`` at its timeout if a job takes longer."""
    worker = Worker()
    go_on = threading.Event()
    worker.submit(waiting_for(go_on))

    assert not worker.drain(0.001)
    go_on.set()
    assert worker.drain()
    assert worker.stop(DEADLINE_S)


def test_draining_an_idle_worker_starts_no_thread() -> None:
    before = threading.active_count()

    assert Worker().drain()
    assert threading.active_count() == before


def test_a_job_may_drain_its_own_worker() -> None:
    """It would otherwise wait for itself."""
    worker = Worker()
    drained: list[bool] = []
    worker.submit(lambda: drained.append(worker.drain(DEADLINE_S)))

    assert worker.stop(DEADLINE_S)
    assert drained == [True]


def test_stop_finishes_queued_jobs_and_ends_the_thread() -> None:
    """Later jobs run immediately on the caller's thread."""
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


def test_stop_keeps_its_timeout() -> None:
    """A blocked job does not block the caller."""
    worker = Worker()
    go_on = threading.Event()
    worker.submit(waiting_for(go_on))

    assert not worker.stop(0.001)
    go_on.set()


def test_a_job_that_raises_is_logged_and_the_next_one_runs(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Only the telemetry of one request is lost."""
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


def test_an_interrupt_in_a_job_does_not_end_the_worker() -> None:
    """A job that runs on the caller's thread can be interrupted as usual."""
    worker = Worker()
    done: list[str] = []
    worker.submit(interrupt)
    worker.submit(lambda: done.append("the next"))

    assert worker.stop(DEADLINE_S)
    assert done == ["the next"]
    with pytest.raises(KeyboardInterrupt):
        worker.submit(interrupt)


def test_a_finaliser_may_submit() -> None:
    """A garbage-collected stream ends its call on the thread where the collection runs."""
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
    """The queue's lock is not held at that time; otherwise this test would never end."""
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
    # A collection returns at once while another thread collects.
    assert worker.drain(DEADLINE_S)
    gc.collect()

    assert worker.stop(DEADLINE_S)
    assert sorted(done) == list(range(2000))


def test_past_the_limit_jobs_run_on_the_callers_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """A delay is better than a loss, and memory is bounded."""
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


def test_jobs_run_immediately_if_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """This is the case at interpreter shutdown since Python 3.12."""

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


def test_on_start_is_called_once_on_the_starting_thread() -> None:
    """Before any job runs."""
    starters: list[str] = []
    worker = Worker(on_start=lambda: starters.append(threading.current_thread().name))
    assert worker.thread is None
    worker.start()
    worker.start()
    worker.submit(nothing)

    assert worker.thread is not None
    assert worker.stop(DEADLINE_S)
    assert starters == [threading.current_thread().name]


def test_an_idle_worker_calls_when_idle_repeatedly() -> None:
    """Until it is stopped."""
    done = threading.Semaphore(0)
    worker = Worker(when_idle=done.release, idle_s=0.001)
    worker.start()

    assert done.acquire(timeout=DEADLINE_S)
    assert done.acquire(timeout=DEADLINE_S)
    assert worker.stop(DEADLINE_S)


class Waits(SimpleQueue[None]):
    """Queue that records how long the worker is prepared to wait at it, in seconds."""

    def __init__(self) -> None:
        self.waits: SimpleQueue[float | None] = SimpleQueue()

    def get(self, block: bool = True, timeout: float | None = None) -> None:
        """Wait for a wake-up."""
        if block:
            self.waits.put(timeout)
        super().get(block, timeout)


def test_a_worker_that_does_not_poll_sleeps_until_a_job_wakes_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The job still waits for the length of a poll, so that its submitter can go on."""
    poll_s = 0.001
    queues: list[Waits] = []

    def queue() -> Waits:
        queues.append(Waits())
        return queues[-1]

    monkeypatch.setattr(_worker, "SimpleQueue", queue)
    worker = Worker(poll_s=poll_s)
    [waits] = (each.waits for each in queues)
    done: SimpleQueue[int] = SimpleQueue()

    def next_wait() -> float | None:
        return waits.get(timeout=DEADLINE_S)

    worker.submit(lambda: done.put(1))
    assert done.get(timeout=DEADLINE_S) == 1
    assert next_wait() == poll_s, "it polls"

    worker.stop_polling()
    while next_wait() is not None:
        pass
    worker.submit(lambda: done.put(2))
    assert done.get(timeout=DEADLINE_S) == 2
    assert [next_wait(), next_wait()] == [poll_s, None]
    assert worker.stop(DEADLINE_S)
