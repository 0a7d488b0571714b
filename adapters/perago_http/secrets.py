"""Where a secret may be sent: over TLS, or to this machine; elsewhere only if somebody has said so."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit


def is_loopback(url: str) -> bool:
    """Return whether an address is on this machine, so that what is sent there crosses no network."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def refuse_clear_text(url: str, what: str, allow: str) -> None:
    """Refuse to send a secret where anybody on the way can read it. ``allow``: the setting that says otherwise."""
    if urlsplit(url).scheme != "https" and not is_loopback(url):
        shown = url.partition("?")[0].rpartition("@")[2]
        raise ValueError(
            f"expected https, or a server on this machine; found {shown}, which would carry the {what} in clear text "
            f"over the network: use https, or set {allow} = true if nobody else can listen there"
        )
