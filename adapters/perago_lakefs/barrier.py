"""The first commit of a repository: an ancestor of every head there can ever be.

Merging it changes nothing, and makes lakeFS take a turn on the branch: that is the barrier. It is found once by walking
back, kept under a tag, and looked at once by each process, so the depth of the history costs nothing later.
"""

from __future__ import annotations

from perago_core.values import Commit, Target
from perago_lakefs.answers import Problem, Refused, status_of
from perago_lakefs.client import PAGE, Wire

TAG = "perago-first-commit"
_EXISTS = 409


def first_commit(wire: Wire, target: Target) -> Commit:
    """Give the first commit, or refuse if what is tagged as such is none."""
    repository = target.repository
    tagged = wire.tag(repository, TAG)
    if tagged is None:
        return _pinned(wire, target)
    found = wire.commit(repository, tagged)
    if found is None or found.parents:
        message = f"expected tag {TAG} of {repository} at the first commit, found {tagged}: delete that tag"
        raise Refused(message)
    return found


def _pinned(wire: Wire, target: Target) -> Commit:
    *_, first = wire.history(target.repository, target.branch, PAGE)
    try:
        wire.create_tag(target.repository, TAG, first.ref)
    except Problem as problem:
        if status_of(problem) != _EXISTS:  # else somebody else has found it meanwhile, and there is only one
            raise
    return first
