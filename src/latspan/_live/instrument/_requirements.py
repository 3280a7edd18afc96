"""Requirements of integrations: whether a supported version of a library is installed."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final, NamedTuple

from latspan._base.log import warn_once

_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")
_CLAUSE: Final = re.compile(r"\s*(>=|<)\s*(\d+(?:\.\d+)*)\s*")
_VERSION: Final = re.compile(r"^Version: *(\S+) *$", re.MULTILINE)
_FINAL_RELEASE: Final = re.compile(r"\d+(?:\.\d+)*")


class Conflict(NamedTuple):
    """
    A requirement that does not hold in this environment.

    Args:
        required: The requirement, for example ``openai >= 2, < 4``.
        found: The installed distribution, for example ``openai 1.9``; ``None`` if it is not
            installed.
    """

    required: str
    found: str | None


def library_of(requirement: str) -> str:
    """Return the name of the distribution in a requirement."""
    name = _NAME.match(requirement.strip())
    return "" if name is None else name[0]


def conflict_with(requires: Collection[str]) -> Conflict | None:
    """
    Return the first requirement that does not hold; ``None`` if all of them hold.

    A requirement that cannot be parsed never holds, and is logged as a warning.

    Args:
        requires: Requirement strings, as in a ``pyproject.toml``.
    """
    from importlib.metadata import PackageNotFoundError

    for requirement in requires:
        name = library_of(requirement)
        try:
            installed = version_of(name)
        except PackageNotFoundError:
            return Conflict(requirement, None)
        try:
            if not holds(requirement, name, installed):
                return Conflict(requirement, f"{name} {installed}")
        except ValueError as error:
            warn_once(f"'{requirement}' is not a valid requirement: {error}")
            return Conflict(requirement, None)
    return None


def version_of(distribution: str) -> str:
    """
    Return the version of an installed distribution.

    ``importlib.metadata.version`` parses all metadata, which contains the library's whole README.

    Raises:
        PackageNotFoundError: It is not installed.
    """
    from importlib.metadata import distribution as distribution_named

    found = distribution_named(distribution)
    version = _VERSION.search(found.read_text("METADATA") or "")
    return found.version if version is None else version[1]


def holds(requirement: str, name: str, installed: str) -> bool:
    """
    Return whether the installed version satisfies a requirement.

    Importing packaging takes longer than all other work of switching an integration on. It is not
    needed to compare a final release with lower and upper bounds, which is almost always the case.
    """
    clauses = [
        _CLAUSE.fullmatch(each) for each in requirement.strip().removeprefix(name).split(",")
    ]
    bounds = [(each[1], _release(each[2])) for each in clauses if each is not None]
    if len(bounds) == len(clauses) and _FINAL_RELEASE.fullmatch(installed):
        release = _release(installed)
        return all(release >= bound if sign == ">=" else release < bound for sign, bound in bounds)
    from packaging.requirements import Requirement

    return Requirement(requirement).specifier.contains(installed)


def _release(version: str) -> tuple[int, ...]:
    """Return the numbers of a final release; ``2``, ``2.0`` and ``2.0.0`` are equal."""
    numbers = [int(number) for number in version.split(".")]
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)
