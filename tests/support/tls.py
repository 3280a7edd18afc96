"""The one certificate that servers in tests show, and contexts for both ends."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Final

__all__ = ["CERTIFICATE", "server_context", "trusting_context"]

CERTIFICATE: Final = Path(__file__).parents[1] / "data" / "loopback.pem"
"""Key and certificate of ``localhost``, ``model.test`` and ``127.0.0.1``, signed by itself."""


def server_context(*, mutual: bool = False) -> ssl.SSLContext:
    """
    Return what a server shows the certificate with.

    Args:
        mutual: Whether a client must show it too.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    if mutual:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(CERTIFICATE)
    return context


def trusting_context() -> ssl.SSLContext:
    """Return what a client trusts that certificate with, and no other."""
    return ssl.create_default_context(cafile=CERTIFICATE)
