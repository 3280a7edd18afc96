"""Caddy in front of a server: a gateway that exports its own spans."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from support.daemons import listens, running
from support.otlp import free_port

_CONFIG: Final = """
{{
	admin off
	auto_https off
}}
http://127.0.0.1:{port} {{
	bind 127.0.0.1
	tracing {{
		span gateway
	}}
	reverse_proxy {upstream} {{
		flush_interval -1
		# llama.cpp closes a connection that was idle for 5 s, perhaps just when it is used again.
		transport http {{
			keepalive 3s
		}}
	}}
}}
"""


@contextmanager
def caddy_before(
    server_url: str, program: Path, folder: Path, *, traces_url: str
) -> Generator[str]:
    """
    Run Caddy inside the block; at the end of the block it exports its last spans.

    Args:
        server_url: URL of the server behind it.
        program: Path of Caddy.
        folder: Folder for its configuration, log and data.
        traces_url: OTLP receiver of its spans, without a path.

    Yields:
        URL of the gateway.
    """
    port = free_port()
    config = folder / "Caddyfile"
    config.write_text(_CONFIG.format(port=port, upstream=server_url))
    variables = {
        "OTEL_SERVICE_NAME": "gateway",
        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{traces_url}/v1/traces",
        "XDG_CONFIG_HOME": str(folder),
        "XDG_DATA_HOME": str(folder),
    }
    with running(
        [program, "run", "--config", config, "--adapter", "caddyfile"],
        log=folder / "caddy.log",
        ready=lambda: listens(port),
        variables=variables,
    ):
        yield f"http://127.0.0.1:{port}"
