"""A real lakeFS on loopback, with its own data folder and an administrator whose keys nobody else has."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from typing import ClassVar

from attrs import define, field

from tests.support.servers.cache import Part
from tests.support.servers.server import Server

LAKEFS = Part("lakefs", "1.86.0", "lakefs")


@define(kw_only=True)
class LakeFS(Server):
    """``with LakeFS(folder=tmp_path) as server``: a server with an administrator and no repository."""

    name: ClassVar[str] = "lakefs"
    health: ClassVar[str] = "/_health"

    access_key: str = field(factory=lambda: f"AKIA{secrets.token_hex(8).upper()}")
    secret_key: str = field(factory=lambda: secrets.token_hex(20), repr=False)

    @property
    def namespaces(self) -> str:
        """Return where repositories may put their data: ``f"{namespaces}/NAME"``."""
        return "local://perago"

    @property
    def settings(self) -> Mapping[str, str]:
        return {
            "LAKECTL_SERVER_ENDPOINT_URL": self.url,
            "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": self.access_key,
            "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": self.secret_key,
        }

    def command(self) -> list[str]:
        return [str(LAKEFS.path), "run"]

    def environment(self) -> Mapping[str, str]:
        return {
            "PATH": os.environ.get("PATH", ""),
            "HOME": str(self.folder),  # else the user's own .lakefs.yaml is read
            "LAKEFS_LISTEN_ADDRESS": f"127.0.0.1:{self.port}",
            "LAKEFS_DATABASE_TYPE": "local",
            "LAKEFS_DATABASE_LOCAL_PATH": str(self.folder / "kv"),
            "LAKEFS_BLOCKSTORE_TYPE": "local",
            "LAKEFS_BLOCKSTORE_LOCAL_PATH": str(self.folder / "blocks"),
            "LAKEFS_COMMITTED_LOCAL_CACHE_DIR": str(self.folder / "cache"),
            "LAKEFS_AUTH_ENCRYPT_SECRET_KEY": "of a server that is thrown away",
            "LAKEFS_INSTALLATION_USER_NAME": "admin",
            "LAKEFS_INSTALLATION_ACCESS_KEY_ID": self.access_key,
            "LAKEFS_INSTALLATION_SECRET_ACCESS_KEY": self.secret_key,
            # Reads wait 3 ms for company, which is most of a write's time; tests are never in company.
            "LAKEFS_GRAVELER_MAX_BATCH_DELAY": "1us",
            "LAKEFS_STATS_ENABLED": "false",
            "LAKEFS_EMAIL_SUBSCRIPTION_ENABLED": "false",
            "LAKEFS_SECURITY_CHECK_LATEST_VERSION": "false",
            "LAKEFS_LOGGING_LEVEL": "WARN",
        }
