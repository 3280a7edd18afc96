"""These tests need what `.venv-phoenix` alone has."""

from __future__ import annotations

from importlib.metadata import distributions

# A gigabyte, which `make test` does not fetch.
_HAS_PHOENIX = any(each.name == "arize-phoenix" for each in distributions())

collect_ignore_glob = [] if _HAS_PHOENIX else ["test_*.py"]
