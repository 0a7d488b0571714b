"""Azure's own emulator of its blob storage on loopback: the cloud that is not S3."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import secrets
import shutil
from collections.abc import Mapping
from email.utils import formatdate
from http.client import HTTPConnection, HTTPException
from typing import ClassVar

from attrs import define, field

from tests.support.servers.buckets import BUCKET
from tests.support.servers.cache import ObtainError, Part
from tests.support.servers.processes import listens
from tests.support.servers.server import Server

AZURITE = Part("azurite", "3.35.0", "node_modules/azurite/dist/src/blob/main.js")
_VERSION = "2021-12-02"


def node() -> str:
    """Find Node.js, which no package of Python's brings."""
    found = shutil.which("node")
    if found is None:
        raise ObtainError("expected Node.js, to run Azurite with; found none. Install it: apt install nodejs npm")
    return found


@define(kw_only=True)
class Azurite(Server):
    """A server with one container, ``perago``; it is ready once that is there."""

    name: ClassVar[str] = "azurite"
    health: ClassVar[str] = f"/perago/{BUCKET}?restype=container"

    account: ClassVar[str] = "perago"
    key: str = field(factory=lambda: base64.b64encode(secrets.token_bytes(32)).decode(), repr=False)

    @property
    def settings(self) -> Mapping[str, str]:
        return {
            "AZURE_STORAGE_ACCOUNT_NAME": self.account,
            "AZURE_STORAGE_ACCOUNT_KEY": self.key,
            "AZURE_STORAGE_ENDPOINT": f"{self.url}/{self.account}",
        }

    def command(self) -> list[str]:
        where = ["--blobHost", "127.0.0.1", "--blobPort", str(self.port), "--location", str(self.folder / "data")]
        return [node(), str(AZURITE.path), *where, "--silent", "--skipApiVersionCheck", "--disableTelemetry"]

    def environment(self) -> Mapping[str, str]:
        surroundings = {"PATH": os.environ.get("PATH", ""), "HOME": str(self.folder)}
        return {**surroundings, "AZURITE_ACCOUNTS": f"{self.account}:{self.key}"}

    def _is_healthy(self) -> bool:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=5.0)
        try:
            connection.request("PUT", self.health, headers=self._signed())
            return connection.getresponse().status in {201, 409} and listens(self.pid, self.port)
        except (OSError, HTTPException):
            return False
        finally:
            connection.close()

    def _signed(self) -> dict[str, str]:
        """Sign the one request that no client of ours makes: to create the container."""
        date = formatdate(usegmt=True)
        place = f"/{self.account}/{self.account}/{BUCKET}\nrestype:container"
        # The date and the version are said in headers of Azure's own; the eleven others are empty.
        text = "PUT" + "\n" * 12 + f"x-ms-date:{date}\nx-ms-version:{_VERSION}\n{place}"
        digest = hmac.new(base64.b64decode(self.key), text.encode(), hashlib.sha256).digest()
        sign = f"SharedKey {self.account}:{base64.b64encode(digest).decode()}"
        return {"x-ms-date": date, "x-ms-version": _VERSION, "Authorization": sign, "Content-Length": "0"}
