"""``DatasetScope``: what a body may touch. Every name that a body gives becomes a folder here, or is refused here.

A task that declares ``reads`` and ``writes`` (``perago_worker.Workspace``) is published also onto what others have
published since. That holds only if it has read nothing else: counterexample, a body that reads a data set which
nobody declared, and is published onto a commit in which that is another one. So a name is held to the declaration
before anything is read of it, and before anything is staged.
"""

from __future__ import annotations

from typing import Final, Literal

from attrs import frozen

from perago_core.ports import Source
from perago_core.values import Scope
from perago_spark.errors import DatasetError
from perago_spark.format import layout
from perago_spark.streams.checkpoint import checkpoint_folder

_NOTHING: Final = "none"


@frozen
class DatasetScope:
    """A body's execution, the commit it reads, and the prefix below which its data sets are.

    ``maintenance``: it may only write what leaves the content as it is (H-11). ``commit``: the name of what it reads.
    ``declared``: what the task says it reads and writes; ``None``: anything below its prefix.
    """

    execution: str
    source: Source
    prefix: str
    read_only: bool
    maintenance: bool = False
    commit: str = ""
    declared: Scope | None = None

    def readable(self, name: str) -> str:
        """Return the folder of a data set that may be read. What may be written may be read as well."""
        folder = layout.folder(self.prefix, name)
        return self._held(folder, "reads", () if self.declared is None else self.declared.prefixes)

    def writable(self, name: str) -> str:
        """Return the folder of a data set that may be written."""
        return self._written(layout.folder(self.prefix, name))

    def checkpoint(self, query: str) -> str:
        """Return the folder of a query's checkpoint, which each run reads and writes."""
        return self._written(checkpoint_folder(self.prefix, query))

    def _written(self, folder: str) -> str:
        if self.read_only:
            raise DatasetError("a task that may write", f"a read-only one, and {folder!r}", "Declare it writable")
        return self._held(folder, "writes", () if self.declared is None else self.declared.writes)

    def _held(self, folder: str, kind: Literal["reads", "writes"], declared: tuple[str, ...]) -> str:
        if self.declared is not None and not folder.startswith(declared):
            raise DatasetError(
                f"data sets that the task declares ({kind}: {', '.join(declared) or _NOTHING})",
                repr(folder.rstrip("/")),
                f"Add it to `{kind}` of the task's Workspace, or of its pipeline",
            )
        return folder
