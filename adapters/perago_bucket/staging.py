"""Staging names: where an execution links what it has put, and by which it may publish while the name stands.

A name is an entry of the record of the branch it was made for. Dropping it changes that record, so a publication by the
name that is on its way finds its condition broken, however late it arrives.
"""

from __future__ import annotations

from perago_bucket import commits, manifest, record
from perago_bucket.layout import Place, staging
from perago_bucket.record import Name, Record
from perago_core.answers import NotDoneError
from perago_core.values import CommitRef, StagedRef, Target


def make(place: Place, target: Target, name: str, at: CommitRef) -> None:
    """Create a staging name; refuse if it exists, whoever made it (P-42)."""
    begin = Name(at, commits.needed(place, at).tree)

    def add(found: Record) -> tuple[Record | None, None]:
        if staging(name) in found.names:
            message = f"{name} exists already: an execution never adopts what another left behind"
            raise NotDoneError(message)
        return found.with_name(name, begin), None

    record.change(place, target.branch, add)


def linked(place: Place, target: Target, name: str) -> str:
    """Return the manifest that has been linked so far."""
    found = record.read(place, target.branch)
    return _standing(Record(CommitRef("none")) if found is None else found, name).tree


def link(place: Place, target: Target, name: str, changes: manifest.Changes) -> None:
    """Change what is linked under a name."""

    def add(found: Record) -> tuple[Record | None, None]:
        now = _standing(found, name)
        tree = manifest.changed(place, now.tree, changes, commits.needed(place, now.at).tree)
        return (None if tree == now.tree else found.with_name(name, Name(now.at, tree))), None

    record.change(place, target.branch, add)


def commit(place: Place, target: Target, name: str, message: str) -> StagedRef | None:
    """Commit what is linked; ``None``: nothing differs from the commit the name stands at (S-12)."""

    def move(found: Record) -> tuple[Record | None, StagedRef | None]:
        now = _standing(found, name)
        if now.tree == commits.needed(place, now.at).tree:
            return None, None
        made = commits.write(place, now.tree, (now.at,), message, name)
        return found.with_name(name, Name(made, now.tree)), StagedRef(target.repository, name, made, now.tree)

    return record.change(place, target.branch, move)


def revert(place: Place, target: Target, name: str, message: str) -> StagedRef | None:
    """Commit the content before the commit the name stands at; ``None``: that one has changed nothing."""

    def move(found: Record) -> tuple[Record | None, StagedRef | None]:
        at = commits.needed(place, _standing(found, name).at)
        if not at.parents:
            wrong = f"expected a commit with something before it, found the first one, {at.ref}"
            raise NotDoneError(wrong)
        before = commits.needed(place, at.parents[0]).tree
        if before == at.tree:
            return None, None
        made = commits.write(place, before, (at.ref,), message, name)
        return found.with_name(name, Name(made, before)), StagedRef(target.repository, name, made, before)

    return record.change(place, target.branch, move)


def drop(place: Place, target: Target, name: str) -> None:
    """Delete a staging name; one that is not there is no problem (ST-6).

    A collector knows the repository a name is in, not the branch it was made for: what is not in the record of this
    target is looked for in the others.
    """
    staging(name)
    if not _dropped(place, target.branch, name):
        for branch in place.branches():
            if branch != target.branch and _dropped(place, branch, name):
                return


def _dropped(place: Place, branch: str, name: str) -> bool:
    def remove(found: Record) -> tuple[Record | None, bool]:
        return (found.with_name(name, None), True) if name in found.names else (None, False)

    return record.is_known(place, branch) and record.change(place, branch, remove)


def names(place: Place, prefix: str) -> tuple[str, ...]:
    """List the staging names that begin with this, whichever branch they were made for."""
    records = (record.read(place, branch) for branch in place.branches())
    return tuple(
        sorted(name for found in records if found is not None for name in found.names if name.startswith(prefix))
    )


def _standing(found: Record, name: str) -> Name:
    now = found.names.get(staging(name))
    if now is None:
        message = f"{name} is no staging name here: it was never opened, or it has been revoked or dropped"
        raise NotDoneError(message)
    return now
