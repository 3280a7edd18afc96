"""The generator writes recordings that latspan accepts and that have the stated truth."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Final

import jsonschema
import numpy as np
import pytest

import latspan
from verdicts._generator import (
    Bursts,
    Patience,
    Requests,
    Route,
    Runs,
    Sampling,
    System,
    draw,
    limit_missed_by,
    lines_of,
    miss_share,
    observed_of,
    write_recording,
)
from verdicts._scenarios import CELLS, PAIRS, POWER, Cell

SCHEMA: Final = Path(__file__).parents[4] / "docs" / "reference" / "recording-1.schema.json"
MANY: Final = 200_000
SYSTEMS: Final[dict[str, System]] = {
    **{f"{each.name}, before": each.before for each in (*PAIRS, *POWER)},
    **{f"{each.name}, after": each.after for each in (*PAIRS, *POWER)},
    **{each.name: each.system for each in CELLS},
}


def drawn(system: System, *, requests: int = MANY, seed: int = 7) -> Requests:
    return draw(replace(system, requests=requests), np.random.default_rng(seed))


@pytest.mark.parametrize("name", SYSTEMS)
def test_latspan_reads_every_request_that_was_written(name: str, tmp_path: Path) -> None:
    """A recording has no note, and as many requests as were kept, which tile their duration."""
    system = SYSTEMS[name]
    requests = drawn(system, requests=60)
    write_recording(tmp_path / "one", system, requests, "0123456789abcdef")

    recording = latspan.open_recording(tmp_path / "one")
    records = list(recording.records(kind=system.kind))

    assert recording.notes == ()
    assert len(records) == requests.kept.sum()
    assert all(
        sum(each.end_ns - each.start_ns for each in record.segments) == record.duration_ns
        for record in records
    )


@pytest.mark.parametrize("name", SYSTEMS)
def test_lines_have_the_published_schema(name: str) -> None:
    """Each line is valid in the schema of recordings."""
    system = SYSTEMS[name]
    schema = json.loads(SCHEMA.read_text("utf-8"))

    for line in lines_of(system, drawn(system, requests=10)):
        jsonschema.validate(json.loads(line), schema)


@pytest.mark.parametrize("cell", CELLS, ids=[each.name for each in CELLS])
def test_the_percentile_of_a_cell_is_at_its_limit(cell: Cell) -> None:
    """The stated share of the requests misses the limit of a target."""
    requests = drawn(cell.system)
    values = requests.latent_ns
    if cell.metric == "time_to_first_token":
        values = requests.queue_ns + requests.prefill_ns
    missed = ((values > cell.limit_ms * 1e6) | requests.failed).mean()

    expected = 1 - cell.percentile / 100
    assert missed == pytest.approx(expected, rel=4 * ((1 - expected) / expected / MANY) ** 0.5)


def test_the_closed_form_is_refused_for_another_distribution() -> None:
    """The share above a limit has no closed form if the segments vary on their own."""
    with pytest.raises(ValueError, match="closed form"):
        miss_share(System(), "duration", 1000)
    assert miss_share(System(own_spread=0, lengths="always_100"), "duration", 1488) == 0.5
    assert limit_missed_by(
        System(own_spread=0, lengths="always_100"), "duration", 0.5
    ) == pytest.approx(1488)


@pytest.mark.parametrize("correlated", [False, True])
@pytest.mark.parametrize("share", [0.1, 0.2])
def test_the_stated_share_is_cut(share: float, correlated: bool) -> None:
    """Users cancel the stated share of the requests."""
    requests = drawn(System(patience=Patience(share, correlated=correlated)))

    assert requests.cut.mean() == pytest.approx(share, abs=0.005)


def test_users_of_slow_requests_are_less_patient_if_stated() -> None:
    """The correlation of patience and slowness is zero, or clearly negative."""

    def correlation(patience: Patience) -> float:
        requests = drawn(System(patience=patience))
        logs = np.log([requests.latent_ns, requests.patience_ns])
        return float(np.corrcoef(logs)[0, 1])

    assert correlation(Patience(correlated=False)) == pytest.approx(0, abs=0.02)
    assert correlation(Patience(correlated=True)) == pytest.approx(-0.7, abs=0.02)


def test_a_cut_request_shows_only_what_was_seen_of_it(tmp_path: Path) -> None:
    """A request that is cut ends after the patience, without the metrics of its rest."""
    system = System(patience=Patience(0.5))
    requests = drawn(system, requests=400)
    write_recording(tmp_path / "one", system, requests, "0123456789abcdef")

    records = list(latspan.open_recording(tmp_path / "one").records(kind="call"))

    assert [each.outcome == "cancelled" for each in records] == requests.cut.tolist()
    first_ns = requests.queue_ns + requests.prefill_ns
    for number, record in enumerate(records):
        if requests.cut[number]:
            assert record.duration_ns == requests.patience_ns[number]
            assert "time_per_output_token" not in record.metrics
            has_token = "time_to_first_token" in record.metrics
            assert has_token == (first_ns[number] <= requests.patience_ns[number])
            assert ("decode" in {each.name for each in record.segments}) <= has_token
        else:
            assert record.duration_ns == requests.latent_ns[number]


def test_the_weights_of_the_kept_requests_add_up_to_all() -> None:
    """Requests in bursts are slow and rarely kept, and weights of 1/ratio correct for that."""
    system = System(bursts=Bursts(), sampling=Sampling(1.0, 0.1))
    requests = drawn(system)
    weights = 1 / requests.ratio[requests.kept]
    slow = requests.latent_ns > np.quantile(requests.latent_ns, 0.95)

    assert requests.in_burst.mean() == pytest.approx(0.2, abs=0.005)
    assert weights.sum() == pytest.approx(MANY, rel=0.02)
    assert weights[slow[requests.kept]].sum() / weights.sum() == pytest.approx(0.05, rel=0.05)
    assert slow[requests.kept].mean() < 0.03


def test_requests_arrive_faster_in_bursts_only() -> None:
    """The gaps before requests in bursts are a tenth of the others."""
    requests = drawn(System(bursts=Bursts(), rate_per_s=2.0))
    gaps_s = np.diff(requests.start_ns) / 1e9
    in_burst = requests.in_burst[1:]

    assert gaps_s[~in_burst].mean() == pytest.approx(0.5, rel=0.02)
    assert gaps_s[in_burst].mean() == pytest.approx(0.05, rel=0.03)


def test_consecutive_requests_are_correlated_if_stated() -> None:
    """The logarithms of consecutive durations have the stated correlation."""
    system = System(shape="autocorrelated", own_spread=0, lengths="always_100")
    logs = np.log(drawn(system, requests=20_000).latent_ns)

    assert np.corrcoef(logs[1:], logs[:-1])[0, 1] == pytest.approx(0.8, abs=0.02)


@pytest.mark.parametrize(("lengths", "tail"), [("50_or_150", 150), ("always_100", 100)])
def test_mean_lengths_are_equal_and_tails_are_not(lengths: str, tail: int) -> None:
    """The answers of both sides of *other_tail* have the same mean length and another p95."""
    (pair,) = [each for each in PAIRS if each.name == "other_tail"]
    (system,) = [each for each in (pair.before, pair.after) if each.lengths == lengths]
    tokens = drawn(system).tokens

    assert tokens.mean() == pytest.approx(100, rel=0.01)
    assert np.quantile(tokens, 0.95) == tail


def test_only_the_mix_of_routes_changes() -> None:
    """Each route has the same distribution in both mixes."""
    before = System(routes=(Route("/fast", 0.8), Route("/slow", 0.2, 3.0)))
    after = System(routes=(Route("/fast", 0.97), Route("/slow", 0.03, 3.0)))
    one, other = drawn(before), drawn(after, seed=8)

    assert (one.route == 1).mean() == pytest.approx(0.2, abs=0.005)
    assert (other.route == 1).mean() == pytest.approx(0.03, abs=0.003)
    for route in (0, 1):
        p95s = [np.quantile(each.latent_ns[each.route == route], 0.95) for each in (one, other)]
        assert p95s[0] == pytest.approx(p95s[1], rel=0.03)


def test_shorter_answers_take_the_same_time_per_token() -> None:
    """Half as long answers change the duration, and not the time per token."""
    long, short = drawn(System()), drawn(System(lengths="half"), seed=8)
    per_token = [np.median(each.decode_ns / (each.tokens - 1)) for each in (long, short)]

    assert short.tokens.mean() / long.tokens.mean() == pytest.approx(0.5, rel=0.01)
    assert per_token[0] == pytest.approx(per_token[1], rel=0.01)


def test_levels_of_runs_vary_as_stated() -> None:
    """A tenth of the runs is 30 % slower, and the others vary by 5 %."""
    rng = np.random.default_rng(3)
    runs = Runs(spread=0.05, outlier_share=0.1, outlier_factor=1.3)
    levels = np.array([runs.level(rng) for _ in range(10_000)])

    assert np.std(np.log(levels[levels < 1.13])) == pytest.approx(0.05, abs=0.004)
    assert (levels > 1.15).mean() == pytest.approx(0.1, abs=0.01)


def test_requests_in_memory_are_those_of_the_file(tmp_path: Path) -> None:
    """What an assertion receives equals what the commands read from files."""
    system = System(
        bursts=Bursts(),
        sampling=Sampling(1.0, 0.3),
        patience=Patience(0.3, correlated=True),
        failures=0.1,
    )
    requests = drawn(system, requests=300)
    write_recording(tmp_path / "one", system, requests, "0123456789abcdef")
    records = latspan.open_recording(tmp_path / "one").records(kind="call")

    read = [
        (
            each.duration_ns,
            each.outcome,
            getattr(each.metrics.get("time_to_first_token"), "value", None),
            each.ratio,
        )
        for each in records
    ]

    assert read == observed_of(requests)
