"""Several branches in one workspace folder: the first is the folder, each further one a folder in it.

What a body changes below such a folder is staged on that branch, everything else on the first. The first also gets a
small file that names the execution and what it published to: claims and adoption know a publication by what it made of
the first branch, so that one changes whenever another does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import BinaryIO

from attrs import evolve, frozen

from perago_core.answers import Answer, Done, NotDone
from perago_core.ports import Source, Stored
from perago_core.values import Attempt, Target
from perago_worker.folders.tree import Changes

#: Readers of the data skip names that begin like this.
MARK = "_perago_together.json"


@frozen
class SeveralSource:
    """Reads several commits as one: each further one below a folder of its own, which the first must not have."""

    first: Source
    further: Mapping[str, Source]

    def list(self, prefix: str = "") -> Answer[tuple[Stored, ...]]:
        """List the objects of all of them."""
        own = self.first.list(prefix)
        if not isinstance(own, Done):
            return own
        listed, operations = list(own.value), own.operations
        for folder, source in self.further.items():
            taken = next((each.path for each in own.value if each.path.startswith(folder)), None)
            if taken is not None:
                return NotDone(
                    f"expected nothing below {folder!r}, where the task wants a further target, found {taken!r} on the "
                    "first: give the target another name in [targets], or move the files"
                )
            found = source.list()
            if not isinstance(found, Done):
                return found
            listed += [evolve(each, path=f"{folder}{each.path}") for each in found.value]
            operations += found.operations
        return Done(tuple(listed), operations)

    def get(self, path: str) -> Answer[BinaryIO]:
        """Open one object of one of them."""
        for folder, source in self.further.items():
            if path.startswith(folder):
                return source.get(path.removeprefix(folder))
        return self.first.get(path)


@frozen
class Folders:
    """Which folder of a workspace is which further target."""

    of_target: Mapping[Target, str]

    def changes_for(self, target: Target, changes: Changes) -> Changes:
        """Return what of the changes belongs to one target, by the paths they have in the workspace."""

        def mine(names: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(name for name in names if self.target_of(name) == self.of_target.get(target))

        return Changes(mine(changes.written), mine(changes.deleted))

    def target_of(self, name: str) -> str | None:
        """Return the folder of the further target a path belongs to; ``None``: it belongs to the first."""
        return next((folder for folder in self.of_target.values() if name.startswith(folder)), None)


def mark(attempt: Attempt) -> bytes:
    """Write what the first branch says of a publication to several: who made it, and to what."""
    targets = {str(part.target): part.input for part in attempt.parts}
    return json.dumps({"execution": attempt.execution, "task": attempt.logical_task, "from": targets}).encode()
