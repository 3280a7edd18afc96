"""A real Phoenix, in an environment of its own: `make test-phoenix`."""
