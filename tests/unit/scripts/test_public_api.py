"""The public names are stored in a file, and every change of a name is reported."""

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

COLOURS = """
from enum import IntEnum

class Colour(IntEnum):
    RED = 1
"""

GATES = """
from abc import abstractmethod

class Gate:
    @abstractmethod
    def open(self) -> None: ...
    def lock(self) -> None: ...
    def swing(self) -> None: ...

class Wicket(Gate):
    def open(self) -> None: ...
    def swing(self, far: bool) -> None: ...
"""

HELD = """\
module latspan_lock
module latspan
@dataclass(frozen=True, kw_only=True) class latspan.Door(*, width_mm: int = 800, \
labels: list[str] = list()) extends _Hinged
property latspan.Door.area: int
async def latspan.Door.close(*, slowly: bool = False) -> None
classmethod def latspan.Door.of(text: str, /) -> Door
def latspan.Door.swing() -> None
def latspan.open_door(door: Door, *, wide: bool = False) -> None
module latspan.words
latspan.words.COMPUTED: Final
latspan.words.NAME: Final = 'door'
latspan.words.Width = int | None
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with stored public names."""
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
    """Change one string in the code, and return the reported differences."""
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


def test_the_file_has_every_public_name_with_its_signature(repository: Path) -> None:
    """Wherever it is defined, inherited names included; no private names."""
    assert (repository / "docs/reference/public-api.txt").read_text() == HELD


def test_unchanged_names_are_not_reported(repository: Path) -> None:
    checked = public_api(repository, "check")

    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_an_added_name_is_reported(repository: Path) -> None:
    """An addition is a promise too."""
    assert changed(repository, "words.py", "_PRIVATE", "HEIGHT") == [
        "+latspan.words.HEIGHT: Final = 1"
    ]


def test_a_removed_name_is_reported(repository: Path) -> None:
    """Even if its definition remains."""
    assert changed(repository, "__init__.py", ', "open_door"]', "]") == [
        "-def latspan.open_door(door: Door, *, wide: bool = False) -> None"
    ]


def test_a_changed_signature_is_reported(repository: Path) -> None:
    """The old and the new one."""
    assert changed(repository, "_inner.py", "wide: bool = False", "wide: bool = True") == [
        "-def latspan.open_door(door: Door, *, wide: bool = False) -> None",
        "+def latspan.open_door(door: Door, *, wide: bool = True) -> None",
    ]


def test_a_changed_default_of_a_field_is_reported(repository: Path) -> None:
    before, after = changed(repository, "_inner.py", "800", "900")
    assert "width_mm: int = 800" in before
    assert "width_mm: int = 900" in after


def test_an_added_member_of_an_enumeration_is_reported(repository: Path) -> None:
    """Its members stand in the line of the class."""
    (repository / "src/latspan/colours.py").write_text(COLOURS)
    assert public_api(repository, "write").returncode == 0
    assert changed(repository, "colours.py", "RED = 1", "RED = 1\n    BLUE = 2") == [
        "-class latspan.colours.Colour(RED = 1) extends IntEnum",
        "+class latspan.colours.Colour(RED = 1, BLUE = 2) extends IntEnum",
    ]


def test_a_member_is_listed_where_it_is_defined(repository: Path) -> None:
    """A subclass lists only what differs from its public base class."""
    (repository / "src/latspan/gates.py").write_text(GATES)
    assert public_api(repository, "write").returncode == 0
    held = (repository / "docs/reference/public-api.txt").read_text()
    assert "latspan.gates.Gate.lock()" in held
    assert "latspan.gates.Wicket.lock" not in held
    assert "latspan.gates.Wicket.open" not in held
    assert "latspan.gates.Wicket.swing(far: bool)" in held


def test_a_class_with_two_public_names_is_listed_once(repository: Path) -> None:
    reexport = 'from latspan._inner import Door\n\n__all__ = ["Door"]\n'
    (repository / "src/latspan/porch.py").write_text(reexport)
    assert public_api(repository, "write").returncode == 0
    held = (repository / "docs/reference/public-api.txt").read_text()
    assert "class latspan.porch.Door is latspan.Door\n" in held
    assert "latspan.porch.Door.area" not in held


def test_a_changed_constant_of_emitted_data_is_reported(repository: Path) -> None:
    """Names in the emitted data are public too."""
    assert changed(repository, "words.py", '"door"', '"gate"') == [
        "-latspan.words.NAME: Final = 'door'",
        "+latspan.words.NAME: Final = 'gate'",
    ]


def test_private_changes_are_not_reported(repository: Path) -> None:
    file = repository / "src" / "latspan" / "_inner.py"
    file.write_text(file.read_text().replace("_creak", "_squeak").replace("hidden", "gone"))

    assert public_api(repository, "check").returncode == 0


def test_all_names_are_reported_if_none_are_stored(repository: Path) -> None:
    (repository / "docs/reference/public-api.txt").unlink()

    checked = public_api(repository, "check")

    assert checked.returncode == 1
    assert "+module latspan.words" in checked.stderr
