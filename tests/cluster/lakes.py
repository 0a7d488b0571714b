"""Lakes on real servers: a repository on lakeFS, or a prefix of a bucket, of its own for each test."""

from __future__ import annotations

from pathlib import Path
from secrets import token_hex
from typing import Any

from perago_bucket import BucketStore
from perago_bucket import Connection as BucketConnection
from perago_core.values import Backing, Target
from perago_lakefs import Connection, LakeFSStore
from tests.spark.lake import MAIN, Lake, done
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


class BucketLake(Lake):
    """The same lake in a bucket."""

    def __init__(self, connection: BucketConnection) -> None:
        self.connection = connection
        super().__init__(Path(), MAIN, Backing.ATOMIC)

    def made(self) -> Any:  # noqa: ANN401  as the lake says
        store = BucketStore(self.connection)
        done(store.create(self.target, {"README": b"a lake"}))
        return store
