"""Requirements hold or conflict as the packaging library says, which is rarely imported for it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.requirements import Requirement

from latspan._live.instrument._requirements import Conflict, conflict_with, holds, library_of
from support.distributions import write_distribution

Install = Callable[[str], str]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Install a library in a version, and return its name."""
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])

    def put(version: str) -> str:
        write_distribution(tmp_path, "some-library", version)
        return "some-library"

    return put


numbers = st.lists(st.integers(0, 3), min_size=1, max_size=4).map(
    lambda parts: ".".join(map(str, parts))
)
versions = st.builds(str.__add__, numbers, st.sampled_from(["", "", "rc1", ".post1", ".dev0"]))
clauses = st.builds(
    " ".join, st.tuples(st.sampled_from([">=", "<", ">", "==", "~=", "!="]), numbers)
).filter(lambda clause: not clause.startswith("~=") or "." in clause)


@given(st.lists(clauses, min_size=1, max_size=3), versions)
def test_versions_compare_as_the_packaging_library_compares_them(
    bounds: list[str], version: str
) -> None:
    """Pre-releases, post-releases and trailing zeros included."""
    requirement = f"library {', '.join(bounds)}"

    assert holds(requirement, "library", version) is Requirement(requirement).specifier.contains(
        version
    )


@pytest.mark.parametrize(
    ("requirement", "name"),
    [("openai >= 2, < 4", "openai"), ("a-b.c_d", "a-b.c_d"), (" x[y]~=1 ", "x")],
)
def test_a_requirement_begins_with_its_library(requirement: str, name: str) -> None:
    assert library_of(requirement) == name


def test_the_first_requirement_that_does_not_hold_is_the_conflict(install: Install) -> None:
    library = install("3.1")
    held, missed = f"{library} >= 3", f"{library} < 3.1"

    assert conflict_with([held]) is None
    assert conflict_with([held, missed]) == Conflict(missed, f"{library} 3.1")
    assert conflict_with(["absent-library >= 1"]) == Conflict("absent-library >= 1", None)


def test_an_invalid_requirement_is_a_warning(
    install: Install, caplog: pytest.LogCaptureFixture
) -> None:
    """It may come from an integration of another package."""
    library = install("3.1")

    assert conflict_with([f"{library} ?? 3"]) == Conflict(f"{library} ?? 3", None)
    assert "is not a valid requirement" in caplog.text
