"""The published JSON schemas: each is valid, and each judging command has one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from latspan._study.render.capacity_json import CAPACITY_SCHEMA
from latspan._study.render.comparison_json import COMPARISON_SCHEMA
from latspan._study.render.diagnosis_json import DIAGNOSIS_SCHEMA
from latspan._study.render.measurement_json import MEASUREMENT_SCHEMA
from latspan._study.render.scorecard_json import SCORECARD_SCHEMA
from latspan._study.render.status import STATUS_SCHEMA
from latspan._study.render.verification import VERIFICATION_SCHEMA
from latspan._study.render.write_up import WRITE_UP_SCHEMA
from latspan._study.sweep import SWEEP_SCHEMA
from support.schemas import REFERENCE, published, validated


@pytest.mark.parametrize(
    "file", sorted(REFERENCE.glob("*.schema.json")), ids=lambda file: file.name
)
def test_a_schema_is_valid_and_names_itself(file: Path) -> None:
    """Its identifier is the text that documents have as their schema."""
    schema: Any = json.loads(file.read_text("utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    assert published(schema["$id"]) == file


@pytest.mark.parametrize(
    "schema",
    [
        CAPACITY_SCHEMA,
        COMPARISON_SCHEMA,
        DIAGNOSIS_SCHEMA,
        MEASUREMENT_SCHEMA,
        SCORECARD_SCHEMA,
        STATUS_SCHEMA,
        SWEEP_SCHEMA,
        VERIFICATION_SCHEMA,
        WRITE_UP_SCHEMA,
    ],
)
def test_a_judging_command_has_a_published_schema(schema: str) -> None:
    """A document without its required fields does not follow it."""
    with pytest.raises(jsonschema.ValidationError, match="is a required property"):
        validated({"schema": schema})
