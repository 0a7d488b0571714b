"""The address of an etcd cluster and the credentials for it, as one checked value."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit

from attrs import field, frozen

from perago_http.secrets import refuse_clear_text


@frozen
class Cluster:
    """The address of an etcd cluster and the credentials for it. The password is never printed.

    ``ca``, ``cert`` and ``key`` are files in PEM form: the authority to trust, and the certificate to show.
    ``timeout``: seconds for a whole answer. ``insecure``: the password may cross the network in clear text.
    """

    endpoints: tuple[str, ...]
    user: str = ""
    password: str = field(default="", repr=False)
    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    timeout: float = 5.0
    insecure: bool = False

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
            if self.password and not self.insecure:
                refuse_clear_text(endpoint, "password", "coordination.insecure")
        if bool(self.user) is not bool(self.password):
            _refuse("expected both user and password or neither, found one of them")
        if (self.cert is None) is not (self.key is None):
            _refuse("expected both a certificate and its key or neither, found one of them")
        if not self.timeout > 0:
            _refuse(f"expected a time-out of more than 0 seconds, found {self.timeout!r}")

    def trust(self) -> ssl.SSLContext | None:
        """Make the TLS context, with the system's certificate authorities unless one is given; ``None``: no TLS."""
        if not any(urlsplit(endpoint).scheme == "https" for endpoint in self.endpoints):
            return None  # nothing to check; reading the authorities would cost a third of a second
        context = ssl.create_default_context(cafile=self.ca)
        if self.cert is not None:
            context.load_cert_chain(self.cert, self.key)
        return context


def _without_user(endpoint: str) -> str:
    """Leave out what stands before an ``@``: it may be a password."""
    return endpoint.rpartition("@")[2]


def _refuse(message: str) -> NoReturn:
    raise ValueError(message)
