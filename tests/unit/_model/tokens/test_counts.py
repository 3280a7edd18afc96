"""A provider's token counts are used unchanged only if they add up."""

from __future__ import annotations

import pytest

from latspan._model.tokens import TokenSource, counted_by_provider
from latspan._model.wire import Usage


@pytest.mark.parametrize(
    ("usage", "output", "reasoning"),
    [
        pytest.param(Usage(5, output=300, reasoning=200, total=305), 300, 200, id="part of output"),
        pytest.param(Usage(5, output=300, reasoning=200, total=505), 500, 200, id="beside output"),
        pytest.param(Usage(5, output=4, reasoning=200, total=209), 204, 200, id="more, beside"),
        pytest.param(Usage(5, output=4, reasoning=200, total=9), 4, None, id="more than all"),
        pytest.param(Usage(5, output=4, reasoning=200), None, None, id="more, without a total"),
        pytest.param(Usage(5, output=4, reasoning=200, total=7), None, None, id="nothing adds up"),
        pytest.param(Usage(output=4, reasoning=200, total=204), None, None, id="no prompt"),
        pytest.param(Usage(5, output=300, reasoning=200), 300, 200, id="without a total"),
        pytest.param(Usage(5, output=300, reasoning=200, total="505"), 300, 200, id="text"),
        pytest.param(Usage(5, output=300, total=505), 300, None, id="no reasoning counted"),
        pytest.param(Usage(5, output=300, reasoning=0, total=305), 300, 0, id="none"),
    ],
)
def test_reasoning_is_part_of_the_output(
    usage: Usage, output: int | None, reasoning: int | None
) -> None:
    """The total shows if a provider counts it separately; contradictory counts are not used."""
    counts = counted_by_provider(usage)
    assert (counts.output, counts.reasoning) == (output, reasoning)
    assert counts.source is TokenSource.PROVIDER
