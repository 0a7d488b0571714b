"""The sink on lakeFS: writes under one staging name, from any process on any machine.

lakeFS has no way to store bytes that belong to no branch, except where it can sign addresses. So ``put`` stores them on
a *scratch* branch beside the staging name, and ``link`` makes the staging name point to them; nothing is copied. Losers
stay on the scratch branch, which nobody commits and which is dropped with the name. It begins at the staging name: once
that is gone, no late writer can make a scratch branch again.

Whoever is the only writer of a path needs none of that: ``write`` is one request.
"""

from __future__ import annotations

import io
import os
from functools import lru_cache
from typing import BinaryIO
from urllib.parse import quote

from attrs import frozen

from perago_core.answers import Answer
from perago_core.names import is_ignored, is_staging_name
from perago_core.ports import Stored
from perago_lakefs.answers import HttpError, Refused, answer
from perago_lakefs.connection import Connection
from perago_lakefs.objects.gateway import GatewayArea, folder_of
from perago_lakefs.objects.keys import removable, writable
from perago_lakefs.objects.read import listed
from perago_lakefs.objects.transfer import Courier
from perago_lakefs.objects.write import Branch, change, upload

_EXISTS = 409


def scratch_name(name: str) -> str:
    """Name the scratch branch of a staging name. It has the same task and attempt in it, so it is revoked alike."""
    return f"{name}-scratch"


@frozen
class LakeFSSink:
    """Writes under one staging name."""

    connection: Connection
    repository: str
    name: str

    def put(self, path: str, data: BinaryIO) -> Answer[Stored]:
        """Store bytes for a path without making them part of the staging branch."""
        courier = Courier(self.connection)

        def work() -> Stored:
            writable(path)
            return upload(self._scratch(courier), path, data)

        return answer(courier, work)

    def write(self, path: str, data: BinaryIO) -> Answer[Stored]:
        """Put and link in one request. Only for whoever writes each path once and has no rivals."""
        courier = Courier(self.connection)
        return answer(courier, lambda: upload(self._staging(courier), writable(path), data))

    def link(self, stored: tuple[Stored, ...], deleted: tuple[str, ...] = ()) -> Answer[None]:
        """Make stored bytes visible on the staging branch, and remove paths from it. A path in both is visible."""
        courier = Courier(self.connection)

        def work() -> None:
            staging = self._staging(courier)
            linked = {writable(each.path) for each in stored}
            change(staging, stored, [path for path in map(removable, deleted) if path not in linked])
            if not stored:
                # The server says 200 to whoever deletes on a branch that does not exist.
                courier.ask("GET", staging.place, repeat=True)

        return answer(courier, work)

    def list(self, prefix: str = "") -> Answer[tuple[Stored, ...]]:
        """List what the staging branch shows under a prefix."""
        courier = Courier(self.connection)
        return answer(courier, lambda: listed(courier, self.repository, self._staging(courier).name, prefix))

    def seal(self, path: str, manifest: bytes) -> Answer[None]:
        """Write a manifest under a name that readers of the data ignore."""
        courier = Courier(self.connection)

        def work() -> None:
            if not is_ignored(path):
                raise Refused(f"expected a manifest's name to begin with '_' or '.', found {path!r}: it would be data")
            upload(self._staging(courier), writable(path), io.BytesIO(manifest))

        return answer(courier, work)

    def native_area(self, folder: str, write: str) -> Answer[GatewayArea]:
        """Give a folder of the scratch branch to Spark's own writer, for one write of the data set in ``folder``."""
        courier = Courier(self.connection)

        def work() -> GatewayArea:
            own = folder_of(folder, write)
            return GatewayArea(self.connection, self.repository, self._scratch(courier).name, own)

        return answer(courier, work)

    def _staging(self, courier: Courier) -> Branch:
        if not is_staging_name(self.name):
            raise Refused(f"expected a staging name, found {self.name!r}: only publishing changes a target")
        return Branch(courier, self.repository, self.name)

    def _scratch(self, courier: Courier) -> Branch:
        """Give the scratch branch; each process sees once that there is one."""
        staging = self._staging(courier)
        scratch = Branch(courier, self.repository, scratch_name(staging.name))
        seen = _seen(self, os.getpid())
        if not seen:
            wanted = {"name": scratch.name, "source": staging.name, "hidden": True}
            try:
                courier.ask("POST", f"/repositories/{quote(self.repository, safe='')}/branches", body=wanted)
            except HttpError as problem:
                if problem.status != _EXISTS:
                    raise
            seen.append(scratch.name)
        return scratch


@lru_cache(maxsize=64)
def _seen(sink: LakeFSSink, process: int) -> list[str]:
    """Give the place where a process keeps which scratch branch it has seen."""
    del sink, process
    return []
