# ruff: noqa: INP001 - scripts import it from their own folder
"""
JSON schemas of the documents that latspan's commands print.

A document is a ``TypedDict``; ``latspan/_study/render/fields.py`` states what its fields may have.
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

from latspan._study.render.diagnosis_json import DiagnosisDocument
from latspan._study.render.fields import Limits
from latspan._study.render.measurement_json import MeasurementDocument

DOCUMENTS = (
    DiagnosisDocument,
    MeasurementDocument,
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

    Its title is the docstring of the class; each other class inside it becomes a definition.
    """
    definitions: dict[str, Schema] = {}
    fields = of_fields(document, definitions)
    return {
        "$schema": DIALECT,
        "$id": name_of(document),
        "title": first_paragraph(document).removesuffix("."),
        **fields,
        **({"$defs": dict(sorted(definitions.items()))} if definitions else {}),
    }


def name_of(document: type) -> str:
    """Return name and version of a document: the only value of its field ``schema``."""
    return get_args(get_type_hints(document)["schema"])[0]


def first_paragraph(of: type) -> str:
    """Return the first paragraph of a docstring on one line."""
    return " ".join((of.__doc__ or "").strip().partition("\n\n")[0].split())


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
            found |= limits_of(each) if isinstance(each, Limits) else {"description": each}
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
        described = {"description": first_paragraph(typed)} if typed.__doc__ else {}
        definitions[name] = described | of_fields(typed, definitions)
    return {"$ref": f"#/$defs/{name}"}


def limits_of(limits: Limits) -> Schema:
    """Return the range of a number."""
    found = {
        "minimum": limits.minimum,
        "exclusiveMinimum": limits.above,
        "exclusiveMaximum": limits.below,
    }
    return {name: value for name, value in found.items() if value is not None}
