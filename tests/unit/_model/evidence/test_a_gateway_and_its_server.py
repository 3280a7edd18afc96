"""Two who report of one answer, each judged for itself."""

from __future__ import annotations

from typing import Any

import pytest

from latspan._live.operations._response_summary import summarize_response
from latspan._model import evidence
from latspan._model.segments import totals
from latspan._model.timeline import Timeline, call_timeline
from latspan._model.wire import ResponseMetadata
from latspan._model.wire.openai_chat import OPENAI_CHAT
from support.reports import MS, SERVERS, observed

LLAMA = SERVERS[0]
OVERHEAD, DURATION = "x-litellm-overhead-duration-ms", "x-litellm-response-duration-ms"


def _timeline(headers: dict[str, str], body: Any, *, streamed: bool = False) -> Timeline:
    answer = ResponseMetadata(streamed, (body,), headers)
    return call_timeline(observed(answer, *evidence.read(answer)))


def _totals(timeline: Timeline) -> dict[str, tuple[int, str]]:
    assert sum(s.duration_ns for s in timeline.segments) == timeline.duration_ns
    return {t.name: (t.duration_ns // MS, t.source.value) for t in totals(timeline.segments)}


def _llama(prefill_ms: float, decode_ms: float) -> dict[str, Any]:
    timings = LLAMA.body["timings"]
    return {"timings": {**timings, "prompt_ms": prefill_ms, "predicted_ms": decode_ms}}


def test_what_is_left_of_the_headers_is_the_queue() -> None:
    """Of 970 ms up to llama.cpp's headers HAProxy says 600 are its own."""
    timeline = _timeline({"server-timing": "gateway;dur=600"}, _llama(20, 990), streamed=True)
    assert timeline.rejected == ()
    assert [s.name for s in timeline.segments][3:] == [
        "gateway",
        "queue",
        "prefill",
        "network",
        "decode",
        "stream_close",
    ]
    told = _totals(timeline)
    assert told["gateway"] == (600, "server_reported")
    assert told["queue"] == (370, "estimated")
    assert told["prefill"] == (20, "server_reported")


def test_two_gateways_on_the_way_are_both() -> None:
    """Each added its own field to the head."""
    timeline = _timeline({"server-timing": "gateway;dur=400, gateway;dur=200"}, _llama(20, 990))
    assert _totals(timeline)["gateway"] == (600, "server_reported")


def test_a_field_that_a_mapping_holds_twice_is_both() -> None:
    """Aiohttp's headers are such; other libraries join them."""
    multidict = pytest.importorskip("multidict")
    headers = multidict.CIMultiDict()
    headers.add("Server-Timing", "gateway;dur=60")
    headers.add("server-timing", "queue;dur=1")
    said = summarize_response(OPENAI_CHAT, (), headers, streamed=True)
    assert [report.system for report in said.reported] == ["gateway", "server_timing"]


def test_no_wait_in_a_gateway_is_a_finding() -> None:
    """It is there, and nothing waited in it."""
    timeline = _timeline({"server-timing": "gateway;dur=0"}, _llama(20, 990), streamed=True)
    assert _totals(timeline)["gateway"] == (0, "server_reported")


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("gateway", ["60000", "-1", "9" * 15])
def test_an_impossible_gateway_costs_the_server_nothing(gateway: str, streamed: bool) -> None:
    """It alone is rejected."""
    body = _llama(20, 990)
    timeline = _timeline({"server-timing": f"gateway;dur={gateway}"}, body, streamed=streamed)
    assert timeline.rejected == ("gateway",)
    assert timeline.metrics["evidence_rejected"].value == 1
    assert _totals(timeline) == _totals(_timeline({}, body, streamed=streamed))


def test_an_impossible_server_costs_the_gateway_nothing() -> None:
    """The rest of the wait is undivided."""
    timeline = _timeline(
        {"server-timing": "gateway;dur=600"}, _llama(20_000, 990_000), streamed=True
    )
    assert timeline.rejected == ("llama_cpp",)
    told = _totals(timeline)
    assert told["gateway"] == (600, "server_reported")
    assert "queue" not in told
    assert "prefill" not in told


def test_both_can_be_impossible() -> None:
    """Each is named, from the outside in, and each is counted."""
    timeline = _timeline({"server-timing": "gateway;dur=600000"}, _llama(2e4, 9e5), streamed=True)
    assert timeline.rejected == ("gateway", "llama_cpp")
    assert timeline.metrics["evidence_rejected"].value == 2


def test_who_was_nearer_to_the_work_is_believed() -> None:
    """Each alone would fit, both cannot be."""
    body = _llama(900, 990)
    timeline = _timeline({"server-timing": "gateway;dur=600"}, body, streamed=True)
    assert timeline.rejected == ("gateway",)
    assert _totals(timeline)["prefill"] == (900, "server_reported")


def test_a_gateway_holds_a_request_before_the_head() -> None:
    """A client that has the head after 980 ms cannot have waited 990 in it, and 5 more."""
    headers = {"server-timing": "gateway;dur=990"}
    assert _timeline(headers, {}, streamed=True).rejected == ("gateway",)
    assert _timeline(headers, {}).rejected == ()


def test_a_total_separates_the_server_from_the_network() -> None:
    """Of an answer in one piece: 1,990 ms of wait, 1,700 of them the server's."""
    told = _totals(_timeline({"openai-processing-ms": "1700"}, {}))
    assert told["server_wait"] == (1_700, "server_reported")
    assert told["network"] == (290, "estimated")


def test_the_innermost_total_separates_the_server_from_the_network() -> None:
    """What LiteLLM says it took beyond its own overhead is the server's and a network's."""
    litellm = {OVERHEAD: "60", DURATION: "1800"}
    told = _totals(_timeline({**litellm, "openai-processing-ms": "1700"}, {}))
    assert told["gateway"] == (60, "server_reported")
    assert told["server_wait"] == (1_700, "server_reported")
    assert told["network"] == (230, "estimated")
    told = _totals(_timeline(litellm, {}))
    assert told["gateway"] == (60, "server_reported")
    assert told["server_wait"] == (1_740, "server_reported")
    assert told["network"] == (190, "estimated")


def test_parts_and_a_total_leave_the_rest_of_the_server() -> None:
    """A server's own time beyond its stages is not the network's."""
    headers = {
        "x-total-time": "1700",
        "x-validation-time": "4",
        "x-queue-time": "200",
        "x-inference-time": "1400",
    }
    told = _totals(_timeline(headers, {}))
    assert told["queue"] == (200, "server_reported")
    assert told["server_wait"] == (1_500, "server_reported")
    assert told["network"] == (290, "estimated")


def test_of_a_stream_the_rest_lies_before_its_first_token() -> None:
    """Cerebras says more in all than its parts are: that is the server's, not the network's."""
    times = {"queue_time": 0.2, "prompt_time": 0.5, "completion_time": 0.9, "total_time": 1.7}
    told = _totals(_timeline({}, {"time_info": times}, streamed=True))
    assert told["server_wait"] == (100, "server_reported")
    assert told["queue"] == (200, "server_reported")
    assert told["prefill"] == (500, "server_reported")
    assert told["network"][1] == "estimated"


def test_of_a_stream_a_rest_that_lies_nowhere_leaves_the_network_open() -> None:
    """There is no room for it before the first token: it may lie anywhere behind."""
    times = {"queue_time": 0.2, "prompt_time": 0.75, "completion_time": 0.5, "total_time": 1.9}
    told = _totals(_timeline({}, {"time_info": times}, streamed=True))
    assert "network" not in told
    assert told["server_wait"][1] == "measured"


@pytest.mark.parametrize(("ms", "rejected"), [(984, ()), (1_100, ("openai",))])
def test_a_time_up_to_the_head_fits_before_the_head(ms: int, rejected: tuple[str, ...]) -> None:
    """And tells no segment: what was behind the head is not in it."""
    timeline = _timeline({"openai-processing-ms": str(ms)}, {}, streamed=True)
    assert timeline.rejected == rejected
    assert "network" not in _totals(timeline)


def test_what_is_left_beside_an_untold_front_is_not_the_networks() -> None:
    """Of a vLLM's HTTP server nobody says anything; its engine's parts stand."""
    metrics = {"queue_time_ms": 200, "time_to_first_token_ms": 500, "generation_time_ms": 900}
    told = _totals(_timeline({}, {"metrics": metrics}, streamed=True))
    assert "network" not in told
    assert told["server_wait"][1] == "measured"
    assert told["queue"] == (200, "server_reported")
    assert told["prefill"] == (500, "server_reported")
    assert told["decode"][1] == "server_reported"
