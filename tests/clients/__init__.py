"""Tests of the client libraries, run in every environment that `make test` makes."""
