"""The words to avoid are found in prose, but not in code."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "language.py"


@pytest.fixture(scope="module")
def language() -> ModuleType:
    """The script, imported as a module."""
    spec = importlib.util.spec_from_file_location("language", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("path", "text", "found"),
    [
        ("a.md", "A server tells it.\nNobody hears.", [(1, "tells"), (2, "nobody"), (2, "hears")]),
        ("a.md", "`told` and\n```python\nsaid = 1\n```\nbeneath", [(5, "beneath")]),
        ("a.py", "said = 1  # what was said", [(1, "said")]),
        ("a.py", '"""One.\n\nTold twice."""\n', [(3, "told")]),
        ("a.py", '"""``said`` is code."""\n', []),
    ],
)
def test_words_are_found_in_prose(
    language: ModuleType, path: str, text: str, found: list[tuple[int, str]]
) -> None:
    assert [(each.line, each.word) for each in language.found_in(path, text)] == found
