"""Whatever a server sends, reading it raises nothing, and what is read can be judged."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from latspan._model import evidence
from latspan._model.evidence.gen_ai_latency import read_span
from latspan._model.timeline import call_timeline
from latspan._model.wire import ResponseMetadata
from support.reports import GATEWAYS, SERVERS, observed

_EVERY = (*SERVERS, *GATEWAYS)
_names = st.sampled_from(
    sorted(
        {name for said in _EVERY for path in said.needs for name in path}
        | {"queue_time", "queue_time_ms", "usage", "forward_entry_time", "perf_metrics"}
    )
)
_values: st.SearchStrategy[Any] = (
    st.none()
    | st.booleans()
    | st.integers(-(10**400), 10**400)
    | st.floats(allow_nan=True, allow_infinity=True)
    | st.text(max_size=40)
)
_bodies = st.dictionaries(
    _names | st.text(max_size=8),
    st.recursive(
        _values, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_names, inner)
    ),
)
_headers = st.dictionaries(
    st.sampled_from(sorted({name for said in _EVERY for name in said.headers})),
    st.text(max_size=60)
    | st.from_regex(r"-?[0-9]{1,40}(\.[0-9]{1,40})?", fullmatch=True)
    | st.sampled_from(["gateway;dur=-1", "gateway;dur=1e999, queue;dur=1e308", "queue;dur=nan"]),
)


@given(
    answer=st.builds(
        ResponseMetadata,
        streamed=st.booleans(),
        bodies=st.lists(_bodies, max_size=3).map(tuple),
        headers=_headers,
    )
)
def test_any_answer_can_be_read_and_judged(answer: ResponseMetadata) -> None:
    """It costs its own evidence at most; the segments sum to the duration all the same."""
    reported = evidence.read(answer)
    assert all(math.isfinite(value) for report in reported for value in report.raw.values())
    timeline = call_timeline(observed(answer, *reported))
    assert sum(s.duration_ns for s in timeline.segments) == timeline.duration_ns
    assert set(timeline.rejected) <= {report.system for report in reported}


@given(st.dictionaries(st.sampled_from(["e2e", "time_in_queue", "time_in_model_decode"]), _values))
def test_any_span_can_be_read(attributes: dict[str, Any]) -> None:
    """The attributes of somebody's span are anything."""
    read_span({f"gen_ai.latency.{name}": value for name, value in attributes.items()})
