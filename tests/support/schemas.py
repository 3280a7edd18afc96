"""Check of JSON documents against the schemas that ``docs/reference`` publishes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import jsonschema

REFERENCE: Final = Path(__file__).parents[2] / "docs" / "reference"
_SCHEMA: Final = "schema"

_Document = TypeVar("_Document", bound=Mapping[str, Any])


def published(schema: str) -> Path:
    """Return the file of a schema, for example of ``latspan.sweep/1``."""
    name = schema.removeprefix("latspan.").replace("/", "-")
    return REFERENCE / f"{name}.schema.json"


def validated(document: _Document) -> _Document:
    """
    Return a document, after it and every document inside it were checked.

    A document inside another one is checked if its schema is published.
    """
    text = published(document[_SCHEMA]).read_text("utf-8")
    validator: Any = jsonschema.Draft202012Validator(json.loads(text))
    validator.validate(json.loads(json.dumps(document, allow_nan=False)))
    for inner in _inside(document):
        validated(inner)
    return document


def _inside(value: Any) -> list[dict[str, Any]]:
    """Return the outermost documents with a published schema inside a document."""
    found: list[dict[str, Any]] = []
    fields = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    rows = cast("list[Any]", value) if isinstance(value, list) else []
    for each in (*fields.values(), *rows):
        named = cast("dict[str, Any]", each).get(_SCHEMA) if isinstance(each, dict) else None
        if isinstance(named, str) and published(named).exists():
            found.append(cast("dict[str, Any]", each))
        else:
            found += _inside(each)
    return found
