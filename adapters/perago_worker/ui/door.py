"""Who may come in: whoever has the address that was printed, through this machine's own name.

The server listens on loopback, where every user and every page in a browser of this machine can reach it. Three things
keep them out:

1. The first part of each path is a random token, compared in constant time. It is in the address and nowhere else: no
   cookie that a browser would send along by itself, so a page of another site that guesses the port gets nothing.
2. The ``Host`` must be this server's. Counterexample: a page at ``evil.example`` has its name resolve to 127.0.0.1 the
   second time (DNS rebinding); its scripts are then of our origin for the browser, and would read every answer.
3. What changes something must come from our own page: a browser says so in ``Origin``.
"""

from __future__ import annotations

import hmac
import secrets

from attrs import field, frozen

LOOPBACK = "127.0.0.1"
_NAMES = (LOOPBACK, "localhost")


@frozen
class Door:
    """The token of one server, and the port it listens on."""

    port: int
    token: str = field(factory=lambda: secrets.token_urlsafe(32), repr=False)

    @property
    def address(self) -> str:
        """Return the address that lets its owner in."""
        return f"http://{LOOPBACK}:{self.port}/{self.token}/"

    def refusal(self, host: str | None, origin: str | None, token: str) -> str | None:
        """Say why somebody may not come in; ``None``: they may. ``token`` is the first part of the path."""
        here = [f"{name}:{self.port}" for name in _NAMES]
        if host not in here:
            return f"expected the host {here[0]}; found another one. Open the address that `perago ui` printed"
        if origin is not None and origin not in {f"http://{each}" for each in here}:
            return "expected a request of this page; found one of another origin"
        # Bytes, because texts with anything but ASCII are not compared at all.
        if not hmac.compare_digest(token.encode("utf-8", "backslashreplace"), self.token.encode()):
            return "expected the token of this server in the address. Open the address that `perago ui` printed"
        return None
