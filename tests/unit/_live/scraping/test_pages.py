"""Metrics are read by each server's own names, slots counted; impossible values are ignored."""

from __future__ import annotations

import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latspan import semconv
from latspan._live.scraping import require_parser
from latspan._live.scraping._pages import read_metrics, read_slots
from latspan.errors import MissingExtraError

RUNNING, WAITING = semconv.LATSPAN_REQUESTS_RUNNING, semconv.LATSPAN_REQUESTS_WAITING
KV, HITS = semconv.LATSPAN_KV_USAGE, semconv.LATSPAN_CACHE_HIT_RATIO
ACCEPTED = semconv.LATSPAN_SPECULATIVE_ACCEPTANCE

LLAMA_CPP = """\
# HELP llamacpp:prompt_tokens_total Number of prompt tokens processed, excluding cached tokens
# TYPE llamacpp:prompt_tokens_total counter
llamacpp:prompt_tokens_total 70
# TYPE llamacpp:prompt_tokens_cached_total counter
llamacpp:prompt_tokens_cached_total 30
# TYPE llamacpp:spec_decode_num_draft_tokens_total counter
llamacpp:spec_decode_num_draft_tokens_total 10
# TYPE llamacpp:spec_decode_num_accepted_tokens_total counter
llamacpp:spec_decode_num_accepted_tokens_total 4
# TYPE llamacpp:requests_processing gauge
llamacpp:requests_processing 2
# TYPE llamacpp:requests_deferred gauge
llamacpp:requests_deferred 3
"""

OLD_LLAMA_CPP = """\
llamacpp:kv_cache_usage_ratio 0.25
llamacpp:requests_processing 1
"""

VLLM = """\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="a"} 3.0
vllm:num_requests_running{engine="1",model_name="a"} 4.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="a"} 0.0
vllm:num_requests_waiting{engine="1",model_name="a"} 5.0
vllm:num_requests_waiting_by_reason{reason="capacity"} 99.0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="a"} 0.5
vllm:kv_cache_usage_perc{engine="1",model_name="a"} 0.75
# TYPE vllm:prefix_cache_queries_total counter
vllm:prefix_cache_queries_total{engine="0",model_name="a"} 100.0
vllm:prefix_cache_queries_total{engine="1",model_name="a"} 100.0
vllm:prefix_cache_queries_created{engine="0",model_name="a"} 1.7e+09
# TYPE vllm:prefix_cache_hits_total counter
vllm:prefix_cache_hits_total{engine="0",model_name="a"} 40.0
vllm:prefix_cache_hits_total{engine="1",model_name="a"} 20.0
# TYPE vllm:spec_decode_num_draft_tokens_total counter
vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="a"} 8.0
# TYPE vllm:spec_decode_num_accepted_tokens_total counter
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="a"} 6.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="0"} 99.0
"""

OLD_VLLM = """\
vllm:gpu_cache_usage_perc{model_name="a"} 0.125
vllm:prefix_cache_queries{model_name="a"} 10.0
vllm:prefix_cache_hits{model_name="a"} 5.0
"""

SGLANG = """\
sglang:num_running_reqs{model_name="a"} 1.0
sglang:num_queue_reqs{model_name="a"} 2.0
sglang:token_usage{model_name="a"} 0.28
sglang:cache_hit_rate{model_name="a"} 0.0075
sglang:spec_accept_rate{model_name="a"} 0.6
sglang:spec_accept_length{model_name="a"} 2.8
"""

TGI = """\
# TYPE tgi_batch_current_size gauge
tgi_batch_current_size 4
# TYPE tgi_queue_size gauge
tgi_queue_size 7
"""


@pytest.mark.parametrize(
    ("page", "gauges", "shares"),
    [
        (LLAMA_CPP, {RUNNING: 2, WAITING: 3}, {HITS: (30, 100), ACCEPTED: (4, 10)}),
        (OLD_LLAMA_CPP, {RUNNING: 1, KV: 0.25}, {}),
        (VLLM, {RUNNING: 7, WAITING: 5, KV: 0.75}, {HITS: (60, 200), ACCEPTED: (6, 8)}),
        (OLD_VLLM, {KV: 0.125}, {HITS: (5, 10)}),
        (SGLANG, {RUNNING: 1, WAITING: 2, KV: 0.28, HITS: 0.0075, ACCEPTED: 0.6}, {}),
        (TGI, {RUNNING: 4, WAITING: 7}, {}),
        ("# HELP go_threads Threads\ngo_threads 7\n", {}, {}),
        ("", {}, {}),
    ],
    ids=["llama.cpp", "old llama.cpp", "vLLM", "old vLLM", "SGLang", "TGI", "another", "nothing"],
)
def test_the_metric_names_of_each_server_are_read(
    page: str, gauges: dict[str, float], shares: dict[str, tuple[float, float]]
) -> None:
    """Numbers of several series are added; of ratios, the greatest is used."""
    reading = read_metrics(page)

    assert (reading.gauges, reading.shares, reading.totals) == (gauges, shares, {})


