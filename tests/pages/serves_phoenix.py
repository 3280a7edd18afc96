"""
Phoenix on the loopback interface alone.

Its own command listens for OTLP over gRPC on every interface, whatever ``PHOENIX_HOST`` says.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any


def main() -> None:
    grpc: Any = import_module("grpc.aio._server").Server
    add = grpc.add_insecure_port

    def add_on_loopback(server: Any, address: str) -> int:
        return add(server, address.replace("[::]", "127.0.0.1"))

    grpc.add_insecure_port = add_on_loopback
    phoenix: Any = import_module("phoenix.server.main")
    sys.argv = ["phoenix", "serve"]
    sys.exit(phoenix.main())


main()
