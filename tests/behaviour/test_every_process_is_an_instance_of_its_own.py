"""Forked, spawned and pooled processes each export their own data once, as separate instances."""

from __future__ import annotations

import pytest

from latspan.testing import Script, ScriptedServer
from support.fleet import counts_of, instances_of
from support.programs import run_program
from support.receivers import receiving


def test_forked_children_export_their_own_data_without_configuration() -> None:
    """The fork itself starts no thread and imports nothing; an idle child exports nothing."""
    with receiving() as receiver:
        printed = run_program("forks_workers", LATSPAN_ENDPOINT=receiver.url)

    assert printed == "[] [] []\n"
    assert counts_of(receiver, "retrieve") == [10, 10, 11, 12, 13]


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
@pytest.mark.parametrize("kind", ["process", "pool", "executor"])
def test_children_of_multiprocessing_export_their_last_data(method: str, kind: str) -> None:
    """They end with ``os._exit``, or have discarded their parent's exit handlers."""
    with receiving() as receiver:
        run_program("uses_processes", method, kind, LATSPAN_ENDPOINT=receiver.url)

    assert sum(counts_of(receiver, "retrieve")) == 5


def test_children_of_billiard_export_their_last_data() -> None:
    """Billiard is Celery's fork of ``multiprocessing``."""
    pytest.importorskip("billiard", reason="billiard is not installed")
    with receiving() as receiver:
        run_program("uses_processes", "fork", "billiard", LATSPAN_ENDPOINT=receiver.url)

    assert counts_of(receiver, "retrieve") == [1] * 5


def test_the_threads_of_a_pool_are_one_instance() -> None:
    with receiving() as receiver:
        run_program("uses_processes", "none", "threads", LATSPAN_ENDPOINT=receiver.url)

    assert counts_of(receiver, "retrieve") == [5]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_an_instance_id_from_the_environment_applies_to_the_started_process(method: str) -> None:
    """Its children inherit the variable, but must not export the same series under the same ID."""
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


def test_scopes_open_at_a_fork_are_ended_by_the_parent() -> None:
    """The child leaves the same blocks, but exports only the stage that it started itself."""
    with receiving() as receiver:
        run_program("forks_inside_a_request", LATSPAN_ENDPOINT=receiver.url)

    sent = [dict(instance.spans) for instance in instances_of(receiver).values()]
    assert sorted(sent, key=len) == [
        {"retrieve": 1},
        {"divide": 1, "answer": 1, "retrieve": 1},
    ]


def test_a_childs_request_is_not_part_of_its_parents_call() -> None:
    """A child that is forked during a call has the call in its context."""
    with ScriptedServer(Script.chat(tokens=3)) as model, receiving() as receiver:
        run_program("forks_inside_a_call", model.url, LATSPAN_ENDPOINT=receiver.url)

    sent = [set(instance.spans) & {"GET", "chat m"} for instance in instances_of(receiver).values()]
    assert sorted(sent, key=sorted) == [{"GET"}, {"chat m"}]


def test_the_applications_spans_have_the_instance_id_of_their_process() -> None:
    """If latspan's provider is the global one and was created before the fork."""
    with receiving() as receiver:
        run_program("forks_a_global_provider", LATSPAN_ENDPOINT=receiver.url)

    instances = list(instances_of(receiver).values())
    assert [len(instance.pids) for instance in instances] == [1, 1]
    assert [dict(instance.spans) for instance in instances] == [
        {"the application's": 1, "retrieve": 1}
    ] * 2
    assert [dict(instance.stages) for instance in instances] == [{"retrieve": 1}] * 2
