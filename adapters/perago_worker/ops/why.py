"""``perago why``: which attempt made a file as it is, with which code, parameters and input, and whether it counts.

The store says which commit changed the file last. Whose commit that is, its message says, and nothing is taken from a
message alone: the claim of that attempt, the ledger or the orchestrator must say the same. What none of them can tell
any more is unknown, and said to be.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from perago_core.answers import Done
from perago_core.ledger.records import Audit, SettlementKind, audit_key, decode
from perago_core.pipelines import OrchestratorError, Pipelines, PipelineView, TaskPlace
from perago_core.values import Commit, CommitRef, Target, TaskStatus
from perago_worker.ops.refs import RefError, commit_at, commits
from perago_worker.runtime.provenance import CODE, EXECUTION, said_in
from perago_worker.stack import Stack

#: Where a lakeFS merge says which commit it has merged; that one has the message.
_STAGED = "perago_staged"
_MESSAGE = re.compile(r"(?P<logical>.+) attempt (?P<number>\d+) \((?P<task>[^()]+)\)")


class WhyError(RefError):
    """It cannot be said which commit made it; the message says what is missing."""


@frozen
class Maker:
    """The attempt that made a commit, and who says so: ``claim``, ``ledger``, ``orchestrator``; none: only itself."""

    logical_task: str
    task_id: str
    number: int
    execution: str | None
    code: str | None
    evidence: tuple[str, ...] = ()


@frozen
class Why:
    """Why a path is as it is. ``maker``: no attempt is known if ``None``; ``accepted``: nobody can tell if ``None``."""

    path: str
    target: Target
    at: CommitRef
    commit: Commit
    files: int
    maker: Maker | None = None
    workflow_id: str | None = None
    params: Mapping[str, Any] | None = None
    accepted: bool | None = None
    unknown: tuple[str, ...] = field(default=())

    @property
    def input(self) -> CommitRef | None:
        """Return the commit it was made from."""
        return self.commit.parents[0] if self.commit.parents else None


def why(stack: Stack, pipelines: Pipelines, target: Target, path: str, *, at: str = "", limit: int = 1000) -> Why:
    """Find the newest commit that changed a file, or anything in a folder, and say what is known of who made it."""
    path = path.strip("/")
    start = commit_at(stack.store, target, at, limit)
    commit, files = _changed(stack, target, path, start, limit)
    unknown: list[str] = []
    maker = _maker(stack, target, commit, unknown)
    if maker is None:
        unknown.append(f"who made {commit.ref[:12]}: its message names no attempt, so it may be a stranger's")
        return Why(path, target, start.ref, commit, files, unknown=tuple(unknown))
    place, view = _asked(pipelines, maker, unknown)
    audit = _audit(stack, maker, unknown)
    maker = _with_evidence(maker, commit, audit, view)
    if not maker.evidence:
        unknown.append(
            f"whether attempt {maker.number} of {maker.logical_task} made {commit.ref[:12]}: its message says so, and "
            "neither claim nor ledger nor orchestrator can tell any more"
        )
    accepted = _accepted(commit, maker, audit, view, unknown)
    return Why(
        path,
        target,
        start.ref,
        commit,
        files,
        maker,
        None if place is None else place.workflow_id,
        None if place is None else place.params,
        accepted,
        tuple(unknown),
    )


# ---- which commit


def _changed(stack: Stack, target: Target, path: str, start: Commit, limit: int) -> tuple[Commit, int]:
    """Walk down from a commit until the path is another than there."""
    now = _content(stack, target, path, start)
    if not now:
        raise WhyError(f"expected {path!r} on {target} at {start.ref[:12]}; found nothing of that name")
    commit = start
    for before in commits(stack.store, target, start.ref, limit + 1):
        if before.ref == commit.ref:
            continue
        if before.tree != commit.tree and _content(stack, target, path, before) != now:
            return commit, len(now)
        commit = before
    if commit.parents:
        raise WhyError(
            f"unknown: {path!r} is unchanged in the last {limit} commits of {target}; look further with --limit"
        )
    return commit, len(now)


def _content(stack: Stack, target: Target, path: str, commit: Commit) -> frozenset[tuple[str, str, int]]:
    """Read what a path is at a commit: one file, or all files of a folder."""
    listed = stack.store.read(target.repository, commit.ref).list(path)
    if not isinstance(listed, Done):
        raise WhyError(f"unknown: {commit.ref[:12]} cannot be read: {listed.reason}. Try again once it answers")
    return frozenset(
        (each.path, each.checksum, each.size)
        for each in listed.value
        if not path or each.path == path or each.path.startswith(f"{path}/")
    )


# ---- whose


def _maker(stack: Stack, target: Target, commit: Commit, unknown: list[str]) -> Maker | None:
    message = _message(stack, target, commit, unknown)
    named = _MESSAGE.fullmatch(message.partition("\n")[0])
    if named is None:
        return None
    trailers = said_in(message)
    claims = stack.store.claims(target, named["logical"])
    if not isinstance(claims, Done):
        unknown.append(f"what the claims of {named['logical']} say: {claims.reason}")
    proved = any(
        each.task_id == named["task"]
        and each.execution == trailers.get(EXECUTION)
        and each.tree == commit.tree
        and commit.parents[:1] == (each.parent,)
        for each in (claims.value if isinstance(claims, Done) else ())
    )
    evidence = ("claim",) if proved else ()
    if CODE not in trailers:
        unknown.append("its code: the commit holds no digest of it")
    return Maker(
        named["logical"], named["task"], int(named["number"]), trailers.get(EXECUTION), trailers.get(CODE), evidence
    )


def _message(stack: Stack, target: Target, commit: Commit, unknown: list[str]) -> str:
    staged = dict(commit.metadata).get(_STAGED)
    if staged is None:
        return commit.message
    found = stack.store.look(target.repository, CommitRef(staged))
    if isinstance(found, Done) and found.value is not None:
        return found.value.message
    unknown.append(
        f"what {staged[:12]}, which was merged, says: {'it is gone' if isinstance(found, Done) else found.reason}"
    )
    return commit.message


def _asked(pipelines: Pipelines, maker: Maker, unknown: list[str]) -> tuple[TaskPlace | None, PipelineView | None]:
    try:
        place = pipelines.find(maker.task_id)
        view = None if place is None else pipelines.view(place.workflow_id)
    except OrchestratorError as error:
        unknown.append(f"its parameters: the orchestrator does not say: {error}")
        return None, None
    if place is None:
        unknown.append(f"its parameters: the orchestrator does not know task {maker.task_id} any more")
    return place, view


def _audit(stack: Stack, maker: Maker, unknown: list[str]) -> Audit | None:
    """Read how the execution's publication was settled; its operation id is the execution."""
    if stack.coordination is None or maker.execution is None:
        return None
    entry = stack.coordination.get(audit_key(maker.execution))
    if not isinstance(entry, Done):
        unknown.append(f"what the ledger says: {entry.reason}")
        return None
    record = None if entry.value is None else decode(Audit, entry.value)
    if record is not None and not isinstance(record, Audit):
        unknown.append(f"what the ledger says: {record}")
        return None
    return record


