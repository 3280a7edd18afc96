"""nginx in front of a server: it forwards a stream immediately, or buffers it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from support.daemons import listens, running
from support.otlp import free_port

_CONFIG: Final = """
daemon off;
master_process off;
pid {folder}/nginx.pid;
error_log stderr;
events {{}}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass {upstream};
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      {buffers}
    }}
  }}
}}
"""
# Servers ask nginx by a header not to buffer a stream. A gateway that ignores the header and
# compresses sends nothing until the compressor has enough data or the response ends.
_SAVES_UP: Final = """
      proxy_ignore_headers X-Accel-Buffering;
      gzip on;
      gzip_types text/event-stream;
"""


@contextmanager
def nginx_before(server_url: str, program: Path, folder: Path, *, saves_up: bool) -> Generator[str]:
    """
    Run nginx inside the block.

    Args:
        server_url: URL of the server behind it.
        program: Path of nginx.
        folder: Folder for its configuration, log and temporary files.
        saves_up: Whether it buffers a response until its end, ignoring the server's header.

    Yields:
        URL of the gateway.
    """
    port = free_port()
    config = folder / "nginx.conf"
    config.write_text(
        _CONFIG.format(
            folder=folder, port=port, upstream=server_url, buffers=_SAVES_UP if saves_up else ""
        )
    )
    with running(
        # A private prefix, and the log destination until the configuration is read.
        [program, "-p", folder, "-c", config, "-e", "stderr"],
        log=folder / "nginx.log",
        ready=lambda: listens(port),
    ):
        yield f"http://127.0.0.1:{port}"
