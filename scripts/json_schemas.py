# ruff: noqa: INP001 - scripts import it from their own folder
"""
JSON schemas of the documents that latspan's commands print.

A document is a ``TypedDict``; ``latspan/_study/fields.py`` states what its fields may have.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from enum import Enum
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from latspan._study.compare import BaselineDocument
from latspan._study.fields import Format, Items, Limits
from latspan._study.render.capacity_json import CapacityDocument
from latspan._study.render.comparison_json import ComparisonDocument
from latspan._study.render.diagnosis_json import DiagnosisDocument
from latspan._study.render.histogram_json import HistogramDiffDocument, HistogramShowDocument
from latspan._study.render.measurement_json import MeasurementDocument
from latspan._study.render.report_json import DemoDocument
from latspan._study.render.scorecard_json import ScorecardDocument
from latspan._study.render.status_json import StatusDocument
from latspan._study.render.sweep_json import SweepDocument
from latspan._study.render.verification_json import VerificationDocument
from latspan._study.render.write_up_json import WriteUpDocument
from latspan.cli._doctor_json import DoctorDocument, DoctorProgramDocument

DOCUMENTS = (
    BaselineDocument,
    CapacityDocument,
    ComparisonDocument,
    DemoDocument,
    DiagnosisDocument,
    DoctorDocument,
    DoctorProgramDocument,
    HistogramDiffDocument,
    HistogramShowDocument,
    MeasurementDocument,
    ScorecardDocument,
    StatusDocument,
    SweepDocument,
    VerificationDocument,
    WriteUpDocument,
)
"""Every published document; the recording and the kept result are described by hand."""

DIALECT = "https://json-schema.org/draft/2020-12/schema"
SIMPLE = {str: "string", bool: "boolean", int: "integer", float: "number"}

Schema = dict[str, Any]


def schema_files() -> dict[str, str]:
    """Return the contents of the files in ``docs/reference``, by their names."""
    files: dict[str, str] = {}
    for document in DOCUMENTS:
        name = name_of(document).removeprefix("latspan.").replace("/", "-")
        files[f"{name}.schema.json"] = json.dumps(schema_of(document), indent=2) + "\n"
    return files


def schema_of(document: type) -> Schema:
    """
    Return the schema of a document.

    Its title and its description are the paragraphs of the docstring of the class. Each other class
    inside it becomes a definition.
    """
    definitions: dict[str, Schema] = {}
    fields = of_fields(document, definitions)
    title, *described = paragraphs(document)
    return {
        "$schema": DIALECT,
        "$id": name_of(document),
        "title": title.removesuffix("."),
        **({"description": " ".join(described)} if described else {}),
        **fields,
        **({"$defs": dict(sorted(definitions.items()))} if definitions else {}),
    }


def name_of(document: type) -> str:
    """Return name and version of a document: the only value of its field ``schema``."""
    return get_args(get_type_hints(document)["schema"])[0]


def paragraphs(of: type) -> list[str]:
    """Return the paragraphs of a docstring, each on one line."""
    return [" ".join(each.split()) for each in (of.__doc__ or "").strip().split("\n\n")]


def of_fields(typed: Any, definitions: dict[str, Schema]) -> Schema:
    """Return the schema of the fields of a ``TypedDict``."""
    hints = get_type_hints(typed, include_extras=True)
    hints = dict(sorted(hints.items(), key=lambda field: field[0] != "schema"))
    required = [name for name, hint in hints.items() if get_origin(hint) is not NotRequired]
    return {
        "type": "object",
        "required": required,
        "properties": {name: of_type(hint, definitions) for name, hint in hints.items()},
    }


def of_type(hint: Any, definitions: dict[str, Schema]) -> Schema:
    """
    Return the schema of the values of a type.

    Args:
        hint: The type, as in an annotation.
        definitions: Receives the schemas of the classes that it refers to.

    Raises:
        TypeError: No document may have a value of this type.
    """
    arguments = get_args(hint)
    origin = get_origin(hint)
    found: Schema
    if origin is NotRequired:
        found = of_type(arguments[0], definitions)
    elif origin is Annotated:
        found = of_type(arguments[0], definitions)
        for each in arguments[1:]:
            found |= annotation_of(each)
    elif origin in {Union, UnionType}:
        found = of_union(arguments, definitions)
    elif origin is Literal:
        found = {"const": arguments[0]} if len(arguments) == 1 else {"enum": list(arguments)}
    elif origin in {list, Sequence}:
        found = {"type": "array", "items": of_type(arguments[0], definitions)}
    elif origin in {dict, Mapping}:
        found = {"type": "object"}
        if arguments[1] not in {object, Any}:
            found["additionalProperties"] = of_type(arguments[1], definitions)
    elif is_typeddict(hint):
        found = of_class(hint, definitions)
    elif isinstance(hint, type) and issubclass(hint, Enum):
        found = {"enum": [each.value for each in hint]}
    elif hint in SIMPLE:
        found = {"type": SIMPLE[hint]}
    else:
        raise TypeError(f"a document has no values of the type {hint}")
    return found


def of_union(members: Sequence[Any], definitions: dict[str, Schema]) -> Schema:
    """Return the schema of a union, which is shorter if it only adds ``None`` to a type."""
    schemas = [of_type(each, definitions) for each in members if each is not NoneType]
    if NoneType not in members:
        return {"anyOf": schemas}
    if len(schemas) == 1 and isinstance(schemas[0].get("type"), str) and "$ref" not in schemas[0]:
        return {**schemas[0], "type": [schemas[0]["type"], "null"]}
    if len(schemas) == 1 and "enum" in schemas[0]:
        return {"enum": [*schemas[0]["enum"], None]}
    return {"anyOf": [*schemas, {"type": "null"}]}


def of_class(typed: Any, definitions: dict[str, Schema]) -> Schema:
    """Return the reference to a definition, or the schema of another document inside this one."""
    if "schema" in get_type_hints(typed):
        constant = {"schema": {"const": name_of(typed)}}
        return {"type": "object", "required": ["schema"], "properties": constant}
    name = typed.__name__.removeprefix("_")
    if name not in definitions:
        definitions[name] = {}
        described = {"description": " ".join(paragraphs(typed))} if typed.__doc__ else {}
        definitions[name] = described | of_fields(typed, definitions)
    return {"$ref": f"#/$defs/{name}"}


def annotation_of(annotation: Limits | Items | Format | str) -> Schema:
    """Return what an annotation adds to the schema of a type; a text is a description."""
    if isinstance(annotation, str):
        return {"description": annotation}
    if isinstance(annotation, Format):
        return {"format": annotation.name}
    if isinstance(annotation, Items):
        found = {"minItems": annotation.minimum, "maxItems": annotation.maximum}
    else:
        found = {
            "minimum": annotation.minimum,
            "maximum": annotation.maximum,
            "exclusiveMinimum": annotation.above,
            "exclusiveMaximum": annotation.below,
        }
    return {name: value for name, value in found.items() if value is not None}
