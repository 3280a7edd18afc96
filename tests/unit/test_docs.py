"""The documentation says what the code says."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import latspan
from latspan import semconv, testing
from latspan._model.segments import Kind, Mark, Outcome, SegmentName, Source, Stage
from latspan._model.tokens import TokenSource
from latspan._study.diagnose import Cause
from latspan.errors import LatspanError

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def first_column(text: str) -> set[str]:
    """Return what stands in backquotes in the first column of the tables."""
    cells = re.findall(r"^\| ([^|]+) \|", text, flags=re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


@pytest.mark.parametrize("module", [latspan, testing], ids=lambda module: module.__name__)
def test_every_public_name_is_documented(module: ModuleType) -> None:
    names = {f"{module.__name__}.{name}" for name in module.__all__}

    assert sorted(names - first_column(page("api.md"))) == []


def test_every_cause_is_documented() -> None:
    assert sorted(set(Cause) - first_column(page("guides/diagnose.md"))) == []


def test_every_error_is_documented() -> None:
    errors = import_module("latspan.errors")
    documented = {name.rpartition(".")[2] for name in first_column(page("api.md"))}

    assert set(errors.__all__) <= documented


@pytest.mark.parametrize("name", sorted(first_column(page("api.md"))))
def test_every_documented_name_exists(name: str) -> None:
    home, _, attribute = name.rpartition(".")
    if home:
        assert hasattr(import_module(home), attribute)


def test_every_documented_error_has_the_documented_builtin_base() -> None:
    rows = re.findall(r"^\| `latspan\.errors\.(\w+)` \| `(\w+)`", page("api.md"), re.MULTILINE)
    errors = import_module("latspan.errors")
    builtins = import_module("builtins")

    assert rows
    for name, builtin in rows:
        error = getattr(errors, name)
        assert issubclass(error, LatspanError)
        assert issubclass(error, getattr(builtins, builtin))


def test_the_generated_parts_agree_with_the_code() -> None:
    checked = subprocess.run(
        [sys.executable, ROOT / "scripts" / "generated_docs.py", "check"],
        capture_output=True,
        text=True,
    )

    assert (checked.returncode, checked.stderr) == (0, "")


def test_every_name_of_ours_that_is_emitted_is_documented() -> None:
    documented = first_column(page("metrics.md"))
    ours = {
        value.rstrip(".")
        for name, value in vars(semconv).items()
        if name.isupper() and isinstance(value, str) and value.startswith("latspan.")
    }

    assert ours
    assert ours <= documented | {"latspan.reported"}


@pytest.mark.parametrize("words", [Mark, SegmentName, Stage, Source, Outcome, Kind])
def test_the_glossary_has_every_word(words: type[Mark]) -> None:
    text = page("glossary.md")

    assert [word.value for word in words if f"`{word.value}`" not in text] == []


def test_every_source_of_a_token_count_is_documented() -> None:
    assert {source.value for source in TokenSource} <= first_column(page("metrics.md"))


def test_the_glossary_lists_the_outcomes_that_are_failures() -> None:
    rows = re.findall(r"^\| `(\w+)` \| .+ \| (yes|no) \|$", page("glossary.md"), re.MULTILINE)

    assert {outcome.value: outcome.failed for outcome in Outcome} == {
        name: failure == "yes" for name, failure in rows
    }


def test_the_architecture_page_has_every_module() -> None:
    tree = page("architecture.md")
    modules = {
        path.name + "/" * path.is_dir()
        for path in (ROOT / "src" / "latspan").iterdir()
        if not path.name.startswith("__pycache__") and path.name not in {"_version.py", "py.typed"}
    }

    assert sorted(module for module in modules if module not in tree) == []


def test_every_evidence_adapter_has_a_section() -> None:
    headings = re.sub(r"[.-]", "_", page("evidence.md").lower())
    adapters = {
        path.stem
        for path in (ROOT / "src" / "latspan" / "_model" / "evidence").glob("*.py")
        if not path.stem.startswith("_")
    }

    assert adapters
    for adapter in adapters:
        assert f"\n### {adapter}\n" in headings


def test_every_decision_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    decisions = sorted(path.name for path in (DOCS / "adr").glob("*.md"))

    assert [name for name in decisions if f"adr/{name}" not in navigation] == []
    assert [f"{number:04}" for number in range(1, len(decisions) + 1)] == [
        name[:4] for name in decisions
    ]


@pytest.mark.parametrize("path", sorted((DOCS / "adr").glob("*.md")), ids=lambda path: path.stem)
def test_a_decision_has_its_parts(path: Path) -> None:
    headings = re.findall(r"^## (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)

    assert headings == ["Context", "Decision", "Consequences"]


@pytest.mark.parametrize(
    "path",
    [
        path
        for path in (*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md")))
        if path.parent.name != "changelog.d"
    ],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_a_line_of_prose_has_at_most_120_columns(path: Path) -> None:
    """Tables, code and headings may be longer, and fragments have one sentence per line."""
    text = re.sub(
        r"^ *```.*?^ *```", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
    )
    prose = (line for line in text.splitlines() if not line.startswith(("|", "#", "<", "    ")))

    assert [line for line in prose if len(line) > 120 and " " in line[:120].strip()] == []


def test_every_file_that_the_architecture_names_exists() -> None:
    """A file that is renamed or folded into another one is renamed there too."""
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:\w+/)+\w+\.py)`", text))
    sources = ROOT / "integrations" / "latspan_instrumentation"
    folders = (ROOT, ROOT / "src" / "latspan", sources)

    assert len(named) > 20
    assert [each for each in named if not any((folder / each).exists() for folder in folders)] == []
