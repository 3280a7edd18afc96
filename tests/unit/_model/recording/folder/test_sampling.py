"""The sample of records that a recording keeps above its rate limit."""

from __future__ import annotations

from collections import Counter

import pytest

from latspan import Kind
from latspan._base.nanoseconds import NS_PER_S
from latspan._model.recording.folder._sampling import RecordSampler
from latspan.integrations import Outcome
from latspan.testing import RequestRecord


def record(second: float, *, root: int = 0, scope: int = 0) -> RequestRecord:
    return RequestRecord(
        name="chat",
        kind=Kind.REQUEST if scope else Kind.CALL,
        outcome=Outcome.COMPLETED,
        start_epoch_ns=round(second * NS_PER_S),
        duration_ns=0,
        segments=(),
        root_id=root,
        scope_id=scope,
    )


def test_below_the_limit_everything_is_kept() -> None:
    """Also without a limit at any rate."""
    limited, unlimited = RecordSampler(10), RecordSampler(None)

    assert {limited.ratio_of(record(100 + n / 9)) for n in range(90)} == {1.0}
    assert {unlimited.ratio_of(record(100)) for _ in range(10_000)} == {1.0}


@pytest.mark.parametrize("rate", [1_000, 20_000])
def test_above_the_limit_the_number_of_kept_records_is_near_it(rate: int) -> None:
    """In each second, the first and a sudden rise included, it is at most some times the limit."""
    sampler = RecordSampler(100)
    kept: Counter[int] = Counter()
    for number in range(5 * rate):
        second = 100 + number / rate
        kept[int(second)] += sampler.ratio_of(record(second)) > 0

    assert max(kept.values()) < 700
    assert 80 <= kept[104] <= 120


def test_the_stated_fractions_add_up_to_the_number_of_records() -> None:
    """The sum of 1/ratio estimates how many records there were."""
    sampler = RecordSampler(100)
    ratios = [sampler.ratio_of(record(100 + number / 5_000)) for number in range(50_000)]

    assert sum(1 / ratio for ratio in ratios if ratio) == pytest.approx(50_000, rel=0.05)


def test_a_request_is_kept_or_left_out_whole() -> None:
    """With all calls and stages inside it, and with one fraction."""
    sampler = RecordSampler(50)
    chosen: dict[int, set[float]] = {}
    for root in range(1, 2_000):
        second = 100 + root / 400
        for scope in (0, 0, root):
            ratio = sampler.ratio_of(record(second, root=root, scope=scope))
            chosen.setdefault(root, set()).add(ratio)

    assert all(len(ratios) == 1 for ratios in chosen.values())
    assert len({ratio for ratios in chosen.values() for ratio in ratios}) > 2


def test_many_open_requests_are_forgotten() -> None:
    """A program whose requests never end does not fill the memory."""
    sampler = RecordSampler(1)
    for root in range(1, 30_000):
        sampler.ratio_of(record(100, root=root))

    assert len(sampler._chosen) <= 10_000  # pyright: ignore[reportPrivateUsage]
