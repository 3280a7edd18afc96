"""The scanner finds the line of every key that the TOML parser finds."""

from __future__ import annotations

import tomllib

from hypothesis import given
from hypothesis import strategies as st

from latspan._model.goals._lines import lines_of


def test_keys_tables_and_arrays_of_tables_have_their_lines() -> None:
    """Comments, brackets in strings and values of several lines do not shift them."""
    text = '''\
name = "a # b [c]"  # [not a table]
list = [
  "x",  # ]
  "y",
]

[first.second]
text = """
key = "inside a string"
[inside]
"""
"quoted key".'and.dotted' = 1

[[many]]
a = 1
[many.inner]
b = {c = 1, d = [{e = 2}]}
[[many]]
[[many.inner]]
f = 'literal \\'
'''
    tomllib.loads(text)

    assert lines_of(text) == {
        ("name",): 1,
        ("list",): 2,
        ("first", "second"): 7,
        ("first", "second", "text"): 8,
        ("first", "second", "quoted key", "and.dotted"): 12,
        ("many",): 18,
        ("many", 0): 14,
        ("many", 0, "a"): 15,
        ("many", 0, "inner"): 16,
        ("many", 0, "inner", "b"): 17,
        ("many", 1): 18,
        ("many", 1, "inner"): 19,
        ("many", 1, "inner", 0): 19,
        ("many", 1, "inner", 0, "f"): 20,
    }


STRINGS = (
    '"plain"',
    '"esc \\" # [ "',
    "'lit # ] \\'",
    '"""multi\n# [x]\n" two ""\n"""',
    "'''multi\nk = 1\n'''",
    '""',
    "''",
    '""""quoted""""',
)


@given(
    st.lists(
        st.one_of(
            st.sampled_from(STRINGS),
            st.sampled_from(["1", "2.5", "true", "2026-01-01", "[1, [2]]", "{a = '}', b = [1]}"]),
            st.lists(st.sampled_from(STRINGS), max_size=3).map(
                lambda each: "[ # [\n" + "".join(f"{item}, # ]\n" for item in each) + "]"
            ),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_every_value_is_skipped_whole(values: list[str]) -> None:
    """The key after a value is on the line after the value's end, whatever the value holds."""
    expected: dict[tuple[str, ...], int] = {}
    text = ""
    for number, value in enumerate(values):
        text += "# comment\n\n"
        expected[(f"k{number}",)] = text.count("\n") + 1
        text += f"k{number} = {value} # [end\n"
    tomllib.loads(text)

    assert lines_of(text) == expected
