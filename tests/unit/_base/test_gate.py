"""A gate lets threads pass until it is closed, and closing it waits for the threads inside."""

from __future__ import annotations

import os
import threading

import pytest

from latspan._base.gate import Gate


def test_a_closed_gate_lets_no_thread_pass() -> None:
    """A thread that finds it closed leaves it as usual."""
    gate = Gate()
    passed: list[bool] = []
    for _ in range(2):
        passed.append(gate.enter())
        gate.leave()
        assert gate.close()

    assert passed == [True, False]


def test_closing_waits_for_the_threads_inside() -> None:
    """Until they have left, the result is that the time is up."""
    gate = Gate()
    inside, may_leave = threading.Event(), threading.Event()

    def pass_through() -> None:
        assert gate.enter()
        inside.set()
        may_leave.wait()
        gate.leave()

    thread = threading.Thread(target=pass_through)
    thread.start()
    inside.wait()
    in_time = gate.close(timeout_s=0)
    may_leave.set()

    assert (in_time, gate.close()) == (False, True)
    thread.join()


def test_a_thread_does_not_wait_for_itself() -> None:
    """A signal handler may close the gate while its own thread is inside."""
    gate = Gate()
    gate.enter()

    assert gate.close()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_does_not_wait_for_the_threads_of_its_parent() -> None:
    """They are not there, and would never leave."""
    gate = Gate()
    inside, may_leave = threading.Event(), threading.Event()

    def pass_through() -> None:
        gate.enter()
        inside.set()
        may_leave.wait()
        gate.leave()

    thread = threading.Thread(target=pass_through)
    thread.start()
    inside.wait()
    child = os.fork()
    if not child:
        os._exit(0 if gate.close(timeout_s=0) else 1)
    may_leave.set()
    thread.join()

    assert os.waitpid(child, 0)[1] == 0
