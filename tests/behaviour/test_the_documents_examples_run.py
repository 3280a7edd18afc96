"""
Every Python example of the README and the guides runs as a reader would run it.

A comment before a block contains its options, see ``tests/README.md``.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pytest

from latspan.testing import Script, ScriptedServer

ROOT: Final = Path(__file__).resolve().parents[2]
PAGES: Final = (ROOT / "README.md", *sorted((ROOT / "docs" / "guides").glob("*.md")))

SCRIPT: Final = Script.chat(tokens=8, queue_ms=5, prefill_ms=20, gap_ms=5)
# The examples allow two seconds, a hundred times the duration of the script, so that they only fail
# with a server that is deliberately late.
LATE: Final = (*(SCRIPT,) * 9, replace(SCRIPT, queue_ns=2_500_000_000))

MAX_S: Final = 120

# A block may be indented, for example in a list.
BLOCK: Final = re.compile(
    r"(?:^[ ]*<!--[ ]*example:[ ]*(?P<said>.*?)[ ]*-->[ ]*\n\n?)?"
    r"^(?P<indent>[ ]*)```python\b[^\n]*\n(?P<code>.*?)^(?P=indent)```[ ]*$",
    flags=re.MULTILINE | re.DOTALL,
)
OPTIONS: Final = {"needs": {"scripted_server"}, "fails_when": {"slow_server"}}


@dataclass(frozen=True, slots=True)
class Example:
    """
    One code block of a page.

    Args:
        where: Page, and line of the first line of code.
        code: Code of the block.
        name: Name in its comment, empty without a comment.
        skip: Reason for which it is not run, empty if it is run.
        needs_server: Whether it needs a scripted server.
        fails_when_slow: Whether it must fail if every tenth response of that server is late.
    """

    where: str
    code: str
    name: str = ""
    skip: str = ""
    needs_server: bool = False
    fails_when_slow: bool = False

    @property
    def is_test(self) -> bool:
        """Whether it runs under pytest."""
        return re.search(r"^\s*(async )?def test_", self.code, re.MULTILINE) is not None

    def run(self, folder: Path, base_url: str | None) -> subprocess.CompletedProcess[str]:
        """Run the block in an empty folder and return the completed process."""
        file = folder / ("test_example.py" if self.is_test else "example.py")
        file.write_text(self.code, encoding="utf-8")
        command = [sys.executable, file.name]
        if self.is_test:
            command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", file.name]
        return subprocess.run(
            command,
            cwd=folder,
            env=_environment(base_url),
            capture_output=True,
            text=True,
            timeout=MAX_S,
            stdin=subprocess.DEVNULL,
        )


def _environment(base_url: str | None) -> dict[str, str]:
    """Return this environment without variables that would affect an example."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("OTEL_", "LATSPAN_", "OPENAI_", "PYTEST_"))
    }
    if base_url is not None:
        kept |= {"OPENAI_BASE_URL": base_url, "OPENAI_API_KEY": "test"}
    return kept


def examples_in(text: str, page: str) -> Iterator[Example]:
    """
    Yield the Python blocks of a page.

    Raises:
        ValueError: A comment has an unknown option, or skips without a reason.
    """
    for block in BLOCK.finditer(text):
        line = text.count("\n", 0, block.start("code")) + 1
        where = f"{page}:{line}"
        indent = block["indent"]
        code = "".join(
            line.removeprefix(indent) for line in block["code"].splitlines(keepends=True)
        )
        said = block["said"]
        if said is None:
            yield Example(where, code)
            continue
        skip = re.fullmatch(r"skip\b:?(?P<reason>.*)", said)
        if skip is not None:
            if not skip["reason"].strip():
                raise ValueError(f"{where}: an example is skipped for a reason")
            yield Example(where, code, name="skipped", skip=skip["reason"].strip())
            continue
        name, *options = (part.strip() for part in said.split(","))
        chosen = {key: value for key, _, value in (part.partition("=") for part in options)}
        for option, value in chosen.items():
            if value not in OPTIONS.get(option, ()):
                raise ValueError(f"{where}: an example has no option '{option}={value}'")
        if not name:
            raise ValueError(f"{where}: an example has a name")
        yield Example(
            where,
            code,
            name=name,
            needs_server="needs" in chosen,
            fails_when_slow="fails_when" in chosen,
        )


def _all_examples() -> list[Example]:
    return [
        example
        for page in PAGES
        if page.exists()
        for example in examples_in(
            page.read_text(encoding="utf-8"), page.relative_to(ROOT).as_posix()
        )
    ]


EXAMPLES: Final = _all_examples()


def _parameters(examples: list[Example]) -> list[Any]:
    return [
        pytest.param(
            example,
            id=f"{example.where}: {example.name}",
            marks=pytest.mark.skip(reason=example.skip) if example.skip else (),
        )
        for example in examples
    ]


def test_every_page_exists() -> None:
    assert [page.name for page in PAGES if not page.exists()] == []


def test_every_example_has_a_comment_with_its_options() -> None:
    assert [example.where for example in EXAMPLES if not example.name] == []


def _run(example: Example, folder: Path, *scripts: Script) -> subprocess.CompletedProcess[str]:
    if not example.needs_server:
        return example.run(folder, None)
    with ScriptedServer(scripts) as server:
        return example.run(folder, server.base_url)


@pytest.mark.parametrize("example", _parameters([each for each in EXAMPLES if each.name]))
def test_an_example_runs(example: Example, tmp_path: Path) -> None:
    ran = _run(example, tmp_path, SCRIPT)

    assert ran.returncode == 0, f"{ran.stdout}\n{ran.stderr}"


@pytest.mark.parametrize(
    "example", _parameters([each for each in EXAMPLES if each.fails_when_slow])
)
def test_an_example_fails_if_every_tenth_response_is_late(example: Example, tmp_path: Path) -> None:
    ran = _run(example, tmp_path, *LATE)

    # Exit code 1 means that tests ran and failed; other errors have other codes.
    assert ran.returncode == 1, f"{ran.stdout}\n{ran.stderr}"
    assert "AssertionError" in ran.stdout or "assert " in ran.stdout


def test_a_comment_sets_the_options_of_a_block() -> None:
    page = (
        "<!-- example: first, needs=scripted_server -->\n```python\na = 1\n```\n\n"
        "<!-- example: skip: it needs a key -->\n\n```python\nb = 2\n```\n\n"
        "1. In a list\n\n    ```python\n    if c:\n        d = 3\n    ```\n\n"
        "```text\nnot Python\n```\n"
    )

    first, second, third = examples_in(page, "page.md")

    assert Example("page.md:3", "a = 1\n", name="first", needs_server=True) == first
    assert second.skip == "it needs a key"
    assert Example("page.md:15", "if c:\n    d = 3\n") == third


@pytest.mark.parametrize("said", ["skip", "skip:", "name, needs=luck", "name, wants=more", ""])
def test_an_invalid_comment_is_refused(said: str) -> None:
    page = f"<!-- example: {said} -->\n```python\na = 1\n```\n"

    with pytest.raises(ValueError, match="an example"):
        list(examples_in(page, "page.md"))
