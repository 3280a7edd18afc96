"""Quality of answers: scorers, and what pairs of scores show."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from latspan._study.verify import (
    Quality,
    QualityJudgement,
    check_items,
    compare_quality,
    scorer_of,
)
from latspan.errors import ConfigError


def short(item: Mapping[str, Any], answer: str) -> object:
    """Score an answer by its length; a scorer of the user's."""
    return float(len(answer) <= item["most"])


def raises(item: Mapping[str, Any], answer: str) -> object:
    """Fail with every answer; a scorer of the user's with a mistake."""
    raise KeyError("gold", item, answer)


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
        ({"scorer": "json_schema", "expected": {"type": "object"}}, "[" * 100_000, 0),
        ({"scorer": "json_schema", "expected": {"type": "object"}}, "9" * 10_000, 0),
        ({"scorer": "numeric", "expected": 4}, "9" * 400, 0),
        ({"scorer": f"{__name__}:short", "most": 3}, "abc", 1),
    ],
)
def test_an_answer_is_scored(item: Mapping[str, Any], answer: str, expected: float) -> None:
    """From 0 to 1."""
    if ":" in str(item.get("scorer")):
        pytest.importorskip(__name__)
    assert scorer_of(item)(answer) == expected


@pytest.mark.parametrize(
    ("item", "error"),
    [
        ({"scorer": "vibes", "expected": 1}, "the item 7 names no scorer: 'vibes'"),
        ({}, "the item 7 has no 'expected'"),
        ({"scorer": "regex", "expected": "("}, "the item 7 is not valid for the scorer regex"),
        ({"scorer": "numeric", "expected": "many"}, "the item 7 is not valid for the scorer"),
        ({"scorer": "numeric", "expected": 10**400}, "the item 7 .*OverflowError"),
        ({"scorer": "numeric", "expected": math.nan}, "the item 7 .*not finite"),
        ({"scorer": "json_schema", "expected": {"type": "strng"}}, "the item 7 .*strng"),
        ({"scorer": "json_schema", "expected": "abc"}, "the item 7 .*a schema is an object"),
        ({"scorer": "json_schema", "expected": {"$ref": "#/nope"}}, "the item 7 .*nope"),
        ({"scorer": "json_schema", "expected": {"$ref": "#"}}, "the item 7 .*RecursionError"),
        ({"scorer": "no.module:f"}, "the item 7: cannot import the scorer"),
        ({"scorer": "wrong_syntax:f"}, "the item 7: cannot import the scorer .*SyntaxError"),
        ({"scorer": f"{__name__}:pytestmark_"}, "the item 7: cannot import the scorer"),
    ],
)
def test_a_wrong_item_is_explained(
    item: Mapping[str, Any], error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before there is an answer, with the item that is wrong."""
    (tmp_path / "wrong_syntax.py").write_text("def f(:\n", "utf-8")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    (tmp_path / "items").write_text(json.dumps({"id": "7", **item}), "utf-8")
    with pytest.raises(ConfigError, match=error):
        check_items(tmp_path / "items", margin=0.05)


@pytest.mark.parametrize(
    ("item", "error"),
    [
        ({"scorer": "builtins:len"}, "the item 7: the scorer builtins:len failed: TypeError"),
        ({"scorer": f"{__name__}:raises"}, "the item 7: the scorer .* failed: KeyError"),
        ({"scorer": "builtins:print"}, "the item 7: the scorer .* failed: TypeError|returned None"),
        (
            {"scorer": "json_schema", "expected": {"properties": {"a": {"$ref": "#/nope"}}}},
            "the item 7 is not valid for the scorer json_schema",
        ),
    ],
)
def test_a_scorer_that_fails_names_its_item(item: Mapping[str, Any], error: str) -> None:
    """Such a mistake shows only with an answer."""
    with pytest.raises(ConfigError, match=error):
        scorer_of({"id": 7, **item})('{"a": 1}')


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


@pytest.mark.parametrize("line", [{"id": 0, "output": "yes"}, {"id": 0, "answer": None}])
def test_an_answer_is_a_text(tmp_path: Path, line: dict[str, object]) -> None:
    """Another key, and null, are mistakes of the file and not wrong answers."""
    compared(tmp_path, 0, 0, 3)
    (tmp_path / "after.jsonl").write_text(f"\n{json.dumps(line)}\n", "utf-8")
    files = [tmp_path / f"{name}.jsonl" for name in ("items", "before", "after")]
    with pytest.raises(ConfigError, match=r"after\.jsonl, line 2: it has no text 'answer'"):
        compare_quality(*files)


def test_scores_of_zero_show_nothing(tmp_path: Path) -> None:
    """A drop cannot be seen, so the quality is not kept."""
    found = compared(tmp_path, 80, 80, 80)
    assert found.judgement is QualityJudgement.INCONCLUSIVE
    assert "all answers score 0 before and after, on 80 items" in found.sentence


def test_a_line_ends_at_a_line_feed_only(tmp_path: Path) -> None:
    """Other separators are text in JSON; a byte order mark at the start is no text."""
    compared(tmp_path, 0, 0, 3)
    files = [tmp_path / f"{name}.jsonl" for name in ("items", "before", "after")]
    rows = [{"id": str(each), "answer": "yes\u2028\u0085"} for each in range(3)]
    text = "\r\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    files[2].write_bytes(b"\xef\xbb\xbf" + text.encode())
    found = compare_quality(*files)
    assert (found.items, found.after, found.lengths) == (3, 1.0, (3, 5))


@pytest.mark.parametrize("margin", [0.0, 1e-300, 1.0, math.nan, -1.0])
def test_a_margin_is_a_number_that_items_can_show(tmp_path: Path, margin: float) -> None:
    """A margin below one in a million would need millions of items."""
    compared(tmp_path, 0, 0, 3)
    files = [tmp_path / f"{name}.jsonl" for name in ("items", "before", "after")]
    with pytest.raises(ConfigError, match="a margin of"):
        compare_quality(*files, margin=margin)
    assert "items are needed" in compare_quality(*files, margin=1e-6).sentence
