"""The sink on lakeFS: writes under one staging name, from any process on any machine.

lakeFS has no way to store bytes that belong to no branch, except where it can sign addresses. So ``put`` stores them on
a *scratch* branch beside the staging name, and ``link`` makes the staging name point to them; nothing is copied. Losers
stay on the scratch branch, which nobody commits and which is dropped with the name. It begins at the staging name: once
that is gone, no late writer can make a scratch branch again.

Whoever is the only writer of a path needs none of that: ``write`` is one request.
"""

from __future__ import annotations

import io
from typing import BinaryIO

from attrs import frozen

from perago_core.answers import Answer, NotDoneError
from perago_core.names import is_ignored, is_staging_name
from perago_core.ports import Stored
from perago_lakefs.answers import Problem, answer, is_conflict
from perago_lakefs.client import Client, Connection
from perago_lakefs.objects.gateway import GatewayArea, folder_of
from perago_lakefs.objects.keys import removable, writable
from perago_lakefs.objects.read import listed
from perago_lakefs.objects.write import Branch, change, upload


def scratch_name(name: str) -> str:
    """Name the scratch branch of a staging name. It has the same task and attempt in it, so it is revoked alike.

    Not with a ``-``, after which a name says its execution. Counterexample: the execution was read as part of the task
    id, nobody had ever heard of that task, and so every other writer of the target dropped the branch under its owner.
    """
    return f"{name}_scratch"


@frozen
class LakeFSSink:
    """Writes under one staging name."""

    connection: Connection
    repository: str
    name: str

    def put(self, path: str, data: BinaryIO) -> Answer[Stored]:
        """Store bytes for a path without making them part of the staging branch."""
        client = Client(self.connection)

        def work() -> Stored:
            writable(path)
            return upload(self._scratch(client), path, data)

        return answer(client, work)

    def write(self, path: str, data: BinaryIO) -> Answer[Stored]:
        """Put and link in one request. Only for whoever writes each path once and has no rivals."""
        client = Client(self.connection)
        return answer(client, lambda: upload(self._staging(client), writable(path), data))

    def link(self, stored: tuple[Stored, ...], deleted: tuple[str, ...] = ()) -> Answer[None]:
        """Make stored bytes visible on the staging branch, and remove paths from it. A path in both is visible."""
        client = Client(self.connection)

        def work() -> None:
            staging = self._staging(client)
            linked = {writable(each.path) for each in stored}
            change(staging, stored, [path for path in map(removable, deleted) if path not in linked])
            # lakeFS says 200 to whoever deletes on a branch that does not exist.
            if not stored and client.branch(self.repository, self.name) is None:
                raise NotDoneError(f"expected the staging branch {self.name}, found none: it was revoked")

        return answer(client, work)

    def list(self, prefix: str = "") -> Answer[tuple[Stored, ...]]:
        """List what the staging branch shows under a prefix."""
        client = Client(self.connection)
        return answer(client, lambda: listed(client, self.repository, self._staging(client).name, prefix))

    def seal(self, path: str, manifest: bytes) -> Answer[None]:
        """Write a manifest under a name that readers of the data ignore."""
        client = Client(self.connection)

        def work() -> None:
            if not is_ignored(path):
                raise NotDoneError(
                    f"expected a manifest's name to begin with '_' or '.', found {path!r}: it would be data"
                )
            upload(self._staging(client), writable(path), io.BytesIO(manifest))

        return answer(client, work)

    def native_area(self, folder: str, write: str) -> Answer[GatewayArea]:
        """Return a folder of the scratch branch to Spark's own writer, for one write of the data set in ``folder``."""
        client = Client(self.connection)

        def work() -> GatewayArea:
            own = folder_of(folder, write)
            return GatewayArea(self.connection, self.repository, self._scratch(client).name, own)

        return answer(client, work)

    def _staging(self, client: Client) -> Branch:
        if not is_staging_name(self.name):
            raise NotDoneError(f"expected a staging name, found {self.name!r}: only publishing changes a target")
        return Branch(client, self.repository, self.name)

    def _scratch(self, client: Client) -> Branch:
        """Return the scratch branch; each process sees once that there is one."""
        staging = self._staging(client)
        scratch = scratch_name(staging.name)
        if not client.session.has_seen(self.repository, scratch):
            try:
                client.create_branch(self.repository, scratch, staging.name)
            except Problem as problem:
                if not is_conflict(problem):
                    raise
            client.session.note(self.repository, scratch)
        return Branch(client, self.repository, scratch)
