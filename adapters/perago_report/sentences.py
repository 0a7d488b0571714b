"""The words for a moment of a recorded run. Refs are shortened; executions have the names of their lanes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from perago_core.answers import Event
from perago_core.attempt import messages as m
from perago_core.machine.rows import Command
from perago_core.plan import PlanKind, PublishPlan
from perago_core.results import Completed, Result
from perago_core.values import TaskSnapshot, TaskStatus
from perago_report.recording import Recording

#: The names of the lanes that are not executions.
ORCHESTRATOR, STORE, COORDINATION, STRANGER, FAULT = "orchestrator", "store", "coordination", "stranger", "fault"
COLLECTOR = "collector"

#: Commands that only look: what matters about them comes back.
READS = frozenset({"ReloadTask", "ReadOwners", "ReadHead", "ReadCommit", "ReadClaim", "ListClaims"})


_PLAN: Mapping[PlanKind, str] = {
    PlanKind.MERGE: "merge {commit} into {branch}",
    PlanKind.REPLACE: "replace {branch}'s head by {commit}",
    PlanKind.RETURN: "return {branch} to {commit}",
}

#: What an execution does that asks for this, as the rest of a sentence; it stands beside each command.
_DOES: Mapping[str, str] = {
    name: kind.does
    for name, kind in vars(m).items()
    if isinstance(kind, type) and issubclass(kind, Command) and kind.does
}

_TO: Mapping[type[Command], str] = {
    **dict.fromkeys((m.ReloadTask, m.ReadOwners, m.Report), ORCHESTRATOR),
    **dict.fromkeys((m.SettleIntents, m.ArmIntent, m.ConfirmIntent, m.SettleIntent, m.AcquireLease), COORDINATION),
    **dict.fromkeys((m.RunBody, m.ResumeBody, m.AwaitTakeover), ""),
}
_INTERRUPTS: Mapping[type[Event], str] = {
    m.AttemptLost: "learns that its attempt is lost",
    m.LeaseLost: "learns that its lease is lost",
    m.DeadlineExceeded: "is out of time",
}
_SHOWN = 8


def short(ref: str) -> str:
    """Shorten a ref to what people compare."""
    return ref[:_SHOWN]


def shortened(text: str) -> str:
    """Shorten every ref in a text."""
    return re.sub(r"\b[0-9a-f]{40,64}\b", lambda found: short(found[0]), text)


def status(of: TaskStatus) -> str:
    """Say how a task stands."""
    return {TaskStatus.IN_PROGRESS: "still open"}.get(of, of.value.replace("_", " ").lower())


def peer(asked: Command) -> str:
    """Name the lane a command goes to; empty if it stays here."""
    return _TO.get(type(asked), STORE)


def is_read(asked: Command) -> bool:
    """Return whether what matters about a command comes back."""
    return type(asked).__name__ in READS or isinstance(asked, m.PrepareWorkspace)


def doing(asked: Command, branch: str) -> str:
    """Say what an execution does that asks for this."""
    if isinstance(asked, m.Publish):
        return f"asks to {plan(asked.plan, branch, short(asked.plan.commit))}"
    return does(type(asked).__name__, branch)


def answer(who: Recording, asked: Command, event: Event) -> str:
    """Say what an execution did and what came of it."""
    reason = shortened(str(getattr(event, "reason", "")))
    if type(event) not in asked.answers.all():
        event_name = _INTERRUPTS.get(type(event), type(event).__name__)
        return f"{event_name}: {reason.partition(';')[0]}" if reason else event_name
    branch = who.attempt.target.branch
    if type(event) in asked.answers.unknown:
        return f"{doing(asked, branch)}: nobody knows whether it was done{f' ({reason})' if reason else ''}"
    if isinstance(asked, m.Report):
        reason = result(asked.result)
    elif type(event) in _ANSWERS:
        reason = _ANSWERS[type(event)](event)
    elif isinstance(event, m.ClaimStands):
        reason = "it has it" if event.claim.execution == who.attempt.execution else "another execution has it"
    return f"{doing(asked, branch)}: {reason}" if reason else doing(asked, branch)


def result(of: Result) -> str:
    """Say what is reported."""
    if isinstance(of, Completed):
        return f"completed with {short(of.ref)}"
    return f"failed, {of.refusal.classification.value}"


def _task(snapshot: TaskSnapshot | None) -> str:
    return "it is gone" if snapshot is None else status(snapshot.status)


def _head(event: m.HeadSeen) -> str:
    if event.head is None:
        return "it is not there"
    return f"sees {short(event.head.commit.ref)}{', with uncommitted objects' if event.head.dirty else ''}"


_ANSWERS: Mapping[type[Event], Callable[[Any], str]] = {
    m.BodyDone: lambda event: "it changed the workspace" if event.changed else "it changed nothing",
    m.StagingWanted: lambda _event: "it wants to write already",
    m.TaskReloaded: lambda event: _task(event.snapshot),
    m.Staged: lambda event: short(event.staged.commit),
    m.NothingStaged: lambda _event: "there is nothing to commit",
    m.ClaimRead: lambda event: "there is none" if event.claim is None else "it is there",
    m.ClaimsListed: lambda event: f"attempts {', '.join(str(claim.number) for claim in event.claims)}",
    m.OwnersRead: lambda event: ", ".join(_task(snapshot) for _, snapshot in event.snapshots),
    m.IntentsSettled: lambda event: f"{len(event.unresolved)} unresolved" if event.unresolved else "none is left",
    m.LeaseHeld: lambda event: "held now" if event.clean else "held now, after an unclean end",
    m.Revoked: lambda event: f"{len(event.names)} gone",
    m.HeadSeen: _head,
    m.CommitSeen: lambda event: "it is not there" if event.commit is None else "it is there",
}


def plan(what: PublishPlan, branch: str, commit: str = "") -> str:
    """Say what a publication is to do; ``commit`` is what its commit is called, if not by its ref."""
    return _PLAN[what.kind].format(commit=commit or what.commit, branch=branch)


def does(command: str, branch: str) -> str:
    """Say what an execution does when it asks for this."""
    return _DOES.get(command, _spaced(command)).format(branch=branch)


def _spaced(name: str) -> str:
    """Turn ``ReadSomething``, a command this module has no words for, into ``read something``."""
    return re.sub(r"(?<=.)([A-Z])", r" \1", name).lower()
