"""Faults of real parts on loopback: llama.cpp, HAProxy, nginx, TLS, a network, an application."""
