"""A question to an empty recorder is answered with the reason and the next step."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

import latspan
from latspan import Snapshot
from latspan._base import log as _log
from latspan.errors import EmptyHistogramError
from latspan.testing import capture

NOT_CONFIGURED = "latspan.configure() was not called in this process"
NOT_INSTRUMENTED = "no client library is instrumented, and nothing was recorded by hand"
NO_CALL = "no call of an instrumented library and no request has ended in this process yet"
SHUT_DOWN = "latspan.shutdown() was called, and a snapshot shows only the current configuration"

QUESTIONS: dict[str, Callable[[Snapshot], object]] = {
    "time_to_first_token": lambda snapshot: snapshot.percentile("ttft", 95),
    "duration": lambda snapshot: snapshot.metric("duration").mean(),
    "queue": lambda snapshot: snapshot.segment("queue").percentile(50),
}


@pytest.fixture(autouse=True)
def instrumented_anew(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Forget what other tests were warned of, have instrumented and configured."""
    monkeypatch.setattr(_log, "_given", set[str]())
    monkeypatch.setattr("latspan._live.instrument._discovery._switched_on", {})
    monkeypatch.setattr("latspan._live.sdk._lifecycle._was_configured", False)
    yield
    latspan.shutdown()
    latspan.uninstrument()


def reasons(snapshot: Snapshot) -> set[str]:
    """Return what the errors of all questions give as the reason; each has a hint."""
    found: set[str] = set()
    for name, ask in QUESTIONS.items():
        with pytest.raises(EmptyHistogramError) as caught:
            ask(snapshot)
        start, _, reason = caught.value.message.partition(": ")
        assert start == f"there are no values of {name}"
        assert caught.value.hint
        found.add(reason)
    return found


def test_each_state_of_latspan_has_its_reason() -> None:
    """From the first line of a program to its last."""
    assert reasons(latspan.snapshot()) == {NOT_CONFIGURED}
    latspan.configure(export_enabled=False)
    assert reasons(latspan.snapshot()) == {NOT_INSTRUMENTED}
    latspan.auto_instrument()
    assert reasons(latspan.snapshot()) == {NO_CALL}
    latspan.shutdown()
    assert reasons(latspan.snapshot()) == {SHUT_DOWN}


def test_a_disabled_sdk_is_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """configure() was called, so the reason must be another."""
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    latspan.configure()

    assert reasons(latspan.snapshot()) == {"latspan is off, because OTEL_SDK_DISABLED is true"}


def test_a_capture_gives_the_reason_too() -> None:
    """The fixture of the pytest plugin records with it."""
    with capture() as captured:
        assert reasons(captured.snapshot()) == {NOT_INSTRUMENTED}
        latspan.auto_instrument()
        assert reasons(captured.snapshot()) == {NO_CALL}


def test_a_question_about_one_kind_has_the_kind_and_the_reason() -> None:
    """Neither replaces the other."""
    with pytest.raises(EmptyHistogramError) as caught:
        latspan.snapshot().percentile("ttft", 95, kind="call")

    assert caught.value.message == (
        f"there are no values of time_to_first_token for calls: {NOT_CONFIGURED}"
    )


def test_the_reason_is_no_part_of_what_was_recorded() -> None:
    """Snapshots with the same values are equal."""
    snapshot = latspan.snapshot()

    assert snapshot == replace(snapshot, empty_reason=None)


def test_the_reason_is_that_of_the_moment_of_the_snapshot() -> None:
    """A snapshot is a value."""
    before = latspan.snapshot()
    latspan.configure(export_enabled=False)

    assert reasons(before) == {NOT_CONFIGURED}


def test_a_snapshot_with_values_has_no_such_reason() -> None:
    """The hint then lists what was recorded."""
    latspan.configure(export_enabled=False)
    with latspan.request("work"):
        pass

    snapshot = latspan.snapshot()

    assert snapshot.empty_reason is None
    with pytest.raises(EmptyHistogramError, match="there are no values of queue\n"):
        snapshot.segment("queue").mean()


def test_a_count_of_zero_that_is_a_mistake_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """Zero is a number and no error; before the first call it is no mistake either."""
    assert [latspan.snapshot().count() for _ in range(2)] == [0, 0]
    (warning,) = caplog.messages
    assert warning.startswith(f"count() is 0: {NOT_CONFIGURED}; hint: ")

    latspan.configure(export_enabled=False)
    latspan.auto_instrument()
    assert latspan.snapshot().count() == 0
    assert caplog.messages == [warning]


def test_a_program_prints_the_reason_without_a_logging_setup() -> None:
    """As the last two lines of its traceback."""
    done = subprocess.run(
        [sys.executable, "-c", "import latspan; latspan.snapshot().percentile('ttft', 95)"],
        capture_output=True,
        text=True,
    )

    assert done.stderr.endswith(
        f"EmptyHistogramError: there are no values of time_to_first_token: {NOT_CONFIGURED}\n"
        "hint: call latspan.configure() before the first call; export_enabled=False records without"
        " exporting\n"
    )
