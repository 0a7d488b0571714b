"""A guarded door in front of a real Conductor: TLS, a key and a secret for a token, and tokens that end."""

from __future__ import annotations

import json
import secrets
from collections.abc import Generator
from contextlib import contextmanager

from attrs import define, field

from tests.conductor.front import Asked, Word, fronted
from tests.support.etcd.server import Certificates

KEY, SECRET = "the-key", "the-secret"


@define
class Gateway:
    """What the door knows: which tokens are good, what was asked for. ``instead``: what it answers for a token."""

    url: str = ""
    tokens: set[str] = field(factory=set[str])
    asked: list[str] = field(factory=list[str])
    instead: Word | None = None

    def forget_tokens(self) -> None:
        """Let all tokens end."""
        self.tokens.clear()

    def says(self, asked: Asked) -> Word | None:
        """Give tokens, and let those pass who have one."""
        self.asked.append(str(asked))
        if asked.path == "/api/token":
            return self.instead or self._token(json.loads(asked.body))
        if asked.headers.get("X-Authorization") in self.tokens:
            return None
        return Word(401, json.dumps({"error": "EXPIRED_TOKEN", "message": "Token is expired"}))

    def _token(self, said: dict[str, str]) -> Word:
        if (said["keyId"], said["keySecret"]) != (KEY, SECRET):
            return Word(401, json.dumps({"error": "INVALID_CREDENTIALS"}))
        self.tokens.add(token := secrets.token_hex(16))
        return Word(200, json.dumps({"token": token}))


@contextmanager
def guarded(upstream: str, certificates: Certificates) -> Generator[Gateway]:
    """Put a door in front of a server."""
    gateway = Gateway()
    with fronted(upstream, gateway.says, certificates) as gateway.url:
        yield gateway