def _with_evidence(maker: Maker, commit: Commit, audit: Audit | None, view: PipelineView | None) -> Maker:
    evidence = [*maker.evidence]
    if audit is not None and audit.task_id == maker.task_id and any(m.after == commit.ref for m in audit.movements):
        evidence.append("ledger")
    attempts = () if view is None else view.attempts
    if any(each.task_id == maker.task_id and each.ref == commit.ref for each in attempts):
        evidence.append("orchestrator")
    return Maker(maker.logical_task, maker.task_id, maker.number, maker.execution, maker.code, tuple(evidence))


def _accepted(
    commit: Commit, maker: Maker, audit: Audit | None, view: PipelineView | None, unknown: list[str]
) -> bool | None:
    """Return whether a result with this commit was accepted, of the attempt that made it or of one that adopted it."""
    taken = [] if view is None else [each for each in view.attempts if each.status is TaskStatus.COMPLETED]
    if any(each.ref == commit.ref for each in taken):
        return True
    if not maker.evidence:
        unknown.append("whether it was accepted: nobody can tell whose it is")
        return None
    settled = audit.kind if audit is not None and "ledger" in maker.evidence else None
    if settled is not None and (settled.accepts or settled is SettlementKind.ACCEPTED_LOST):
        return True
    step = next((each.step for each in (view.attempts if view else ()) if each.task_id == maker.task_id), None)
    if view is not None and (not view.running or any(each.step == step for each in taken)):
        return False
    if settled is SettlementKind.ABANDONED:
        return False
    unknown.append(
        "whether it is accepted: its run is under way"
        if view is not None
        else "whether it was accepted: neither orchestrator nor ledger can tell any more"
    )
    return None
