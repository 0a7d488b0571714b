"""The barrier: a merge that changes nothing, after which no request that began before it can still land.

It merges the first commit of the repository, an ancestor of every head there can ever be. That one is found once by
walking back, kept under a tag, and looked at once by each process, so the depth of the history costs nothing later.
"""

from __future__ import annotations

from perago_core.answers import NotDoneError, UnknownError
from perago_core.values import Commit, CommitRef, Target
from perago_lakefs.answers import Problem, is_conflict, is_dirty, is_without_changes
from perago_lakefs.client import PAGE, Client

TAG = "perago-first-commit"


def barrier(client: Client, target: Target, first: CommitRef) -> None:
    """Make lakeFS take a turn on the branch: requests that began before fail, or have ended.

    Only ``no changes`` says that it did. On a dirty branch lakeFS turns back before its turn, and a late request lands.
    """
    try:
        made = client.merge(target.repository, first, target.branch, "Barrier", {})
    except Problem as problem:
        if is_without_changes(problem):
            return
        if is_dirty(problem):
            raise NotDoneError(refused_as_dirty(target)) from problem
        raise
    message = f"expected that merging the first commit {first} changes nothing on {target}, found that it made {made}"
    raise UnknownError(message)


def refused_as_dirty(target: Target) -> str:
    """Say why neither a barrier nor a publication is possible there."""
    return f"expected {target} without uncommitted objects, found some: commit or discard them"


def first_commit(client: Client, target: Target) -> Commit:
    """Return the first commit, or refuse if what is tagged as such is none."""
    repository = target.repository
    tagged = client.tag(repository, TAG)
    if tagged is None:
        return _pinned(client, target)
    found = client.commit(repository, tagged)
    if found is None or found.parents:
        message = f"expected tag {TAG} of {repository} at the first commit, found {tagged}: delete that tag"
        raise NotDoneError(message)
    return found


def _pinned(client: Client, target: Target) -> Commit:
    *_, first = client.history(target.repository, target.branch, PAGE)
    try:
        client.create_tag(target.repository, TAG, first.ref)
    except Problem as problem:
        if not is_conflict(problem):  # else somebody else has found it meanwhile, and there is only one
            raise
    return first
