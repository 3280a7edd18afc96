"""
Array that grows at its end.

A recording is read in thousands of small chunks. Kept as arrays of their own and joined at the end,
they would leave as much memory behind, in pieces that no large array can use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_GROWTH: Final = 1.25
_MIN_CAPACITY: Final = 1_024


class GrowingArray:
    """
    Array of one dimension that grows at its end.

    Args:
        dtype: Type of the items.
        size: Number of items at the beginning that have the default.
        default: Value of these items.
    """

    __slots__ = ("_buffer", "_size")

    def __init__(self, dtype: Any, size: int = 0, default: float = 0) -> None:
        self._buffer: NDArray[Any] = np.full(size, default, dtype)
        self._size = size

    def __len__(self) -> int:
        return self._size

    def append(self, part: NDArray[Any]) -> None:
        """Append the items of an array."""
        self._reserve(len(part))[:] = part

    def extend(self, number: int, default: float) -> None:
        """Append a number of equal items."""
        self._reserve(number)[:] = default

    def _reserve(self, number: int) -> NDArray[Any]:
        """Return the place of further items."""
        begin, self._size = self._size, self._size + number
        if self._size > len(self._buffer):
            capacity = max(_MIN_CAPACITY, self._size, round(_GROWTH * len(self._buffer)))
            # Nothing else refers to the buffer until `array` is called.
            self._buffer.resize(capacity, refcheck=False)
        return self._buffer[begin : self._size]

    def array(self) -> NDArray[Any]:
        """Return the items; the array must not grow any more while the result is used."""
        return self._buffer[: self._size]
