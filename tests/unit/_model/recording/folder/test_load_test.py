"""Account of a load test: what is written is read, and what is missing is unknown."""

from __future__ import annotations

import json

from latspan._model.goals import Target
from latspan._model.recording.folder import LoadTest, StepAccount, target_fields
from latspan._model.recording.folder._load_test import load_test_of
from latspan._model.segments import Kind


def test_an_account_is_read_as_it_was_written() -> None:
    """Its targets too, as far as they were judged."""
    target = Target(metric="ttft", percentile=95, limit_ns=500_000_000, owner="chat team")
    written = LoadTest(
        name="chat",
        kind=Kind.REQUEST,
        percentile=99,
        steps=(
            StepAccount(
                load={"rate_per_s": 2.0},
                intended=10,
                unsent=3,
                cut=(5,),
                sent={"measured": 7},
                generator={"busy": 0.1},
                interrupted=True,
                offered_per_s=2.1,
                reached_per_s=2.0,
            ),
            StepAccount(load={"concurrency": 1}),
        ),
        ended=False,
        interrupted=True,
        target_fields=target_fields([target]),
    )
    read = load_test_of(json.loads(json.dumps({"measurement": written.fields()})))

    assert read is not None
    assert read == written
    assert [step.is_alone for step in read.steps] == [False, True]
    (judged,) = read.targets
    assert (judged.metric, judged.percentile, judged.limit_ns) == (
        "time_to_first_token",
        95,
        500_000_000,
    )


def test_what_another_tool_does_not_account_for_is_unknown() -> None:
    """Whether its load test ended early is not known either."""
    read = load_test_of({"measurement": {"steps": [{"load": {"rate": 4}}]}})

    assert read is not None
    assert (read.kind, read.ended, read.was_cut_short) == (None, None, False)
    assert not read.steps[0].is_complete
