"""The source on lakeFS: reads one commit, from any process on any machine."""

from __future__ import annotations

from typing import BinaryIO

from attrs import frozen

from perago_core.answers import Answer
from perago_core.ports import Stored
from perago_core.values import CommitRef
from perago_lakefs.answers import answer
from perago_lakefs.client import Client, Connection
from perago_lakefs.objects.read import listed, opened


@frozen
class LakeFSSource:
    """Reads one commit. Its folder of hooks is invisible."""

    connection: Connection
    repository: str
    ref: CommitRef

    def list(self, prefix: str = "") -> Answer[tuple[Stored, ...]]:
        """List the objects of the commit under a prefix, a thousand in each request."""
        client = Client(self.connection)
        return answer(client, lambda: listed(client, self.repository, self.ref, prefix))

    def get(self, path: str) -> Answer[BinaryIO]:
        """Open one object of the commit. It is streamed, and resumed at the next byte if the connection is lost."""
        client = Client(self.connection)
        return answer(client, lambda: opened(client, self.repository, self.ref, path))
