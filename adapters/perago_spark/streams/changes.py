"""What was added to a data set between two commits of a branch: the rows that a stream reads next.

The files of the newer commit that the older one lacks. A data set whose files were rewritten meanwhile is looked at
commit by commit: one that left the rows as they are (``compact``) added nothing, and what others added before it is
read where it still stands, in the commit before. Whatever took rows away is refused: a stream cannot unread them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from attrs import field, frozen

from perago_core.ports import Source
from perago_spark.errors import DatasetError
from perago_spark.format.seal import DataFile, Dataset, dataset_of, total

#: A commit's name and its reader.
At: TypeAlias = tuple[str, Source]
#: Reads a commit of the task's branch by its name; and lists those above one, oldest first, up to the task's input.
OpenCommit: TypeAlias = Callable[[str], Source]
Above: TypeAlias = Callable[[str, str], Sequence[At]]


@frozen
class Growth:
    """One step of a data set: from a commit, or from nothing, to a later one."""

    before: Source | None
    after: Source

    def files(self, folder: str) -> tuple[DataFile, ...]:
        """Return the files that this step has added."""
        known = set[tuple[str, str]]() if self.before is None else _names(dataset_of(self.before, folder))
        return tuple(each for each in dataset_of(self.after, folder).files if (each.path, each.checksum) not in known)


@frozen
class Unread:
    """What a query has not read of a data set: from the commit it stands at, ``""`` for none, to the newest."""

    folder: str
    start: str
    end: str
    steps: tuple[Growth, ...] = field(factory=tuple[Growth, ...])


def unread(folder: str, start: str, head: At, open_commit: OpenCommit, above: Above) -> Unread:
    """Find what was added since a commit. Nothing was: the end is the start, and the query has no batch to run."""
    commit, source = head
    if not start:
        return Unread(folder, "", commit, (Growth(None, source),))
    base = open_commit(start)
    before, after = _names(dataset_of(base, folder)), _names(dataset_of(source, folder))
    steps = (Growth(base, source),) if before <= after else _walked(folder, (start, base), above(start, folder))
    if before == after or not any(each.files(folder) for each in steps):
        return Unread(folder, start, start)
    return Unread(folder, start, commit, steps)


def _walked(folder: str, base: At, commits: Sequence[At]) -> tuple[Growth, ...]:
    """Return the steps that added rows, without those that only moved them to other files."""
    steps: list[Growth] = []
    at = base
    for commit in commits:
        before, after = dataset_of(at[1], folder), dataset_of(commit[1], folder)
        if _names(before) <= _names(after):
            steps.append(Growth(at[1], commit[1]))
        elif total(before.seals) is None or total(before.seals) != total(after.seals):
            raise DatasetError(
                f"a data set that was only added to: {folder!r} since commit {at[0]}",
                f"rows that were replaced or removed by commit {commit[0]}",
                "Read it with ws.read, or give the query another name: it then begins with all that is there now",
            )
        at = commit
    return tuple(steps)


def _names(dataset: Dataset) -> set[tuple[str, str]]:
    return {(each.path, each.checksum) for each in dataset.files}
