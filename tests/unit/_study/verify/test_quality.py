"""Quality of answers: scorers, and what pairs of scores show."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from latspan._study.verify import Quality, QualityJudgement, compare_quality, score
from latspan.errors import ConfigError


def short(item: Mapping[str, Any], answer: str) -> object:
    """Score an answer by its length; a scorer of the user's."""
    return float(len(answer) <= item["most"])


@pytest.mark.parametrize(
    ("item", "answer", "expected"),
    [
        ({"expected": "Paris"}, " Paris\n", 1),
        ({"expected": "Paris"}, "paris", 0),
        ({"scorer": "contains", "expected": "paris"}, "It is Paris.", 1),
        ({"scorer": "contains", "expected": ["red", "blue"]}, "Red and green", 0.5),
        ({"scorer": "regex", "expected": r"\b4\d\b"}, "the answer is 42", 1),
        ({"scorer": "numeric", "expected": 1234.5, "tolerance": 0.1}, "3 x 411.5 = 1,234.5", 1),
        ({"scorer": "numeric", "expected": 4}, "four", 0),
        ({"scorer": "json_schema", "expected": {"required": ["a"]}}, '{"a": 1}', 1),
        ({"scorer": "json_schema", "expected": {"required": ["a"]}}, "not JSON", 0),
        ({"scorer": f"{__name__}:short", "most": 3}, "abc", 1),
    ],
)
def test_an_answer_is_scored(item: Mapping[str, Any], answer: str, expected: float) -> None:
    """From 0 to 1."""
    if ":" in str(item.get("scorer")):
        pytest.importorskip(__name__)
    assert score(item, answer) == expected


@pytest.mark.parametrize(
    ("item", "error"),
    [
        ({"scorer": "vibes", "expected": 1}, "no scorer 'vibes'"),
        ({"id": 7}, "the item 7 has no 'expected'"),
        ({"scorer": "regex", "expected": "("}, "not valid for the scorer regex"),
        ({"scorer": "numeric", "expected": "many"}, "not valid for the scorer numeric"),
        ({"scorer": "no.module:f"}, "cannot import the scorer"),
        ({"scorer": "builtins:len"}, "cannot import the scorer|takes exactly one"),
    ],
)
def test_a_wrong_item_is_explained(item: Mapping[str, Any], error: str) -> None:
    """With what is wrong in its line."""
    with pytest.raises((ConfigError, TypeError), match=error):
        score(item, "4 2")


def compared(folder: Path, wrong_before: int, wrong_after: int, items: int) -> Quality:
    """Compare answers of which the first ones are wrong."""
    lines = {
        "items": [{"id": str(each), "expected": "yes"} for each in range(items)],
        "before": [
            {"id": str(each), "answer": "no" if each < wrong_before else "yes"}
            for each in range(items)
        ],
        "after": [
            {"id": str(each), "answer": "no" if each < wrong_after else "yes"}
            for each in range(items)
        ],
    }
    for name, rows in lines.items():
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(text, "utf-8")
    return compare_quality(*(folder / f"{name}.jsonl" for name in lines))


@pytest.mark.parametrize(
    ("before", "after", "items", "judgement"),
    [
        (3, 3, 60, QualityJudgement.KEPT),
        (3, 3, 58, QualityJudgement.INCONCLUSIVE),
        (0, 3, 100, QualityJudgement.INCONCLUSIVE),
        (0, 1, 250, QualityJudgement.KEPT),
        (0, 20, 100, QualityJudgement.DROPPED),
        (9, 0, 100, QualityJudgement.KEPT),
    ],
)
def test_a_drop_must_be_excluded(
    tmp_path: Path, before: int, after: int, items: int, judgement: QualityJudgement
) -> None:
    """With a margin of 5 points, that takes 59 items even if nothing changed."""
    found = compared(tmp_path, before, after, items)
    assert found.judgement is judgement
    assert len(found.worse) == max(0, after - before)
    if judgement is QualityJudgement.INCONCLUSIVE:
        assert "items are needed" in found.sentence


def test_both_sides_answer_every_item(tmp_path: Path) -> None:
    """A missing answer is probably a failed request, and no reason to leave the item out."""
    compared(tmp_path, 0, 0, 3)
    (tmp_path / "after.jsonl").write_text('{"id": "0", "answer": "yes"}\n', "utf-8")
    files = [tmp_path / f"{name}.jsonl" for name in ("items", "before", "after")]
    with pytest.raises(ConfigError, match="no answer to 1, and to 1 more"):
        compare_quality(*files)
    files[2].write_text("[]\n", "utf-8")
    with pytest.raises(ConfigError, match=r"after\.jsonl, line 1: it is not an object"):
        compare_quality(*files)
    with pytest.raises(ConfigError, match="cannot read"):
        compare_quality(tmp_path / "nothing", *files[1:])
