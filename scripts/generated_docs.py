#!/usr/bin/env python3
"""
Generate the parts of the documentation that repeat definitions in the code.

``generated_docs.py check`` lists the parts that differ from the code, ``generated_docs.py write``
updates them. Such a part is between ``<!-- generated: NAME -->`` and ``<!-- end: NAME -->``. The
JSON schemas in ``docs/reference`` are generated as a whole.
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from pathlib import Path

from json_schemas import schema_files

from latspan import Config
from latspan._model.metrics import (
    CONVENTION_METRICS,
    EVIDENCE_METRICS,
    LATENCY_METRICS,
    SERVER_METRICS,
    TOKEN_METRICS,
    Metric,
)


def row(*cells: str) -> str:
    """Return one row of a table."""
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def table_of(metrics: Iterable[Metric]) -> str:
    """Return a table of metrics, one row each."""
    rows = ["| Metric | Unit | Formula | Undefined when | Definition |", "|---|---|---|---|---|"]
    for metric in metrics:
        alias = "".join(f", alias `{alias}`" for alias in metric.aliases)
        many = "; several values per request" if metric.distribution else ""
        rows.append(
            row(
                f"`{metric.name}`{alias}",
                metric.unit,
                f"{metric.formula}{many}",
                metric.undefined,
                metric.definition,
            )
        )
    return "\n".join(rows)


def table_of_settings() -> str:
    """
    Return a table of the settings, built from the docstring of the configuration.

    Raises:
        ValueError: The docstring has no entry for a setting.
    """
    entries = re.split(r"^    (\w+): ", inspect.getdoc(Config) or "", flags=re.MULTILINE)
    meanings = {
        name: re.sub(r":\w+:`", "`", " ".join(text.replace("``", "`").split()))
        for name, text in zip(entries[1::2], entries[2::2], strict=True)
    }
    rows = ["| Setting | Variable | Default | Meaning |", "|---|---|---|---|"]
    for field in fields(Config):
        if field.name not in meanings:
            raise ValueError(f"the docstring of Config does not describe '{field.name}'")
        variable = f"`LATSPAN_{field.name.upper()}`"
        if field.name == "tracer_provider":
            variable = "none"
        default = "unset" if field.default is None else f"`{field.default}`"
        rows.append(row(f"`{field.name}`", variable, default, meanings[field.name]))
    return "\n".join(rows)


PARTS: dict[str, tuple[str, Callable[[], str]]] = {
    "convention metrics": ("metrics.md", lambda: table_of(CONVENTION_METRICS.values())),
    "metrics": (
        "metrics.md",
        lambda: table_of(
            [*LATENCY_METRICS.values(), *EVIDENCE_METRICS.values(), *SERVER_METRICS.values()]
        ),
    ),
    "settings": ("guides/export.md", table_of_settings),
    "token metrics": ("metrics.md", lambda: table_of(TOKEN_METRICS.values())),
}


def updated(text: str, name: str, part: str) -> str:
    """
    Return a page with one of its generated parts brought up to date.

    Raises:
        ValueError: The page has no place for it.
    """
    head, begin, rest = text.partition(f"<!-- generated: {name} -->\n")
    _, end, tail = rest.partition(f"<!-- end: {name} -->")
    if not begin or not end:
        raise ValueError(f"there is no place for the generated part '{name}'")
    return f"{head}{begin}\n{part}\n\n{end}{tail}"


def generated(docs: Path) -> Iterator[tuple[Path, str, str]]:
    """Yield each generated part: its file, what the file must contain, and the part's name."""
    for name, (page, part) in PARTS.items():
        path = docs / page
        yield path, updated(path.read_text(encoding="utf-8"), name, part()), f"the part '{name}'"
    for file, text in schema_files().items():
        yield docs / "reference" / file, text, "the schema"


def main() -> int:
    """Check or update every part, and return the exit status."""
    docs = Path(__file__).resolve().parent.parent / "docs"
    parser = argparse.ArgumentParser(
        description="Check or update the generated parts of the documentation"
    )
    parser.add_argument("verb", choices=("check", "write"))
    verb = parser.parse_args().verb
    stale = 0
    for path, wanted, part in generated(docs):
        if path.exists() and path.read_text(encoding="utf-8") == wanted:
            continue
        if verb == "write":
            path.write_text(wanted, encoding="utf-8")
        else:
            stale += 1
            sys.stderr.write(f"{path.relative_to(docs)}: {part} is stale\n")
    if stale:
        sys.stderr.write("hint: .venv/bin/python scripts/generated_docs.py write\n")
    return min(stale, 1)


if __name__ == "__main__":
    sys.exit(main())
