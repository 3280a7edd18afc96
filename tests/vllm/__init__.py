"""A real vLLM, in an environment of its own: `make test-vllm`."""
