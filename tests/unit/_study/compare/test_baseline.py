"""Values of a baseline file that a person edited."""

from __future__ import annotations

import json
import math
from dataclasses import fields
from typing import Any

import pytest

from latspan._study.compare import Profile, baseline_document, runs_of_baseline
from latspan._study.compare._baseline import BaselineProfile
from latspan.errors import RecordingError
from support.comparisons import runs
from support.schemas import validated


@pytest.fixture(scope="module")
def written() -> str:
    """Return the text of a baseline."""
    return json.dumps(validated(baseline_document(runs(0, 1, count=60))))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("units", math.inf),
        ("units", True),
        ("failed", -1),
        pytest.param("failed", 10**400, id="failed-large"),
        ("name", None),
        ("conditions", []),
        ("conditions", {"processors": math.nan}),
        ("profile", {"input_tokens": ""}),
        ("profile", {"output_tokens": 1e308}),
        ("profile", {"load": 5}),
        ("profile", {"models": [5]}),
        ("targets", [{"metric": "duration", "percentile": 95, "limit_ns": math.nan}]),
        ("targets", [{"metric": "duration", "percentile": "", "limit_ns": 5}]),
        ("bands", {"p95 duration": {"mean_ns": None, "segments_ns": {}, "requests": 5}}),
    ],
)
def test_every_value_is_checked(written: str, field: str, value: object) -> None:
    """It is an error of the file, not one of a calculation with it."""
    document: dict[str, Any] = json.loads(written)
    assert runs_of_baseline(document, "b.json")[0].units == 60
    document["runs"][0][field] = value
    with pytest.raises(RecordingError, match=r"b\.json is not a baseline: "):
        runs_of_baseline(document, "b.json")


def test_a_baseline_of_a_baseline_has_the_names_of_the_first(written: str) -> None:
    """The name does not grow with each file that it was read from."""
    (run,) = runs_of_baseline(json.loads(written), "a.json")[:1]
    (again,) = runs_of_baseline(baseline_document([run]), "b.json")
    assert run.name.startswith("a.json: ")
    assert again.name == run.name.replace("a.json", "b.json")


def test_a_written_profile_has_the_fields_of_a_profile() -> None:
    """Its type has each of them once more, with a description."""
    assert list(BaselineProfile.__annotations__) == [each.name for each in fields(Profile)]
