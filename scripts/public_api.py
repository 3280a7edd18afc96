#!/usr/bin/env python3
"""
Hold the public names of latspan, with their signatures, in a file next to the documentation.

``public_api.py check`` prints how the code differs from ``docs/reference/public-api.txt``,
``public_api.py write`` writes the file from the code. The code is read, not run: what is
written does not depend on the interpreter or on what is installed.
"""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Iterator
from pathlib import Path

import griffe

HELD = Path("docs/reference/public-api.txt")

HOW_TO_ACCEPT = """\
hint: if this is meant, run .venv/bin/python scripts/public_api.py write
      and describe it in docs/changelog.d/<id>.<added|changed|deprecated|removed>.md
      docs/stability.md describes what may change, and how
"""

# Shown by the kind of the line instead.
TOLD_OTHERWISE = frozenset({"classmethod", "overload", "property", "staticmethod"})

# Members that only Python, rich and the base class of integrations read. Text forms may change.
INTERNAL = frozenset(
    {
        "__copy__",
        "__deepcopy__",
        "__eq__",
        "__hash__",
        "__match_args__",
        "__new__",
        "__post_init__",
        "__reduce__",
        "__repr__",
        "__rich_console__",
        "__sizeof__",
        "__slots__",
        "__str__",
        "core_module",
        "library",
        "own_scopes",
        "requires",
        "serves",
        "triggers_start",
        "warmer",
    }
)


def public_api(root: Path) -> list[str]:
    """Return a line for each public name in the repository at ``root``, in a fixed order."""
    sources = [root / "src", root / "integrations"]
    loader = griffe.GriffeLoader(
        search_paths=[str(path) for path in sources], allow_inspection=False
    )
    packages = [
        loader.load(path.parent.name)
        for path in sorted(
            path for source in sources for path in source.glob("latspan*/__init__.py")
        )
    ]
    loader.resolve_aliases(implicit=True)
    listed: dict[str, str] = {}
    return [line for package in packages for line in of_module(package, listed)]


def of_module(module: griffe.Object | griffe.Alias, listed: dict[str, str]) -> Iterator[str]:
    """
    Yield the lines of a module and of the public modules inside it.

    Args:
        module: The module.
        listed: Public names of the classes that are listed already, by the path of the definition;
            such a class is not listed again. Classes of the module are added.
    """
    yield f"module {module.path}"
    for name in exported(module):
        path, found = f"{module.path}.{name}", module.members[name]
        target = found.final_target if isinstance(found, griffe.Alias) else found
        if first := listed.get(target.path):
            yield f"class {path} is {first}"
            continue
        if target.is_class:
            listed[target.path] = path
        yield from of_name(path, found)
    for name, inner in sorted(module.modules.items()):
        if not (name.startswith("_") or inner.is_alias):
            yield from of_module(inner, listed)


def exported(module: griffe.Object | griffe.Alias) -> list[str]:
    """Return the names in ``__all__`` or, without one, the public names that the module defines."""
    if module.exports is not None:
        return sorted(str(name) for name in module.exports)
    return sorted(
        name
        for name, member in module.members.items()
        if not (name.startswith("_") or member.is_alias or member.is_module)
    )


def of_name(path: str, found: griffe.Object | griffe.Alias) -> Iterator[str]:
    """Yield the lines of what is called ``path``: one, and of a class one for each member too."""
    target = found.final_target if isinstance(found, griffe.Alias) else found
    if isinstance(target, griffe.Function):
        for one in target.overloads or [target]:
            yield of_function(path, one)
    elif isinstance(target, griffe.Attribute):
        yield of_attribute(path, target)
    elif isinstance(target, griffe.Class):
        yield from of_class(path, target)
    else:
        yield f"module {path}"


def of_function(path: str, function: griffe.Function) -> str:
    """Return the line of a function or method."""
    decorators = [
        f"@{decorator.value}"
        for decorator in function.decorators
        if str(decorator.value) not in TOLD_OTHERWISE
    ]
    kinds = [kind for kind in ("async", "classmethod", "staticmethod") if kind in function.labels]
    return " ".join([*decorators, *kinds, f"def {function.signature(name=path)}"])


