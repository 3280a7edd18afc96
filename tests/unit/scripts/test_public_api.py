"""The public names are held, and every change to one is told."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "public_api.py"

FRONT = """
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from latspan._inner import open_door

__all__ = ["Door", "open_door"]

from latspan._inner import Door
"""

INNER = """
from dataclasses import dataclass, field

class _Hinged:
    def swing(self) -> None: ...

@dataclass(frozen=True, kw_only=True)
class Door(_Hinged):
    width_mm: int = 800
    labels: list[str] = field(default_factory=list)

    @property
    def area(self) -> int: ...

    @classmethod
    def of(cls, text: str, /) -> "Door": ...

    async def close(self, *, slowly: bool = False) -> None: ...

    def _creak(self) -> None: ...

def open_door(door: Door, *, wide: bool = False) -> None: ...

def hidden() -> None: ...
"""

WORDS = """
from typing import Final

NAME: Final = "door"
COMPUTED: Final = NAME.upper()
Width = int | None
_PRIVATE: Final = 1
"""

HELD = """\
module latspan_lock
module latspan
@dataclass(frozen=True, kw_only=True) class latspan.Door(_Hinged)
def latspan.Door.__init__(*, width_mm: int = 800, labels: list[str] = list()) -> None
property latspan.Door.area: int
async def latspan.Door.close(*, slowly: bool = False) -> None
latspan.Door.labels: list[str] = field(default_factory=list)
classmethod def latspan.Door.of(text: str, /) -> Door
def latspan.Door.swing() -> None
latspan.Door.width_mm: int = 800
def latspan.open_door(door: Door, *, wide: bool = False) -> None
module latspan.words
latspan.words.COMPUTED: Final
latspan.words.NAME: Final = 'door'
latspan.words.Width = int | None
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository whose public names are held."""
    for path, text in (
        ("src/latspan/__init__.py", FRONT),
        ("src/latspan/_inner.py", INNER),
        ("src/latspan/words.py", WORDS),
        ("integrations/latspan_lock/__init__.py", "__all__: list[str] = []"),
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    assert public_api(tmp_path, "write").returncode == 0
    return tmp_path


def public_api(repository: Path, verb: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, SCRIPT, "--root", repository, verb], capture_output=True, text=True
    )


def changed(repository: Path, path: str, before: str, after: str) -> list[str]:
    """Change one thing in the code, and return the lines that the check says differ."""
    file = repository / "src" / "latspan" / path
    text = file.read_text()
    assert text.count(before) == 1
    file.write_text(text.replace(before, after))
    checked = public_api(repository, "check")
    assert (checked.returncode, checked.stdout) == (1, "")
    assert "scripts/public_api.py write" in checked.stderr
    return [
        line
        for line in checked.stderr.splitlines()
        if line[0] in "+-" and not line.startswith(("+++", "---"))
    ]


def test_what_is_held_has_each_public_name_with_its_signature(repository: Path) -> None:
    """Wherever it is defined, inherited ones too, and nothing private."""
    assert (repository / "docs/reference/public-api.txt").read_text() == HELD


def test_what_is_held_and_the_code_agree(repository: Path) -> None:
    """So there is nothing to say."""
    checked = public_api(repository, "check")

    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_an_added_name_is_told(repository: Path) -> None:
    """A promise more is a decision too."""
    assert changed(repository, "words.py", "_PRIVATE", "HEIGHT") == [
        "+latspan.words.HEIGHT: Final = 1"
    ]


def test_a_removed_name_is_told(repository: Path) -> None:
    """Though its definition stays."""
    assert changed(repository, "__init__.py", ', "open_door"]', "]") == [
        "-def latspan.open_door(door: Door, *, wide: bool = False) -> None"
    ]


def test_a_changed_signature_is_told(repository: Path) -> None:
    """As it was and as it is."""
    assert changed(repository, "_inner.py", "wide: bool = False", "wide: bool = True") == [
        "-def latspan.open_door(door: Door, *, wide: bool = False) -> None",
        "+def latspan.open_door(door: Door, *, wide: bool = True) -> None",
    ]


def test_a_changed_default_of_a_field_is_told(repository: Path) -> None:
    """On the field and where it is given."""
    assert len(changed(repository, "_inner.py", "800", "900")) == 4


def test_a_changed_word_that_leaves_the_process_is_told(repository: Path) -> None:
    """Names in the emitted data are names too."""
    assert changed(repository, "words.py", '"door"', '"gate"') == [
        "-latspan.words.NAME: Final = 'door'",
        "+latspan.words.NAME: Final = 'gate'",
    ]


def test_a_change_inside_is_nobodys_affair(repository: Path) -> None:
    """Private names come and go."""
    file = repository / "src" / "latspan" / "_inner.py"
    file.write_text(file.read_text().replace("_creak", "_squeak").replace("hidden", "gone"))

    assert public_api(repository, "check").returncode == 0


def test_names_that_are_not_held_yet_are_told(repository: Path) -> None:
    """All of them."""
    (repository / "docs/reference/public-api.txt").unlink()

    checked = public_api(repository, "check")

    assert checked.returncode == 1
    assert "+module latspan.words" in checked.stderr
