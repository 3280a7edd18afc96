"""Rules, each on a small table whose cause is known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from latspan import semconv
from latspan._model.segments import Source
from latspan._study.diagnose import Calibration, Conclusion, diagnose_table
from latspan._study.diagnose import _decode_rules as decode_rules
from latspan._study.diagnose import _server_rules as server_rules
from support.tables import SIZE, cause_of, facts_of, in_tail, poisson, table_in_ms

_TAIL = 40
_EVEN = [100.0] * SIZE


@pytest.mark.parametrize(
    ("segment", "cause"),
    [
        ("dispatch_lag", "load_generator"),
        ("event_loop", "blocked_event_loop"),
        ("pool_wait", "client_pool"),
        ("send", "network_distance"),
        ("network", "network_jitter"),
        ("gateway", "gateway_queue"),
        ("retry", "retries"),
        ("call", "call_chain"),
        ("prepare", "client_preparation"),
        ("consumer", "slow_consumer"),
        ("postprocess", "post_processing"),
        ("stream_close", "post_processing"),
        ("model_load", "cold_start"),
        ("queue", "under_capacity"),
        ("server_wait", "server_wait"),
        ("reasoning", "reasoning"),
    ],
)
def test_a_leading_segment_has_its_rule(segment: str, cause: str) -> None:
    """A segment that leads in the tail only is explained by the rule of its name."""
    assert cause_of({segment: in_tail(5, 900), "decode": _EVEN}) == cause


@pytest.mark.parametrize(
    ("kind", "cause"),
    [
        ("retrieve", "retrieval"),
        ("tool", "slow_tool"),
        ("tokenize", "tokenization"),
        ("safety", "safety_check"),
        ("postprocess", "post_processing"),
        ("parse", "parsing"),
        ("auth", "authentication"),
        ("route", "routing"),
        ("send_stream", "slow_reader"),
        ("queue", "under_capacity"),
        ("plan", "own_stage"),
    ],
)
def test_a_stage_counts_as_its_kind(kind: str, cause: str) -> None:
    """A stage may have any name, and its kind selects the rule."""
    segments = {"my_stage": in_tail(5, 900), "decode": _EVEN}
    assert cause_of(segments, kinds={"my_stage": kind}) == cause


def test_http_requests_to_one_host_are_a_dependency() -> None:
    """Such a segment has the name of the host."""
    segments = {"http vectors.test": in_tail(5, 900), "decode": _EVEN}
    assert cause_of(segments) == "slow_dependency"


def test_a_delay_that_only_slow_requests_have_leads() -> None:
    """Slow requests take 1.4 times as long as typical ones, but only they are delayed."""
    segments = {"event_loop": in_tail(1, 95), "decode": [150.0] * SIZE, "prefill": _EVEN}
    assert cause_of(segments, numbers={"output_tokens": [20.0] * SIZE}) == "blocked_event_loop"


def test_a_delay_that_typical_requests_have_too_does_not_lead() -> None:
    """The work of the model is the largest part of all requests then."""
    segments = {"event_loop": in_tail(40, 95), "decode": [150.0] * SIZE}
    assert cause_of(segments, numbers={"output_tokens": [10.0] * SIZE}) == "slow_model"


def test_a_few_prompt_tokens_have_no_pace() -> None:
    """What each prompt takes, whatever its length, is not a long time per token."""
    segments = {"event_loop": in_tail(1, 60), "prefill": [80.0] * SIZE}
    assert cause_of(segments, numbers={"input_tokens": [12.0] * SIZE}) == "blocked_event_loop"
    assert cause_of(segments, numbers={"input_tokens": [50.0] * SIZE}) == "slow_prefill"


def test_a_wait_of_typical_requests_is_a_lack_of_capacity() -> None:
    """A queue in which typical requests wait too is not one of bursts."""
    assert cause_of({"queue": [800.0] * SIZE, "decode": _EVEN}) == "under_capacity"


def test_requests_that_arrive_together_are_bursts() -> None:
    """Arrivals in bursts explain a wait even if typical requests have it."""
    starts = [20_000.0 * (number // 20) for number in range(SIZE)]
    queue = [100.0 * (number % 20) for number in range(SIZE)]
    assert cause_of({"queue": queue, "decode": _EVEN}, starts=starts) == "bursts"


def test_random_arrivals_are_no_bursts() -> None:
    """A queue of independent arrivals is one of too much load, however seldom typical ones wait."""
    starts = np.cumsum(np.random.default_rng(1).exponential(1_000, SIZE)).tolist()
    segments = {"queue": in_tail(5, 900), "decode": _EVEN}
    assert cause_of(segments, starts=starts) == "under_capacity"


def test_bursts_at_a_queue_that_is_never_empty_are_too_many_requests() -> None:
    """The evidence does not state that arrivals are no bursts, because they are."""
    starts = [20_000.0 * (number // 20) for number in range(SIZE)]
    queue = [300.0 + 45.0 * (number % 20) for number in range(SIZE)]
    table = table_in_ms({"queue": queue, "decode": [10.0] * SIZE}, starts=starts)
    finding = diagnose_table(table).finding
    assert finding is not None
    assert finding.cause == "under_capacity"
    assert "the queue is hardly ever empty in the second half of the recording" in finding.evidence
    assert "bursts" not in " ".join(finding.evidence)


def test_a_wait_that_grows_is_an_overload() -> None:
    """Even if requests arrive in bursts: the load exceeds the capacity."""
    starts = [20_000.0 * (number // 20) for number in range(SIZE)]
    queue = [10.0 * number + 100.0 * (number % 20) for number in range(SIZE)]
    table = table_in_ms({"queue": queue, "decode": _EVEN}, starts=starts)
    finding = diagnose_table(table).finding
    assert finding is not None
    assert finding.cause == "under_capacity"
    assert "the wait grows through the recording" in " ".join(finding.evidence)


@pytest.mark.parametrize("slow_together", [True, False])
def test_fewer_requests_during_slow_ones_are_no_evidence(*, slow_together: bool) -> None:
    """Neither those in flight nor those that wait: a load explains a wait only if it is higher."""
    # Eight requests begin at the same time, and two at another.
    is_slow = [number % 10 > 7 for number in range(SIZE)]
    starts = [20_000.0 * (number // 10) + 9_000.0 * is_slow[number] for number in range(SIZE)]
    if slow_together:
        is_slow = [not slow for slow in is_slow]
    queue = [900.0 if slow else 5.0 for slow in is_slow]
    waiting = [(8.0 if slow == slow_together else 2.0) for slow in is_slow]
    table = table_in_ms(
        {"queue": queue, "decode": _EVEN}, starts=starts, numbers={"requests_waiting": waiting}
    )
    finding = server_rules.queue(facts_of(table))
    assert finding is not None
    text = " ".join(finding.evidence)
    assert ("other requests in flight during slow ones" in text) == slow_together
    assert ("waiting requests during slow ones" in text) == slow_together


def test_a_full_cache_explains_a_queue() -> None:
    """Requests that wait while the KV cache is full need memory and not slots."""
    assert (
        cause_of({"queue": in_tail(5, 900)}, numbers={"kv_usage": in_tail(0.5, 0.97)}) == "kv_cache"
    )
    assert (
        cause_of({"queue": in_tail(5, 900)}, numbers={"kv_usage": in_tail(0.5, 0.6)})
        == "under_capacity"
    )


@pytest.mark.parametrize(("idle", "cause"), [(0.1, "kv_cache"), (0.9, "under_capacity")])
def test_a_cache_that_is_as_full_without_requests_is_not_the_limit(idle: float, cause: str) -> None:
    """Some servers count what they keep of finished requests, which gives way to others."""
    numbers = {
        "kv_usage": in_tail(idle, 0.95),
        "requests_running": in_tail(0, 4),
        "requests_waiting": in_tail(0, 3),
    }
    assert cause_of({"queue": in_tail(5, 900)}, numbers=numbers) == cause


def test_a_queue_without_a_request_before_it_has_evidence_of_others() -> None:
    """None of the recording is in flight, and requests wait nevertheless."""
    finding = diagnose_table(
        table_in_ms({"queue": in_tail(5, 900), "decode": [9.0] * SIZE})
    ).finding
    assert finding is not None
    assert finding.cause == "under_capacity"
    assert finding.evidence[-1].startswith("100 % of the requests that wait come in 40 busy times")


def test_requests_of_one_instant_do_not_wait_longer_and_longer() -> None:
    """The order of such requests is no time."""
    waits = [100.0 * number for number in range(SIZE)]
    table = table_in_ms({"queue": waits, "decode": _EVEN}, starts=[0.0] * SIZE)
    finding = diagnose_table(table).finding
    assert finding is not None
    assert finding.evidence[-1] == "all requests arrive within 0.0 ms"


def test_what_delays_most_requests_alone_is_the_way() -> None:
    """Three of four users are far from a server whose queue is estimated."""
    near = [number % 4 == 0 for number in range(SIZE)]
    segments = {"queue": [5.0 if each else 300.0 for each in near], "decode": _EVEN}
    starts = [2_000.0 * number for number in range(SIZE)]
    assert cause_of(segments, starts=starts, uncertain={"queue": 1.0}) == "network_distance"


def test_connections_that_are_reused_are_a_long_way() -> None:
    """The time to connect is one of missing reuse only if connections are not reused."""
    segments = {"connect": in_tail(5, 900), "decode": _EVEN}
    assert cause_of(segments, numbers={"reused": [0.0] * SIZE}) == "no_connection_reuse"
    assert cause_of(segments, numbers={"reused": [1.0] * SIZE}) == "network_distance"


def test_a_call_chain_names_the_longest_call() -> None:
    """The lever on a chain is the call that takes longest."""
    table = table_in_ms(
        {"call": in_tail(5, 900), "decode": _EVEN},
        earlier={"rewrite": [10.0] * SIZE, "plan": in_tail(5, 800)},
    )
    finding = diagnose_table(table).finding
    assert finding is not None
    assert "'plan'" in finding.lever


def test_longer_prompts_in_the_tail_are_a_long_context() -> None:
    """Prefill that grows with the prompt is one of its length."""
    tokens = in_tail(500, 5_000)
    segments = {"prefill": [each / 5 for each in tokens], "decode": [10.0] * SIZE}
    assert cause_of(segments, numbers={"input_tokens": tokens}) == "long_context"


def test_a_few_long_prompts_are_in_the_evidence() -> None:
    """The band has short prompts too, so a median would state equal lengths."""
    tokens = [900.0 if number % 25 == 0 else 12.0 for number in range(SIZE)]
    segments = {"prefill": [40 + each / 7 for each in tokens], "decode": [10.0] * SIZE}
    finding = diagnose_table(table_in_ms(segments, numbers={"input_tokens": tokens})).finding
    assert finding is not None
    assert finding.cause == "long_context"
    assert "slow requests have 367 prompt tokens on average, typical ones 12" in finding.evidence


def test_prompt_length_means_tokens_that_were_sent() -> None:
    """
    A case told as "short prompt" carries a system prompt of 1,500 tokens in each request.

    The length counts the tokens that the provider counted, so the prefix is the cause as soon as
    it is known to be stable, and the evidence shows all tokens.
    """
    table = table_in_ms(
        {"prefill": [600.0] * SIZE, "decode": _EVEN}, numbers={"input_tokens": [1_560.0] * SIZE}
    )
    finding = diagnose_table(table, stable_tokens=1_500).finding
    assert finding is not None
    assert finding.cause == "reprocessed_prefix"
    assert any("1,560 prompt tokens" in sentence for sentence in finding.evidence)


def test_a_cached_prefix_is_not_processed_again() -> None:
    """Cached tokens are not tokens that the server processes."""
    table = table_in_ms(
        {"prefill": [600.0] * SIZE, "decode": _EVEN},
        numbers={"input_tokens": [1_560.0] * SIZE, "cached_tokens": [1_500.0] * SIZE},
    )
    finding = diagnose_table(table, stable_tokens=1_500).finding
    assert finding is not None
    assert finding.cause == "slow_prefill"


def test_without_token_counts_a_long_prefill_has_no_known_reason() -> None:
    """Long prompts and a slow server look the same."""
    finding = diagnose_table(table_in_ms({"prefill": [600.0] * SIZE, "decode": _EVEN})).finding
    assert finding is not None
    assert "whether prompts are long is not known" in finding.summary
    assert "LATSPAN_REQUEST_STREAM_USAGE=true" in finding.lever


def test_prefill_that_became_slower_per_token_is_slow() -> None:
    """Only a calibration can show that a token takes longer than before."""
    tokens = np.linspace(400, 900, SIZE).tolist()
    table = table_in_ms(
        {"prefill": [each * 0.8 for each in tokens], "decode": _EVEN},
        numbers={"input_tokens": tokens},
    )
    causes = [
        diagnose_table(table, calibration=Calibration(0.0, per_token_ns)).finding
        for per_token_ns in (0.2e6, 0.8e6)
    ]
    assert [None if each is None else each.cause for each in causes] == [
        "slow_prefill",
        "long_context",
    ]


def _decode(output: Sequence[float], per_token: Sequence[float]) -> dict[str, list[float]]:
    return {"decode": [a * b for a, b in zip(output, per_token, strict=True)]}


def _decode_cause(
    output: list[float], per_token: list[float], **numbers: list[float]
) -> str | None:
    facts = {
        "output_tokens": output,
        "time_per_output_token": [each * 1e6 for each in per_token],
        "chunk_gap_median": [each * 1e6 for each in per_token],
        **numbers,
    }
    return cause_of(_decode(output, per_token), numbers=facts)


def test_long_answers_are_an_output_length() -> None:
    """Slow requests with many more tokens at the usual pace have long answers."""
    assert _decode_cause(in_tail(50, 400), [10.0] * SIZE) == "output_length"


@pytest.mark.parametrize("longer", [1.4, 2.1])
def test_longer_answers_at_an_equal_pace_are_no_slow_model(longer: float) -> None:
    """What slow requests have more of makes them slow."""
    output = [50.0 * (longer if number % 10 == 0 else 0.9) for number in range(SIZE)]
    assert _decode_cause(output, [10.0] * SIZE) == "output_length"


def test_what_typical_requests_have_too_makes_none_slow() -> None:
    """Decode is the largest segment of all, and only the queue differs."""
    segments = {"queue": in_tail(5, 380), "decode": [400.0] * SIZE}
    numbers = {"output_tokens": [50.0] * SIZE}
    assert cause_of(segments, numbers=numbers) == "under_capacity"


def test_a_delay_that_no_request_should_have_is_larger_than_a_queue() -> None:
    """All requests have a long way, and it saves more than the queue of a few."""
    segments = {"queue": in_tail(5, 380), "network": [600.0] * SIZE, "decode": [10.0] * SIZE}
    assert cause_of(segments) == "network_distance"


def test_an_even_slow_pace_is_a_slow_model() -> None:
    """A pace that is the same for all is the model's."""
    assert _decode_cause([50.0] * SIZE, [60.0] * SIZE) == "slow_model"


