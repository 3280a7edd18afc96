"""Changelog fragments are checked, and collected into a release."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "scripts" / "changelog.py"


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    (tmp_path / "changelog.d").mkdir()
    (tmp_path / "changelog.md").write_text("# Changelog\n\n<!-- releases -->\n\n## 0.0.1\n")
    return tmp_path


def changelog(docs: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, SCRIPT, "--docs", docs, *arguments], capture_output=True, text=True
    )


def write(docs: Path, name: str, text: str) -> None:
    (docs / "changelog.d" / name).write_text(text)


def test_the_fragments_of_this_repository_are_well_formed() -> None:
    checked = changelog(ROOT / "docs", "check")

    assert (checked.returncode, checked.stderr) == (0, "")


def test_a_fragment_with_one_sentence_per_line_is_well_formed(docs: Path) -> None:
    write(docs, "12.fixed.md", "A stream is closed once.\n`latspan.stage` names its kind.\n")

    assert changelog(docs, "check").returncode == 0


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("12.improved.md", "It is faster.\n", "the name must be"),
        ("fixed.md", "It is faster.\n", "the name must be"),
        ("12.fixed.txt", "It is faster.\n", "the name must be"),
        ("12.fixed.md", "", "it is empty"),
        ("12.fixed.md", "It is faster\n", "a line must be one sentence"),
        ("12.fixed.md", "It is faster. It is smaller.\n", "a line must be one sentence"),
        ("12.fixed.md", "It is faster.\n\nIt is smaller.\n", "a line must be one sentence"),
    ],
)
def test_a_malformed_fragment_is_refused(docs: Path, name: str, text: str, complaint: str) -> None:
    write(docs, name, text)

    checked = changelog(docs, "check")

    assert checked.returncode == 1
    assert complaint in checked.stderr
    assert name in checked.stderr


def test_collecting_moves_fragments_into_the_newest_release(docs: Path) -> None:
    write(docs, "12.fixed.md", "A stream is closed once.\n")
    write(docs, "7.added.md", "There is a demo.\nThere is a fixture.\n")

    assert changelog(docs, "collect", "0.1.0").returncode == 0

    lines = (docs / "changelog.md").read_text().splitlines()
    assert lines[4].startswith("## 0.1.0 (")
    assert lines[6:14] == [
        "### Added",
        "",
        "- There is a demo.",
        "- There is a fixture.",
        "",
        "### Fixed",
        "",
        "- A stream is closed once.",
    ]
    assert "## 0.0.1" in lines[14:]
    assert list((docs / "changelog.d").iterdir()) == []


@pytest.mark.parametrize("version", ["1", "v1.0.0", "1.0"])
def test_collecting_refuses_an_invalid_version(docs: Path, version: str) -> None:
    write(docs, "12.fixed.md", "A stream is closed once.\n")

    assert changelog(docs, "collect", version).returncode == 2


def test_collecting_nothing_is_refused(docs: Path) -> None:
    assert changelog(docs, "collect", "0.1.0").returncode == 1
