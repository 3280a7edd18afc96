"""The published JSON schemas: each is valid, and each document of latspan has one."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import jsonschema
import pytest

import latspan
from latspan._model.recording._rows import SNAPSHOT_SCHEMA
from support.schemas import REFERENCE, published, validated

_NAME: Final = re.compile(r'SCHEMA: Final = "(latspan\.[a-z_-]+/[0-9]+)"')
_SOURCES: Final = sorted(Path(latspan.__file__).parent.rglob("*.py"))
_NAMES: Final = sorted(
    {name for file in _SOURCES for name in _NAME.findall(file.read_text("utf-8"))}
    # No command prints a snapshot.
    - {SNAPSHOT_SCHEMA}
)


@pytest.mark.parametrize(
    "file", sorted(REFERENCE.glob("*.schema.json")), ids=lambda file: file.name
)
def test_a_schema_is_valid_and_names_itself(file: Path) -> None:
    """Its identifier is the text that documents have as their schema."""
    schema: Any = json.loads(file.read_text("utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    assert published(schema["$id"]) == file
    assert schema["$id"] in _NAMES


@pytest.mark.parametrize("schema", _NAMES)
def test_a_document_has_a_published_schema(schema: str) -> None:
    """A document without its required fields does not follow it."""
    with pytest.raises(jsonschema.ValidationError, match="is a required property"):
        validated({"schema": schema})
