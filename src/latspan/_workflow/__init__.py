"""Sequences of commands that one user would otherwise type, and the write-up of their results."""

from __future__ import annotations

from latspan._workflow._interleaved import Order, Plan, measure_both, sides_in_order
from latspan._workflow._write_up import write_pages

__all__ = ["Order", "Plan", "measure_both", "sides_in_order", "write_pages"]
