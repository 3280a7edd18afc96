"""Changelog fragments are checked, and towncrier collects them into a release."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "scripts" / "changelog.py"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    fragments = tmp_path / "docs" / "changelog.d"
    fragments.mkdir(parents=True)
    return fragments


def changelog(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, SCRIPT, "--folder", folder], capture_output=True, text=True
    )


def write(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text)


def test_the_fragments_of_this_repository_are_well_formed() -> None:
    checked = changelog(ROOT / "docs" / "changelog.d")

    assert (checked.returncode, checked.stderr) == (0, "")


def test_a_fragment_with_one_sentence_per_line_is_well_formed(folder: Path) -> None:
    write(folder, "12.fixed.md", "A stream is closed once.\n`latspan.stage` names its kind.\n")

    assert changelog(folder).returncode == 0


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
def test_a_malformed_fragment_is_refused(
    folder: Path, name: str, text: str, complaint: str
) -> None:
    write(folder, name, text)

    checked = changelog(folder)

    assert checked.returncode == 1
    assert complaint in checked.stderr
    assert name in checked.stderr


def test_a_release_has_one_item_per_sentence(tmp_path: Path, folder: Path) -> None:
    """``towncrier`` writes it above the earlier releases and removes the fragments."""
    for name in ("pyproject.toml", "docs/changelog.d/_template.md"):
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "docs" / "changelog.md").write_text(
        "# Changelog\n\n<!-- releases -->\n\n## 0.0.1\n"
    )
    write(folder, "12.fixed.md", "A stream is closed once.\n")
    write(folder, "7-demo.added.md", "There is a demo.\nThere is a fixture.\n")

    built = subprocess.run(
        [
            *(sys.executable, "-m", "towncrier", "build", "--yes", "--dir", tmp_path),
            *("--version", "0.1.0", "--date", "2030-01-31"),
        ],
        capture_output=True,
        text=True,
    )

    assert built.returncode == 0, built.stderr
    released = (tmp_path / "docs" / "changelog.md").read_text()
    assert (
        released
        == """\
# Changelog

<!-- releases -->

## 0.1.0 (2030-01-31)

### Added

- There is a demo.
- There is a fixture.

### Fixed

- A stream is closed once.

## 0.0.1
"""
    )
    assert [path.name for path in folder.iterdir()] == ["_template.md"]