@pytest.mark.parametrize("value", ["NaN", "-nan", "-1", "+Inf", "-Inf", "1e300"])
def test_impossible_values_are_ignored(value: str) -> None:
    """One wrong value does not affect the others."""
    page = "".join(
        f"{name} {value}\n"
        for name in (
            "tgi_queue_size",
            "vllm:kv_cache_usage_perc",
            "vllm:prefix_cache_hits_total",
            "llamacpp:requests_processing",
        )
    )

    reading = read_metrics(page + "vllm:prefix_cache_queries_total 9\ntgi_batch_current_size 4\n")

    assert (reading.gauges, reading.shares) == ({RUNNING: 4}, {})


def test_ranks_that_work_together_count_once() -> None:
    """Each tensor-parallel rank has the same requests; engines have others."""
    page = "".join(
        f'sglang:num_running_reqs{{dp_rank="{engine}",tp_rank="{rank}"}} {value}\n'
        for engine, rank, value in ((0, 0, "3"), (0, 1, "3"), (1, 0, "2"), (1, 1, "-nan"))
    )
    assert read_metrics(page).gauges == {RUNNING: 5}


def test_an_unterminated_line_is_ignored() -> None:
    """The page was cut there: a 1 may have been the beginning of 12."""
    assert read_metrics("tgi_batch_current_size 4\ntgi_queue_size 1").gauges == {RUNNING: 4}


@pytest.mark.parametrize(
    "page",
    [
        "tgi_queue_size many\n",
        "tgi_queue_size 1_000\n",
        'tgi_queue_size{a="1"} \u0663\n',
        'tgi_queue_size{a="b 1\n',
        'tgi_queue_size{ ="b"} 1\n',
        f"tgi_queue_size 1 {'9' * 400}\n",
        "tgi_queue_size 1\n" * 5_001,
    ],
    ids=[
        "no number",
        "an underscore",
        "other digits",
        "no end of labels",
        "no label",
        "no time",
        "too many",
    ],
)
def test_a_malformed_page_is_refused(page: str) -> None:
    """The remaining lines might lack important values."""
    with pytest.raises(ValueError, match=r"."):
        read_metrics(page)


@pytest.mark.parametrize("value", ["4", "+4.0", "4.", "4e0", "40E-1", "4 1700000000000", "4\r"])
def test_every_valid_number_format_is_read(value: str) -> None:
    """Values may have a sign, an exponent or a timestamp."""
    labels = '{a="} 1_0 {"}'
    page = f"tgi_queue_size{labels} {value}\ntgi_batch_current_size 0\n"
    assert read_metrics(page).gauges == {WAITING: 4, RUNNING: 0}


NAMES = ("tgi_queue_size", "vllm:prefix_cache_hits", "vllm:kv_cache_usage_perc")


@given(
    st.lists(
        st.tuples(
            st.sampled_from(NAMES),
            st.text(alphabet='{}"\\= ,#\t\r0123456789.eE+-NaInf_abc\x00é', max_size=30),
        ),
        max_size=4,
    )
)
def test_any_text_is_read_or_refused(lines: list[tuple[str, str]]) -> None:
    """Only ``ValueError`` is raised, and no impossible value is returned."""
    try:
        reading = read_metrics("".join(f"{name}{rest}\n" for name, rest in lines))
    except ValueError:
        return
    assert all(value >= 0 for value in reading.gauges.values())


def test_a_missing_parser_raises_an_error_that_names_the_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The hint contains the extra to install."""
    monkeypatch.setitem(sys.modules, "prometheus_client.parser", None)

    with pytest.raises(MissingExtraError, match=r"latspan\[scraping\]"):
        require_parser()


@pytest.mark.parametrize(("working", "expected"), [([True, False, True], 2), ([False], 0), ([], 0)])
def test_busy_slots_are_counted(working: list[bool], expected: int) -> None:
    """Other fields of a slot are not read."""
    page = json.dumps([{"id": at, "is_processing": each} for at, each in enumerate(working)])

    assert read_slots(page).gauges == {semconv.LATSPAN_REQUESTS_RUNNING: expected}


@pytest.mark.parametrize(
    "page",
    [
        "[",
        "{}",
        "[1]",
        '[{"id": 0}]',
        '[{"is_processing": 1}]',
        '{"error": {"code": 501}}',
        "[" * 100_000,
        '{"is_processing": true}',
    ],
    ids=lambda page: page[:24],
)
def test_anything_but_a_list_of_slots_is_refused(page: str) -> None:
    """For example, an error in JSON."""
    with pytest.raises(ValueError, match=r"."):
        read_slots(page)
