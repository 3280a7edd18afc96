"""Faults of real sockets: servers, gateways, networks and programs, written without the rules."""
