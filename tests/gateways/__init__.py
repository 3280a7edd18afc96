"""Real gateways in front of a real model server."""
