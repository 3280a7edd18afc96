"""Sequences of commands that one user would otherwise type: the runs of a verification."""

from __future__ import annotations

from latspan._workflow._interleaved import Order, Plan, measure_both, sides_in_order

__all__ = ["Order", "Plan", "measure_both", "sides_in_order"]
