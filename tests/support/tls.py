"""The certificate of all servers in tests, and TLS contexts for both ends."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Final

CERTIFICATE: Final = Path(__file__).parents[1] / "data" / "loopback.pem"
"""Key and self-signed certificate for ``localhost``, ``model.test`` and ``127.0.0.1``."""


def server_context(*, mutual: bool = False) -> ssl.SSLContext:
    """
    Return a context with which a server presents the certificate.

    Args:
        mutual: Whether a client must present it too.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    if mutual:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(CERTIFICATE)
    return context


def trusting_context() -> ssl.SSLContext:
    """Return a client context that trusts only that certificate."""
    return ssl.create_default_context(cafile=CERTIFICATE)