def of_attribute(path: str, attribute: griffe.Attribute) -> str:
    """Return the line of a property, a field or a constant."""
    kind = "property " if "property" in attribute.labels else ""
    annotation = "" if attribute.annotation is None else f": {attribute.annotation}"
    value = f" = {attribute.value}" if promises_its_value(attribute) else ""
    return f"{kind}{path}{annotation}{value}"


def promises_its_value(attribute: griffe.Attribute) -> bool:
    """Return whether a value is part of the promise: a default, a literal, a type's other name."""
    owner = attribute.parent
    in_class = owner is not None and owner.is_class
    if attribute.value is None or attribute.name == "__version__":
        return False
    if in_class and "class-attribute" not in attribute.labels:
        return False
    is_field = owner is not None and "dataclass" in owner.labels
    return is_field or attribute.annotation is None or isinstance(attribute.value, str)


def of_class(path: str, cls: griffe.Class) -> Iterator[str]:
    """
    Yield the lines of a class and its public members.

    The line of the class has its arguments: of a dataclass or named tuple its fields, and of an
    enumeration its members. A member that a public base class lists with the same signature is not
    repeated.
    """
    made_by = [
        f"@{decorator.value} "
        for decorator in cls.decorators
        if "dataclass" in str(decorator.value)
    ]
    bases = [str(base) for base in cls.bases]
    fields = fields_of(cls, bases)
    line = f"{''.join(made_by)}class {path}"
    if fields and "dataclass" not in cls.labels:
        line += f"({', '.join(fields.values())})"
    elif isinstance(made := cls.all_members.get("__init__"), griffe.Function | griffe.Alias):
        line += made.signature(name="_").removeprefix("_").removesuffix(" -> None")
    yield f"{line} extends {', '.join(bases)}" if bases else line
    for name, member in sorted(cls.all_members.items()):
        if name in fields or not is_listed(name):
            continue
        lines = list(of_name(f"{path}.{name}", member))
        if lines not in inherited(path, name, cls):
            yield from lines


def is_listed(name: str) -> bool:
    """Return whether a member of a class has a line of its own if it is defined there."""
    is_private = name.startswith("_") and not name.endswith("__")
    # pytest calls the tests of a contract.
    is_test = name.startswith("test_")
    return not (is_private or is_test or name in INTERNAL or name == "__init__")


def fields_of(cls: griffe.Class, bases: list[str]) -> dict[str, str]:
    """Return the fields of a dataclass or named tuple, or the members of an enumeration."""
    one_line = "NamedTuple" in bases or any(base.endswith(("Enum", "Flag")) for base in bases)
    initial = {parameter.name for parameter in cls.parameters}
    return {
        name: of_attribute(name, member)
        for name, member in cls.members.items()
        if isinstance(member, griffe.Attribute)
        and "property" not in member.labels
        and not name.startswith("_")
        and (one_line or ("dataclass" in cls.labels and name in initial))
    }


def inherited(path: str, name: str, cls: griffe.Class) -> list[list[str]]:
    """Return how the base classes that are public themselves list the member ``name``."""
    at = f"{path}.{name}"
    return [
        [line.removeprefix("@abstractmethod ") for line in of_name(at, base.all_members[name])]
        for base in cls.mro()
        if not base.name.startswith("_") and name in base.all_members
    ]


def difference(held: list[str], found: list[str]) -> list[str]:
    """Return the unified diff from the file to the code; empty if they agree."""
    return list(difflib.unified_diff(held, found, str(HELD), "the code", n=0, lineterm=""))


def main() -> int:
    """Check or write, and return the exit status."""
    root = Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description="Hold the public names of latspan in a file")
    parser.add_argument("--root", type=Path, default=root, help="the repository")
    parser.add_argument("verb", choices=("check", "write"))
    arguments = parser.parse_args()
    path: Path = arguments.root / HELD
    found = public_api(arguments.root)
    if arguments.verb == "write":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(found) + "\n", encoding="utf-8")
        return 0
    held = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    if lines := difference(held, found):
        sys.stderr.write("\n".join(lines) + f"\n{HOW_TO_ACCEPT}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
