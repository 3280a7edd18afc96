"""The chats of the demo are the same for everyone, all sent, and leave no server behind."""

from __future__ import annotations

import os

import pytest

from latspan.cli._chats import Chat, chats, send
from latspan.testing import Script, ScriptedServer


def nothing(chat: Chat) -> dict[str, str]:
    return {}


def test_one_prompt_in_ten_is_long_and_none_begins_like_another() -> None:
    """The mix is the documented one, also in a short run, and no prefix can be cached."""
    asked = chats(40)

    assert [index for index, chat in enumerate(asked) if chat.long] == [3, 13, 23, 33]
    assert sum(chat.long for chat in chats(8)) == 1
    assert {len(chat.prompt.split()) for chat in asked if chat.long} == {958}
    assert len({chat.prompt[:4] for chat in asked}) == 40


def test_they_are_the_same_in_every_run() -> None:
    """Two people measure the same prompts."""
    assert chats(20) == chats(40)[:20]


def test_every_chat_is_sent_and_read_and_the_server_stopped() -> None:
    """Each is counted once, and afterwards no process is there to answer."""
    pytest.importorskip("openai")
    server = ScriptedServer(Script.chat(tokens=3, prefill_ms=1, gap_ms=1), slots=2)
    told: list[object] = []

    def started() -> None:
        told.append(server.pid)

    failures = send(
        chats(6),
        server,
        concurrency=3,
        headers=nothing,
        started=started,
        advance=lambda: told.append("done"),
    )

    assert failures == []
    assert told[1:] == ["done"] * 6
    assert_gone(told[0])


def test_chats_that_fail_are_counted_and_do_not_stop_the_others() -> None:
    """An answer that is an error is one failure, with the client's own exception."""
    openai = pytest.importorskip("openai")
    scripts = [Script.chat(tokens=2, prefill_ms=1, gap_ms=1), Script.refused(503)]
    told: list[str] = []

    failures = send(
        chats(4),
        ScriptedServer(scripts),
        concurrency=1,
        headers=nothing,
        started=lambda: None,
        advance=lambda: told.append("done"),
    )

    assert len(told) == 4
    assert [type(failure) for failure in failures] == [openai.InternalServerError] * 2


def test_an_interrupted_run_leaves_no_server_and_waits_for_no_answer() -> None:
    """Answers that would take minutes are given up with the server."""
    pytest.importorskip("openai")
    server = ScriptedServer(
        [Script.chat(tokens=1, prefill_ms=1), Script.chat(prefill_ms=600_000)], slots=4
    )
    pids: list[object] = []

    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        send(
            chats(8),
            server,
            concurrency=4,
            headers=nothing,
            started=lambda: pids.append(server.pid),
            advance=interrupt,
        )

    assert_gone(pids[0])


def assert_gone(pid: object) -> None:
    assert isinstance(pid, int)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
