"""``perago init-repo``: puts the hook on a branch, or a newer one in its place, and sees that it is there.

The hook travels as any publication does: staged, planned by the fence, merged onto the head that was seen. A direct
commit would leave an uncommitted object on the target if we died in between, and nothing could be published then.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from secrets import token_hex
from typing import TypeVar

from attrs import frozen

from perago_core import fence
from perago_core.answers import Answer, Done, NotDone, NotDoneError, Unknown, UnknownError
from perago_core.values import Attempt, Backing, CommitRef, StagedRef, Target
from perago_lakefs import hook
from perago_lakefs.answers import answer
from perago_lakefs.barrier import first_commit
from perago_lakefs.client import Client, Connection
from perago_lakefs.store import LakeFSStore

T = TypeVar("T")


@frozen
class Installed:
    """A branch that carries the hook. ``protected``: merges work there, and replacing what a dead attempt left not.

    ``strict``: a merge that says no expected head is refused, a person's too.
    """

    head: CommitRef
    changed: bool
    protected: bool
    strict: bool


def install(
    connection: Connection, target: Target, *, namespace: str = "", check: bool = False, strict: bool | None = None
) -> Answer[Installed]:
    """Install or upgrade; with ``check`` only look. ``namespace``: where a repository is made if there is none.

    ``strict``: which of the two hooks; ``None`` keeps that which is there, and installs the lenient one else.
    """
    client, store = Client(connection), LakeFSStore(connection)

    def work() -> Installed:
        if client.default_branch(target.repository) is None:
            if not namespace or check:
                message = f"expected repository {target.repository}, found none: create it, or give its namespace"
                raise NotDoneError(message)
            client.create_repository(target.repository, namespace, target.branch)
        head = _value(store.head(target))
        if head is None:
            raise NotDoneError(f"expected branch {target}, found none: create it, or correct its name")
        at = head.commit.ref
        protected = any(fnmatchcase(target.branch, pattern) for pattern in client.protected(target.repository))
        standing = hook.TEXTS.get(client.checksum(target.repository, at, hook.PATH) or "")
        wanted = _wanted(standing, strict=strict)
        if standing != wanted and check:
            message = f"expected the hook of this release on {target}, found none or another: run 'perago init-repo'"
            raise NotDoneError(message)
        published = at if standing == wanted else _publish(client, store, target, at, wanted)
        first_commit(client, target)
        return Installed(published, changed=standing != wanted, protected=protected, strict=wanted == hook.STRICT)

    return answer(client, work)


def _wanted(standing: bytes | None, *, strict: bool | None) -> bytes:
    """Return the text that must be there. Nobody is made stricter or more lenient by installing again."""
    if strict is None:
        return standing or hook.LENIENT
    return hook.STRICT if strict else hook.LENIENT


def _publish(client: Client, store: LakeFSStore, target: Target, at: CommitRef, text: bytes) -> CommitRef:
    run = token_hex(8)
    attempt = Attempt("init-repo", run, 0, f"init-repo/{run}", 1, run, target, at, Backing.SOFT)
    name = attempt.staging_name
    _value(store.open_staging(target, name, at))
    try:
        client.upload(target.repository, name, hook.PATH, text)
        staged = _value(store.commit(target, name, "Let lakeFS check the expected head of our merges"))
        return _value(store.publish(_planned(store, attempt, staged).plan))
    finally:
        store.drop(target, name)


def _planned(store: LakeFSStore, attempt: Attempt, staged: StagedRef | None) -> fence.Allowed:
    decision = fence.decide(fence.Case(attempt, staged, _value(store.head(attempt.target))))
    if not isinstance(decision, fence.Allowed) or decision.plan.expected != attempt.input:
        why = decision.refusal if decision.refusal is not None else "it moved meanwhile"
        raise NotDoneError(f"{attempt.target} cannot take the hook now: {why}. Run it again")
    return decision


def _value(given: Answer[T]) -> T:
    match given:
        case Done(value):
            return value
        case NotDone(reason):
            raise NotDoneError(reason)
        case Unknown(reason):
            raise UnknownError(reason)