def test_a_slow_pace_of_some_requests_is_a_slow_decode() -> None:
    """A pace that follows neither load nor length is one of the host."""
    assert _decode_cause([50.0] * SIZE, in_tail(10, 50)) == "slow_decode"


def test_a_burst_of_chunks_is_buffering() -> None:
    """Streams that arrive at once although they were generated slowly are held back."""
    numbers = {"buffered": [1.0] * SIZE, "output_tokens": [50.0] * SIZE}
    segments = {"server_wait": in_tail(50, 900), "decode": _EVEN}
    assert cause_of(segments, numbers=numbers, goal="p95 ttft") == "buffering"


def test_decode_before_the_first_token_is_buffering() -> None:
    """The server had generated it, so neither the model nor the path is the cause."""
    numbers = {"output_tokens": [50.0] * SIZE}
    segments = {"prefill": [20.0] * SIZE, "decode": [800.0] * SIZE}
    assert cause_of(segments, numbers=numbers, goal="p95 ttft") == "buffering"


def test_stalls_without_other_prompts_are_random() -> None:
    """Stalls that follow no long prompt of others are the host's."""
    segments = {"prefill": [10.0] * SIZE, "decode": in_tail(500, 2_000)}
    numbers = {
        "stalled": in_tail(0, 1_500e6),
        "chunk_gap_median": [10e6] * SIZE,
        "input_tokens": [500.0] * SIZE,
    }
    assert cause_of(segments, numbers=numbers) == "random_stalls"


