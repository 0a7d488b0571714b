"""A lake on a real lakeFS server: a repository of its own for each test."""

from __future__ import annotations

from pathlib import Path
from secrets import token_hex
from typing import Any

from perago_core.values import Backing, Target
from perago_lakefs import Connection, LakeFSStore
from tests.spark.lake import Lake
from tests.support.lakefs.stranger import Stranger
from tests.support.servers.lakefs import LakeFS


class LakeFSLake(Lake):
    """The same lake, elsewhere. ``connection`` may lead through something that gets in the way."""

    def __init__(self, server: LakeFS, connection: Connection | None = None) -> None:
        self._direct = Connection(server.url, server.access_key, server.secret_key)
        self._connection = connection or self._direct
        super().__init__(Path(), Target(f"lake-{token_hex(4)}", "main"), Backing.SOFT)

    def made(self) -> Any:  # noqa: ANN401  as the lake says
        stranger = Stranger(self._direct)
        stranger.create_repository(self.target.repository, self.target.branch, f"local://{token_hex(8)}")
        stranger.commits(self.target, {"README": b"a lake"})
        return LakeFSStore(self._connection)
