"""A measurement that cannot begin deletes, shows and reports nothing that it should not."""

from __future__ import annotations

from pathlib import Path

from tests.support.measuring import measure

NOTHING_LISTENS = "http://127.0.0.1:9/v1"


def test_a_failed_measurement_keeps_the_files_of_the_user(tmp_path: Path) -> None:
    """A folder that existed keeps its files if the first request fails."""
    for name in ("prompts.jsonl", "requests-of-mine.txt", "old.hlog"):
        (tmp_path / name).write_text('{"prompt": "my only copy"}\n')

    done = measure(NOTHING_LISTENS, tmp_path, "--model", "m")

    assert done.code == 2
    assert {each.name for each in tmp_path.iterdir()} >= {
        "prompts.jsonl", "requests-of-mine.txt", "old.hlog",
    }  # fmt: skip
    assert not (tmp_path / "recording.json").exists()
