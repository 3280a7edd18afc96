"""Rounds of a sweep: their order, and what happens if a path cannot be measured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from latspan._model.goals import toml_of
from latspan._study.loop import measure_rounds
from latspan.errors import ConfigError
from support.loops import chat


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_path_that_cannot_be_measured_does_not_stop_the_others(tmp_path: Path) -> None:
    """It is not tried again in the next round, and its time is not counted."""
    (target,) = chat().targets
    targets = (replace(target, metric="duration"),)
    for name in ("a", "b"):
        path = replace(chat(endpoint=f"no_such_module_{name}:f", targets=targets), name=name)
        (tmp_path / f"{name}.toml").write_text(toml_of(path), "utf-8")
    lines: list[str] = []
    done = measure_rounds(
        {"a": (), "b": ()},
        Path("sweep"),
        runs=2,
        expected_s={"a": 90.0, "b": 30.0},
        report=lines.append,
    )
    assert lines[::2] == ["run 1 of 4: a, about 4 min left", "run 2 of 4: b, about 1 min left"]
    assert "no_such_module_a" in done.errors["a"]
    assert "no_such_module_b" in done.errors["b"]
    assert done.folders == {"a": [], "b": []}
    assert done.interrupt is None


def test_a_sweep_is_never_mixed_with_an_earlier_one() -> None:
    """The recordings would be of different days."""
    Path("sweep/a").mkdir(parents=True)
    with pytest.raises(ConfigError, match="sweep is not empty"):
        measure_rounds({"a": ()}, Path("sweep"), runs=1, expected_s={}, report=print)
