"""The same application with calls of latspan: ``is_instrumented_by_hand.py MODEL_URL``."""

from __future__ import annotations

import sys

import latspan

latspan.configure()
latspan.auto_instrument()

import asks_a_model  # noqa: E402 - as an application does it: before its own imports

asks_a_model.main(sys.argv[1])
