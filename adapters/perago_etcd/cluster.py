"""The address of an etcd cluster and the credentials for it, as one checked value."""

from __future__ import annotations

import ipaddress
import ssl
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit

from attrs import field, frozen


@frozen
class Cluster:
    """The address of an etcd cluster and the credentials for it. The password is never printed.

    ``ca``, ``cert`` and ``key`` are files in PEM form: the authority to trust, and the certificate to show.
    """

    endpoints: tuple[str, ...]
    user: str = ""
    password: str = field(default="", repr=False)
    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    timeout: float = 5.0

    def __attrs_post_init__(self) -> None:
        if not self.endpoints:
            _refuse("expected at least one endpoint, found none: give a URL such as https://etcd-1:2379")
        for endpoint in self.endpoints:
            parts = urlsplit(endpoint)
            if parts.scheme not in {"http", "https"} or not parts.hostname or parts.username is not None:
                _refuse(
                    f"expected an endpoint such as https://host:2379, found {_without_user(endpoint)!r}: "
                    "give scheme and host, and user and password apart from it",
                )
            if self.password and parts.scheme == "http" and not _is_loopback(endpoint):
                _refuse(f"{endpoint} would carry the password in clear text over the network: use https")
        if bool(self.user) is not bool(self.password):
            _refuse("expected both user and password or neither, found one of them")
        if (self.cert is None) is not (self.key is None):
            _refuse("expected both a certificate and its key or neither, found one of them")
        if not self.timeout > 0:
            _refuse(f"expected a time-out of more than 0 seconds, found {self.timeout!r}")

    def trust(self) -> ssl.SSLContext | bool:
        """Make the TLS context; ``True``: the system's certificate authorities; ``False``: no endpoint uses TLS."""
        if not any(urlsplit(endpoint).scheme == "https" for endpoint in self.endpoints):
            return False  # no TLS, nothing to check; reading the authorities would cost a third of a second
        if self.ca is None and self.cert is None:
            return True
        context = ssl.create_default_context(cafile=self.ca)
        if self.cert is not None:
            context.load_cert_chain(self.cert, self.key)
        return context

    @property
    def is_local(self) -> bool:
        """Whether every endpoint is on this machine; a proxy from the environment is then never asked."""
        return all(_is_loopback(endpoint) for endpoint in self.endpoints)


def _is_loopback(endpoint: str) -> bool:
    host = urlsplit(endpoint).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _without_user(endpoint: str) -> str:
    """Leave out what stands before an ``@``: it may be a password."""
    return endpoint.rpartition("@")[2]


def _refuse(message: str) -> NoReturn:
    raise ValueError(message)
