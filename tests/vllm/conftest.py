"""These tests need what `.venv-vllm` alone has."""

from __future__ import annotations

from importlib.util import find_spec

# Gigabytes, which `make test` does not fetch.
collect_ignore_glob = [] if find_spec("vllm") else ["test_*.py"]
