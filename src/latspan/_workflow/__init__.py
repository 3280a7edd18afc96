"""Sequences of commands that one user would otherwise type, and the write-up of their results."""

from __future__ import annotations

from latspan._workflow._interleaved import INVALID_RUNS, Order, Plan, measure_both, sides_in_order
from latspan._workflow._quality_command import QualityCommand
from latspan._workflow._rounds import Rounds, measure_rounds
from latspan._workflow._write_up import write_pages

__all__ = [
    "INVALID_RUNS",
    "Order",
    "Plan",
    "QualityCommand",
    "Rounds",
    "measure_both",
    "measure_rounds",
    "sides_in_order",
    "write_pages",
]
