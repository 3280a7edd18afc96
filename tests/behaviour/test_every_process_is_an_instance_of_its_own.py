"""Forked, spawned and pooled: each process sends what is its own, once, under its own name."""

from __future__ import annotations

import pytest

from latspan.testing import Script, ScriptedServer
from support.fleet import counts_of, instances_of
from support.programs import run_program
from support.receivers import receiving


def test_forked_children_send_what_is_their_own_without_being_configured() -> None:
    """The fork itself starts no thread and imports nothing; an idle child sends nothing."""
    with receiving() as receiver:
        printed = run_program("forks_workers", LATSPAN_ENDPOINT=receiver.url)

    assert printed == "[] [] []\n"
    assert counts_of(receiver, "retrieve") == [10, 10, 11, 12, 13]


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
@pytest.mark.parametrize("kind", ["process", "pool", "executor"])
def test_the_children_of_multiprocessing_send_the_last_they_have(method: str, kind: str) -> None:
    """They leave by ``os._exit``, or have forgotten what their parent was to do at exit."""
    with receiving() as receiver:
        run_program("uses_processes", method, kind, LATSPAN_ENDPOINT=receiver.url)

    assert sum(counts_of(receiver, "retrieve")) == 5


def test_the_children_of_billiard_send_the_last_they_have() -> None:
    """Celery's own ``multiprocessing``."""
    pytest.importorskip("billiard", reason="billiard is not installed")
    with receiving() as receiver:
        run_program("uses_processes", "fork", "billiard", LATSPAN_ENDPOINT=receiver.url)

    assert counts_of(receiver, "retrieve") == [1] * 5


def test_the_threads_of_a_pool_are_one_instance() -> None:
    """They need nothing."""
    with receiving() as receiver:
        run_program("uses_processes", "none", "threads", LATSPAN_ENDPOINT=receiver.url)

    assert counts_of(receiver, "retrieve") == [5]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_an_instance_id_of_the_environment_is_of_the_process_that_was_started(method: str) -> None:
    """Its children inherit the variable, and may not send the same series under the same name."""
    with receiving() as receiver:
        run_program(
            "uses_processes",
            method,
            "process",
            LATSPAN_ENDPOINT=receiver.url,
            OTEL_RESOURCE_ATTRIBUTES="service.instance.id=mine,team=search",
        )

    assert counts_of(receiver, "retrieve") == [1] * 5
    assert "mine" in instances_of(receiver)


def test_what_is_open_at_a_fork_is_ended_by_the_process_that_began_it() -> None:
    """The child leaves the same blocks, and sends only the stage that it began itself."""
    with receiving() as receiver:
        run_program("forks_inside_a_request", LATSPAN_ENDPOINT=receiver.url)

    sent = [dict(instance.spans) for instance in instances_of(receiver).values()]
    assert sorted(sent, key=len) == [
        {"retrieve": 1},
        {"divide": 1, "answer": 1, "retrieve": 1},
    ]


def test_what_a_child_asks_is_no_part_of_the_call_that_its_parent_makes() -> None:
    """Forked in the midst of it, the child has the call in its context."""
    with ScriptedServer(Script.chat(tokens=3)) as model, receiving() as receiver:
        run_program("forks_inside_a_call", model.url, LATSPAN_ENDPOINT=receiver.url)

    sent = [set(instance.spans) & {"GET", "chat m"} for instance in instances_of(receiver).values()]
    assert sorted(sent, key=sorted) == [{"GET"}, {"chat m"}]


def test_the_applications_spans_leave_under_the_same_name() -> None:
    """Where latspan's provider is the process's, made before the fork."""
    with receiving() as receiver:
        run_program("forks_a_global_provider", LATSPAN_ENDPOINT=receiver.url)

    instances = list(instances_of(receiver).values())
    assert [len(instance.pids) for instance in instances] == [1, 1]
    assert [dict(instance.spans) for instance in instances] == [
        {"the application's": 1, "retrieve": 1}
    ] * 2
    assert [dict(instance.stages) for instance in instances] == [{"retrieve": 1}] * 2