def test_stalls_beside_long_prompts_are_interference() -> None:
    """Streams that stall exactly while long prompts are processed wait for these."""
    tokens = [5_000.0 if number % 10 == 5 else 500.0 for number in range(SIZE)]
    met = [number % 10 == 4 for number in range(SIZE)]
    starts = [1_000.0 * number - (900 if tokens[number] > 500 else 0) for number in range(SIZE)]
    segments = {
        "prefill": [1_100.0 if each > 500 else 10.0 for each in tokens],
        "decode": [1_500.0 if each else 400.0 for each in met],
    }
    numbers = {
        "stalled": [1_100e6 if each else 0.0 for each in met],
        "chunk_gap_median": [10e6] * SIZE,
        "input_tokens": tokens,
        "time_to_first_token": [each * 1e6 for each in segments["prefill"]],
    }
    assert cause_of(segments, numbers=numbers, starts=starts) == "prefill_interference"


def test_a_pace_that_follows_the_load_is_contention() -> None:
    """A token that takes longer the more requests run is one of the batch."""
    busy = [number // 50 % 2 == 1 for number in range(SIZE)]
    starts = np.cumsum([100.0 if each else 2_000.0 for each in busy]).tolist()
    pace = [40.0 if each else 10.0 for each in busy]
    numbers = {"output_tokens": [50.0] * SIZE}
    assert cause_of(_decode([50.0] * SIZE, pace), numbers=numbers, starts=starts) == (
        "batch_contention"
    )


def test_the_load_of_other_clients_is_that_of_the_servers_metrics() -> None:
    """One request at a time is in flight here, and the server runs up to five of other clients."""
    busy = [number % 4 == 3 for number in range(SIZE)]
    pace = [40.0 if each else 10.0 for each in busy]
    numbers = {"output_tokens": [50.0] * SIZE}
    running = {"requests_running": [6.0 if each else 2.0 for each in busy]}
    starts = [5_000.0 * number for number in range(SIZE)]
    segments = _decode([50.0] * SIZE, pace)
    assert cause_of(segments, numbers=numbers, starts=starts) == "slow_decode"
    assert cause_of(segments, numbers={**numbers, **running}, starts=starts) == "batch_contention"


_HEADERS = {"queue": [800.0] * SIZE, "decode": _EVEN}


def test_a_wait_of_requests_that_are_alone_is_the_way_to_the_server() -> None:
    """Where headers show the queue, the way there and back looks like one."""
    alone = [2_000.0 * number for number in range(SIZE)]
    estimated = {"queue": 1.0}
    assert cause_of(_HEADERS, starts=alone, uncertain=estimated) == "network_distance"
    together = [200.0 * number for number in range(SIZE)]
    assert cause_of(_HEADERS, starts=together, uncertain=estimated) == "under_capacity"
    assert cause_of(_HEADERS, starts=alone) == "under_capacity"


def test_a_wait_behind_the_requests_of_other_clients_is_a_queue() -> None:
    """The server's metrics show them; and a queue, unlike a way, is sometimes empty."""
    alone = [2_000.0 * number for number in range(SIZE)]
    samples = {"requests_waiting": [3.0] * SIZE}
    table = table_in_ms(_HEADERS, starts=alone, uncertain={"queue": 1.0}, numbers=samples)
    finding = diagnose_table(table).finding
    assert finding is not None
    assert finding.cause == "under_capacity"
    evidence = " ".join(finding.evidence)
    assert "the server's metrics show 3 waiting requests during slow ones" in evidence
    assert "in flight" not in evidence
    varying = {"queue": [800.0 * (number % 5) for number in range(SIZE)], "decode": _EVEN}
    assert (
        cause_of(
            varying, starts=[5_000.0 * number for number in range(SIZE)], uncertain={"queue": 1.0}
        )
        != "network_distance"
    )


def test_a_cache_whose_hits_only_the_servers_metrics_show_is_one() -> None:
    """A prefix that is read from the cache is not processed again."""
    segments = {"prefill": in_tail(300, 900), "decode": [10.0] * SIZE}
    tokens = {"input_tokens": [1_000.0] * SIZE}
    causes = [
        diagnose_table(
            table_in_ms(segments, numbers={**tokens, "cache_hit_ratio": [ratio] * SIZE}),
            stable_tokens=800,
        ).finding
        for ratio in (0.0, 0.8)
    ]
    assert [each and each.cause for each in causes] == ["reprocessed_prefix", "slow_prefill"]


def test_many_failures_come_first() -> None:
    """A percentile that is a failure has no latency to explain."""
    failed = [number % 10 == 0 for number in range(SIZE)]
    diagnosis = diagnose_table(table_in_ms({"decode": _EVEN}, failed=failed))
    assert diagnosis.conclusion is Conclusion.UNRELIABLE


def test_six_equal_parts_are_spread_out() -> None:
    """No cause is named as the one to fix if no segment has a large share."""
    table = table_in_ms({f"part{number}": _EVEN for number in range(6)})
    assert diagnose_table(table).conclusion is Conclusion.SPREAD_OUT


def test_time_in_no_segment_asks_for_a_stage() -> None:
    """Unattributed time is not a cause, and the sentence names what to add."""
    diagnosis = diagnose_table(table_in_ms({"unattributed": [900.0] * SIZE, "decode": _EVEN}))
    assert diagnosis.conclusion is Conclusion.NOT_INSTRUMENTED
    assert "latspan.stage" in diagnosis.sentence


def test_every_finding_has_evidence_and_what_would_refute_it() -> None:
    """A cause without numbers, or that nothing could refute, is an opinion."""
    finding = diagnose_table(table_in_ms({"queue": in_tail(5, 900), "decode": _EVEN})).finding
    assert finding is not None
    assert finding.evidence
    assert finding.refuted_by
    assert finding.lever


def test_load_at_a_server_counts_its_own_requests_only() -> None:
    """Requests at other servers are not in the same batch."""
    servers = ["a", "b"] * 20
    table = table_in_ms(
        {"decode": [2_500.0] * 40},
        groups={semconv.SERVER_ADDRESS: servers},
    )
    facts = facts_of(table)
    middle = slice(10, 30)
    assert facts.in_flight[middle] == pytest.approx(np.full(20, 1.6))
    assert facts.in_flight_at_server[middle] == pytest.approx(np.full(20, 0.4))


def test_a_wait_beside_a_reported_queue_is_in_front_of_the_server() -> None:
    """A server that reports its queue has no part in the rest of the wait."""
    segments = {"server_wait": in_tail(5, 900), "decode": [10.0] * SIZE}
    reported = {"queue_reported": [1.0] * SIZE}
    assert cause_of(segments, starts=poisson()) == "server_wait"
    assert cause_of(segments, starts=poisson(), numbers=reported) == "network_jitter"
    every = {"server_wait": [700.0] * SIZE, "decode": [10.0] * SIZE}
    assert cause_of(every, starts=poisson(), numbers=reported) == "network_distance"


def test_a_wait_in_transit_that_follows_the_load_is_a_gateway() -> None:
    """Requests that start alone hardly have it."""
    # Ten requests at the same time, then a pause.
    starts = [20_000.0 * (number // 10) + number % 10 for number in range(SIZE)]
    waits = [5.0 + 200.0 * (number % 10) for number in range(SIZE)]
    segments = {"network": waits, "decode": [10.0] * SIZE}
    assert cause_of(segments, starts=starts) == "gateway_queue"


def test_a_wait_in_transit_that_follows_the_size_is_a_slow_path() -> None:
    """Large requests take long to send on a narrow path."""
    tokens = np.random.default_rng(3).uniform(100, 4_000, SIZE)
    segments = {"network": (tokens / 5).tolist(), "decode": [10.0] * SIZE}
    table = table_in_ms(segments, starts=poisson(), numbers={"input_tokens": tokens.tolist()})
    finding = diagnose_table(table).finding
    assert finding is not None
    assert finding.cause == "network_distance"
    assert "send less" in finding.lever


def test_streams_in_clumps_are_held_back() -> None:
    """A proxy that releases what it has every 400 ms delays the first token as well."""
    numbers = {
        "output_tokens": [50.0] * SIZE,
        "clumped": [0.9] * SIZE,
        "chunk_gap_max": [400e6] * SIZE,
    }
    segments = {"server_wait": [420.0] * SIZE, "prefill": [10.0] * SIZE}
    assert cause_of(segments, numbers=numbers, goal="p95 ttft") == "buffering"


@pytest.mark.parametrize(
    ("name", "cause"),
    [("input_tokens", "long_context"), ("reasoning_tokens", "reasoning")],
)
def test_token_counts_explain_a_wait_that_nothing_divides(name: str, cause: str) -> None:
    """A wait that follows a number of tokens is theirs; queue and prefill stay one segment."""
    tokens = np.random.default_rng(5).uniform(100, 4_000, SIZE)
    segments = {"server_wait": (tokens / 5).tolist(), "decode": [10.0] * SIZE}
    table = table_in_ms(segments, numbers={name: tokens.tolist()}, goal="p95 ttft")
    finding = diagnose_table(table).finding
    assert finding is not None
    assert (finding.cause, finding.segments) == (cause, ("server_wait",))


def test_a_cache_that_similar_prompts_use_could_hold_the_prefix() -> None:
    """Slow requests have as long prompts as the others, and read none of them from the cache."""
    segments = {"prefill": in_tail(20, 600), "decode": [10.0] * SIZE}
    numbers = {"input_tokens": [1_000.0] * SIZE, "cached_tokens": in_tail(900, 0)}
    assert cause_of(segments, numbers=numbers, goal="p95 ttft") == "reprocessed_prefix"


def test_all_prompt_tokens_of_a_slow_device_take_long() -> None:
    """Short prompts at 4 ms per token are no long context, although prefill grows with them."""
    tokens = np.random.default_rng(5).uniform(80, 110, SIZE)
    segments = {"prefill": (tokens * 4).tolist(), "decode": [10.0] * SIZE}
    assert cause_of(segments, numbers={"input_tokens": tokens.tolist()}, goal="p95 ttft") == (
        "slow_prefill"
    )


def test_a_server_that_pauses_lets_requests_wait_and_stalls_streams() -> None:
    """The wait is the larger one; both have the same cause."""
    slow = [number % 10 == 0 for number in range(SIZE)]
    numbers = {
        "output_tokens": [50.0] * SIZE,
        "stalled": [300e6 if each else 0.0 for each in slow],
        "chunk_gap_max": [300e6 if each else 8e6 for each in slow],
        "chunk_gap_median": [8e6] * SIZE,
    }
    segments = {"server_wait": in_tail(20, 600), "decode": in_tail(400, 700)}
    finding = diagnose_table(table_in_ms(segments, numbers=numbers)).finding
    assert finding is not None
    assert (finding.cause, finding.segments) == ("random_stalls", ("server_wait", "decode"))
    even = {name: values for name, values in numbers.items() if name == "output_tokens"}
    assert cause_of(segments, numbers=even) == "server_wait"


@pytest.mark.parametrize(
    ("tokens", "cause"), [(4_000.0, "long_context"), (1_500.0, "under_capacity")]
)
def test_an_estimated_queue_of_long_prompts_is_the_prompts(tokens: float, cause: str) -> None:
    """The calibration counts what others' prompts take as queue."""
    prompts = (tokens * np.random.default_rng(2).uniform(0.9, 1.1, SIZE)).tolist()
    segments = {"server_wait": in_tail(400, 900), "decode": [10.0] * SIZE}
    table = table_in_ms(segments, numbers={"input_tokens": prompts}, goal="p95 ttft")
    diagnosis = diagnose_table(table, calibration=Calibration(0.0, 400e6 / tokens / 1.1))
    assert diagnosis.finding is not None
    assert diagnosis.finding.cause == cause
    assert diagnosis.conclusion is (Conclusion.FIX if cause == "long_context" else Conclusion.TIE)


def test_streams_that_all_arrive_at_once_are_no_slow_model() -> None:
    """Nor for a goal on the duration: nothing of the answer is seen before its end."""
    numbers = {"output_tokens": [20.0] * SIZE, "buffered": [1.0] * SIZE}
    segments = {"prefill": [20.0] * SIZE, "decode": [480.0] * SIZE}
    assert cause_of(segments, numbers=numbers) == "buffering"
    assert cause_of(segments, numbers={"output_tokens": [20.0] * SIZE}) == "slow_model"


def test_a_path_that_also_delays_the_end_of_responses_is_full() -> None:
    """A gateway that holds requests would not hold the end of their responses."""
    starts = np.cumsum(np.random.default_rng(4).exponential(300, SIZE))
    wait = np.where(np.arange(SIZE) % 10 < 3, 400.0, 5.0)
    segments = {"network": wait.tolist(), "decode": _EVEN}
    closing = {"stream_close": (wait / 2).tolist()}
    assert cause_of({**segments, **closing}, starts=starts.tolist()) == "network_distance"


@pytest.mark.parametrize(
    ("slowed", "cause"), [(False, "prefill_interference"), (True, "slow_decode")]
)
def test_tokens_that_follow_the_prompts_of_others_in_all_requests(
    *, slowed: bool, cause: str
) -> None:
    """Nearly all streams meet prompts, so the slowest need not meet more; another cause may."""
    random = np.random.default_rng(6)
    starts, tokens = poisson(mean_ms=50), np.where(random.random(SIZE) < 0.3, 2_000.0, 100.0)
    numbers = {"input_tokens": tokens.tolist(), "output_tokens": [20.0] * SIZE}
    prefill = [1.0] * SIZE
    even = table_in_ms(
        {"prefill": prefill, "decode": [400.0] * SIZE}, starts=starts, numbers=numbers
    )
    met = decode_rules.prompts_met(facts_of(even))
    pace = 4 + np.minimum(met, 4_000) / 200 + random.normal(0, 4, SIZE)
    pace = np.where(slowed & (random.random(SIZE) < 0.1), 90 + pace, np.maximum(pace, 2))
    segments = {"prefill": prefill, "decode": (20 * pace).tolist()}
    assert cause_of(segments, starts=starts, numbers=numbers) == cause


def test_a_pace_that_gets_worse_is_no_contention() -> None:
    """Slower requests overlap more, which is not why they are slow."""
    pace = [10.0 if number < 300 else 60.0 for number in range(SIZE)]
    numbers = {"output_tokens": [50.0] * SIZE}
    starts = poisson(mean_ms=800)
    assert cause_of(_decode([50.0] * SIZE, pace), numbers=numbers, starts=starts) == "slow_decode"


def test_an_unknown_number_of_attempts_is_no_evidence() -> None:
    """The share of retries is known from their segment."""
    finding = diagnose_table(table_in_ms({"retry": in_tail(5, 900), "decode": _EVEN})).finding
    assert finding is not None
    assert finding.cause == "retries"
    assert "nan" not in " ".join(finding.evidence)


def _behind_a_link(per_request_ms: float, per_token_ms: float) -> tuple[list[float], ...]:
    """Return starts and transits, in ms, of messages that pass one after another, and tokens."""
    random = np.random.default_rng(9)
    starts = np.cumsum(random.exponential(60, SIZE))
    tokens = np.where(random.random(SIZE) < 0.1, 1_500.0, 100.0)
    transits, free = np.zeros(SIZE), 0.0
    for number in range(SIZE):
        free = max(free, starts[number]) + per_request_ms + per_token_ms * tokens[number]
        transits[number] = free - starts[number]
    return starts.tolist(), transits.tolist(), tokens.tolist()


@pytest.mark.parametrize(
    ("per_request_ms", "per_token_ms", "cause"),
    [(45, 0.0, "gateway_queue"), (0, 0.19, "network_distance")],
)
def test_a_full_path_delays_by_bytes_and_a_gateway_by_requests(
    per_request_ms: float, per_token_ms: float, cause: str
) -> None:
    """Both delay requests the more, the more are in flight."""
    starts, transits, tokens = _behind_a_link(per_request_ms, per_token_ms)
    segments = {"network": transits, "decode": [1.0] * SIZE}
    assert cause_of(segments, starts=starts, numbers={"input_tokens": tokens}) == cause


@pytest.mark.parametrize(("clumped", "cause"), [(0.0, "gateway_queue"), (0.9, "network_distance")])
def test_a_full_path_delivers_tokens_together(clumped: float, cause: str) -> None:
    """A gateway relays the stream of a request that it has let through as it arrives."""
    starts, transits, _ = _behind_a_link(45, 0.0)
    segments = {"network": transits, "decode": [1.0] * SIZE}
    late = np.where(np.array(transits) > 90, clumped, 0.0).tolist()
    assert cause_of(segments, starts=starts, numbers={"clumped": late}) == cause


def test_a_server_that_writes_tokens_together_is_no_full_path() -> None:
    """It does so for requests without others too."""
    starts, transits, _ = _behind_a_link(45, 0.0)
    segments = {"network": transits, "decode": [1.0] * SIZE}
    numbers = {"clumped": [0.75] * SIZE}
    assert cause_of(segments, starts=starts, numbers=numbers) == "gateway_queue"


@pytest.mark.parametrize(
    ("behind", "cause"),
    [("gateway", "gateway_queue"), ("queue", "under_capacity"), ("decode", "client_pool")],
)
def test_connections_that_wait_are_not_too_few(behind: str, cause: str) -> None:
    """However long the wait for one is."""
    waits = [20.0 + 60 * (number % 3) for number in range(SIZE)]
    segments = {"pool_wait": in_tail(5, 9_000), behind: waits, "prefill": [10.0] * SIZE}
    assert cause_of(segments, starts=poisson(mean_ms=100)) == cause


@pytest.mark.parametrize("behind", ["gateway", "queue"])
def test_a_constant_wait_is_no_queue_behind_the_pool(behind: str) -> None:
    """A path, or a batching window, takes as long for one request alone."""
    segments = {"pool_wait": in_tail(5, 9_000), behind: [80.0] * SIZE, "prefill": [20.0] * SIZE}
    assert cause_of(segments) == "client_pool"


def test_tokens_that_arrive_at_once_were_held_back() -> None:
    """Also without a report of the server, and with a calibration through the same proxy."""
    tokens = np.random.default_rng(7).uniform(100, 400, SIZE)
    numbers = {
        "input_tokens": tokens.tolist(),
        "output_tokens": [40.0] * SIZE,
        "time_per_output_token": [20_000.0] * SIZE,
    }
    segments = {"server_wait": (400 + tokens / 10).tolist(), "decode": [0.5] * SIZE}
    table = table_in_ms(segments, numbers=numbers, goal="p95 ttft")
    diagnosis = diagnose_table(table, calibration=Calibration(400e6, 100e3))
    assert diagnosis.finding is not None
    assert diagnosis.finding.cause == "buffering"
    sources = {share.name: share.source for share in diagnosis.shares}
    assert sources["prefill"] is Source.ESTIMATED


def test_calls_that_take_no_time_are_not_too_few() -> None:
    """All have the metric, and it is 0."""
    found = diagnose_table(table_in_ms({"decode": [0.0] * SIZE}))
    assert found.sentence == "Nothing to diagnose: duration is 0 in all 400 calls."


def test_short_answers_of_a_quick_model_are_not_slow() -> None:
    """Without a limit, nothing states that they are; with one that is missed, the model is."""
    segments = {"prefill": [8.0] * SIZE, "decode": [60.0 + number % 9 for number in range(SIZE)]}
    numbers = {"output_tokens": [10.0] * SIZE}
    found = diagnose_table(table_in_ms(segments, numbers=numbers))
    assert (found.conclusion, found.finding) == (Conclusion.UNDECIDED, None)
    assert "give the goal a limit, as in 'p95 duration < 80 ms'" in found.sentence
    assert cause_of(segments, numbers=numbers, goal="p95 duration < 50ms") == "slow_model"


def test_reasoning_is_no_part_of_the_answer() -> None:
    """Servers count its tokens as output, and its time is a segment of its own."""
    answer, reasoning = in_tail(50, 400), [300.0 if n % 2 else 100.0 for n in range(SIZE)]
    segments = {
        "reasoning": [10 * each for each in reasoning],
        "decode": [12 * each for each in answer],
    }
    numbers = {
        "output_tokens": [sum(each) for each in zip(answer, reasoning, strict=True)],
        "reasoning_tokens": reasoning,
    }
    assert cause_of(segments, numbers=numbers) == "output_length"


def test_a_full_cache_is_seen_where_all_requests_wait() -> None:
    """Typical ones show it as well as slow ones, which may wait at the moment it is emptier."""
    segments = {"queue": in_tail(800, 815), "decode": [10.0] * SIZE}
    usage = [0.85 if number % 10 == 0 else 0.97 for number in range(SIZE)]
    assert cause_of(segments, numbers={"kv_usage": usage}) == "kv_cache"


@pytest.mark.parametrize(("usual", "cause"), [(5_850.0, "long_context"), (585.0, "slow_prefill")])
def test_long_prompts_slow_one_another_down(usual: float, cause: str) -> None:
    """A part of the longer time per token follows from them; short prompts leave it unexplained."""
    random = np.random.default_rng(3)
    tokens = np.array(in_tail(usual, 1.32 * usual)) * random.uniform(0.9, 1.1, SIZE)
    pace = np.array(in_tail(158.0, 210.0)) * 5_850 / usual
    segments = {"prefill": (tokens * pace / 1e3).tolist(), "decode": [1.0] * SIZE}
    assert cause_of(segments, numbers={"input_tokens": tokens.tolist()}) == cause


def test_an_even_wait_under_an_even_load_is_no_long_path() -> None:
    """In a closed loop, each request waits for the same number of others."""
    random = np.random.default_rng(2)
    starts, waits = np.cumsum(random.uniform(5, 25, SIZE)), 600 + random.normal(0, 30, SIZE)
    segments = {"queue": waits.tolist(), "prefill": [6.0] * SIZE}
    estimated = {"queue": 1.0}
    cause = cause_of(segments, starts=starts.tolist(), uncertain=estimated, goal="p95 ttft")
    assert cause == "under_capacity"


def test_a_queue_by_the_wait_for_headers_is_no_tie_with_a_reported_prefill() -> None:
    """Only a calibration counts a part of the prefill as queue."""
    starts, waits, _ = _behind_a_link(45, 0.0)
    segments = {"queue": waits, "prefill": [150.0] * SIZE}
    table = table_in_ms(segments, starts=starts, uncertain={"queue": 1.0}, goal="p95 ttft")
    found = diagnose_table(table)
    assert found.conclusion is Conclusion.FIX
    assert found.finding is not None
    assert found.finding.cause == "under_capacity"


@pytest.mark.parametrize("name", ["cached_tokens", "reasoning_tokens"])
def test_counts_of_providers_that_count_apart(name: str) -> None:
    """Neither cached tokens nor those of reasoning are subtracted from counts without them."""
    if name == "cached_tokens":
        tokens, wait = in_tail(300, 4_300), in_tail(200, 1_700)
        numbers = {"input_tokens": tokens, name: in_tail(4_000, 0), "output_tokens": [50.0] * SIZE}
        segments, cause = {"server_wait": wait, "decode": _EVEN}, "reprocessed_prefix"
    else:
        answer = in_tail(100, 400)
        numbers = {"output_tokens": answer, name: [500.0] * SIZE}
        segments, cause = {"decode": [20 * each for each in answer]}, "output_length"
    finding = diagnose_table(table_in_ms(segments, numbers=numbers)).finding
    assert finding is not None
    assert finding.cause == cause
    assert " -" not in " ".join(finding.evidence)


@pytest.mark.parametrize("calibrated", [True, False])
def test_a_load_that_never_changes_does_not_separate_a_batch_from_a_model(
    *, calibrated: bool
) -> None:
    """A calibration does; without one, the sentence names both."""
    starts = [100.0 * number for number in range(SIZE)]
    segments = {"decode": [50.0 * 40] * SIZE}
    numbers = {"output_tokens": [40.0] * SIZE, "input_tokens": [100.0] * SIZE}
    table = table_in_ms(segments, numbers=numbers, starts=starts)
    alone = Calibration(0.0, 0.0, 10e6) if calibrated else None
    finding = diagnose_table(table, calibration=alone).finding
    assert finding is not None
    assert finding.cause == ("batch_contention" if calibrated else "slow_model")
    assert ("because of its batch" in finding.summary) == (not calibrated)
