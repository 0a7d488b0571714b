"""The words for a step: what happened, said to a person who does not know the code."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from perago_core.attempt import messages as m
from perago_report.sentences import COLLECTOR, COORDINATION, FAULT, ORCHESTRATOR, READS, STORE, STRANGER, does, plan
from perago_simulation.runs.replay import ReplayedMove
from perago_simulation.world.state import COMPLETED, OPEN, TARGET, World
from perago_simulation.world.troubles import HELD_UP, LATE

NETWORK = "network"

#: Whom an execution talks to, by command, where it is not the store.
_TO: Mapping[str, str] = {
    "ReloadTask": ORCHESTRATOR,
    "ReadOwners": ORCHESTRATOR,
    "Report": ORCHESTRATOR,
    "AcquireLease": COORDINATION,
    "AwaitTakeover": "",
    "RunBody": "",
    "ResumeBody": "",
}
Said: TypeAlias = Callable[[Any], str]


def _claim(event: m.ClaimStands) -> str:
    return f"the claim of {event.claim.execution} stands"


#: What an answer adds that a reader needs.
_ANSWER: Mapping[type, Said] = {
    m.TaskReloaded: lambda event: "gone" if event.snapshot is None else _status(event.snapshot.status.value),
    m.Staged: lambda event: str(event.staged.commit),
    m.ClaimStands: _claim,
    m.LeaseHeld: lambda event: "held now" if event.clean else "held now, after an unclean end",
    m.HeadSeen: lambda event: "gone" if event.head is None else f"sees {event.head.commit.ref}",
    m.StagingWanted: lambda _event: "it wants to write already",
    m.BodyDone: lambda event: "it changed something" if event.changed else "it changed nothing",
    m.NothingStaged: lambda _event: "there is nothing to commit",
    m.IntentsSettled: lambda event: f"{', '.join(event.unresolved)} unresolved" if event.unresolved else "",
}


def is_execution(name: str) -> bool:
    """Return whether a lane is that of an execution."""
    return re.fullmatch(r"e\d+", name) is not None


def lane(step: ReplayedMove) -> str:
    """Name the lane of a step: its actor, or for a crash the execution that crashes."""
    who, _, about = step.label
    return about if who == FAULT and is_execution(about) else who


def peer(step: ReplayedMove) -> str:
    """Name the other end of what is sent in this step; empty if nothing is."""
    who, what, about = step.label
    if is_execution(who):
        return "" if about == "stops waiting" else _TO.get(what, STORE)
    if who == ORCHESTRATOR and (found := re.search(r" to (e\d+)", about)):
        return found[1]
    if who == STORE:
        return step.told[-1].execution if step.told else ""
    return STORE if who == STRANGER else ""


def inward(step: ReplayedMove) -> bool:
    """Return whether what is sent comes to the lane rather than from it: answers to questions."""
    return step.label[1] in READS


def says(step: ReplayedMove) -> str:
    """Say what the actor of the lane does, as the rest of a sentence that begins with its name."""
    who, what, about = step.label
    if is_execution(who):
        return _execution(step)
    say = _ELSEWHERE.get((who, what))
    return f"{what} {about}".strip() if say is None else say(step, about)


def _execution(step: ReplayedMove) -> str:
    who, what, about = step.label
    if what == "Publish":
        mine = [request for request in step.after.requests if f"e{request.run}" == who]
        return f"asks to {plan(mine[0].plan, TARGET.branch)}" if mine and about != "stops waiting" else about
    doing = does(what, TARGET.branch)
    if about == "dropped":
        return f"{doing}: the request is lost"
    if about == HELD_UP:
        return f"{doing}: no answer, and the request is still on its way"
    if about.endswith(LATE):
        return f"{doing}: its deadline is over"
    if about == "landed, answer lost":
        return f"{doing}: done, but the answer is lost"
    if what == "Report":
        return f"{doing}: {_reported(step)}"
    told = step.told[-1].event if step.told else None
    reason = getattr(told, "reason", "")
    more = _ANSWER[type(told)](told) if type(told) in _ANSWER else reason
    return f"{doing}: {more}" if more else doing


def _reported(step: ReplayedMove) -> str:
    before: World | None = step.before
    assert before is not None
    at = before.runs[int(step.label[0][1:])].task
    was, now = before.tasks[at], step.after.tasks[at]
    if was.status is not OPEN:
        return f"ignored, as t{at} is {was.status}"
    return f"{now.ref} is accepted" if now.status is COMPLETED else f"t{at} has {now.status}"


def _alive(step: ReplayedMove) -> str:
    """The worker of an abandoned attempt may go on, which is where most trouble begins."""
    task = int(step.label[2][1:])
    left = [f"e{index}" for index, run in enumerate(step.after.runs) if run.task == task and run.state is not None]
    return f"; {' and '.join(left)} still run{'s' if len(left) == 1 else ''}" if left else ""


def _status(value: str) -> str:
    return {"IN_PROGRESS": "still open"}.get(value, value.replace("_", " ").lower())


def _install(step: ReplayedMove, about: str) -> str:
    lost = ", but the answer is lost" if about.endswith("answer lost") else ""
    was = f" from {step.before.head}" if step.before is not None else ""
    return f"moves {TARGET.branch}{was} to {step.after.head}{lost}"


def _refuse(_step: ReplayedMove, about: str) -> str:
    whose, _, why = about.partition(": ")
    return f"refuses {whose}'s publication: {why}"


#: What those do that are not executions.
_ELSEWHERE: Mapping[tuple[str, str], Callable[[ReplayedMove, str], str]] = {
    (STORE, "begin"): lambda step, about: f"begins {about}'s publication on {step.after.head}",
    (STORE, "install"): _install,
    (STORE, "refuse"): _refuse,
    (ORCHESTRATOR, "hand out"): lambda _step, about: f"hands {about}",
    (ORCHESTRATOR, "deliver again"): lambda _step, about: f"delivers again: {about}",
    (ORCHESTRATOR, "requeue"): lambda _step, about: f"hands out once more: {about}",
    (ORCHESTRATOR, "rerun"): lambda _step, about: f"is told to run again: {about}",
    (ORCHESTRATOR, "terminate"): lambda _step, about: f"ends the workflow at {about}",
    (ORCHESTRATOR, "give up"): lambda step, about: f"gives up on {about}{_alive(step)}",
    (STRANGER, "commit"): lambda _step, about: f"commits {about}",
    (STRANGER, "merge"): lambda _step, about: f"merges {about}",
    (STRANGER, "reset"): lambda _step, about: f"resets {TARGET.branch} to {about}",
    (STRANGER, "delete"): lambda _step, about: f"deletes {TARGET.branch}, which was at {about}",
    (STRANGER, "recreate"): lambda _step, about: f"makes {TARGET.branch} anew at {about}",
    (STRANGER, "write"): lambda _step, about: f"leaves {about} on {TARGET.branch}",
    (STRANGER, "discard"): lambda _step, about: f"discards {about}",
    (COLLECTOR, "drop name"): lambda _step, about: f"deletes the staging name of {about}",
    (COLLECTOR, "empty"): lambda _step, about: f"removes the data of {about}, which nobody holds",
    (COLLECTOR, "barrier"): lambda _step, about: f"passes the store's barrier for {about}",
    (COLLECTOR, "remove claims"): lambda _step, about: f"removes the claims of {about}",
    (COLLECTOR, "remove claim"): lambda _step, about: f"removes the claim of {about}",
    (FAULT, "resend"): lambda _step, about: f"the transport sends the {about} again",
    (FAULT, "crash"): lambda _step, _about: "crashes",
    (FAULT, "lose attempt"): lambda _step, _about: "is told that its attempt is lost",
    (FAULT, "run out of time"): lambda _step, _about: "is told that its time is over",
    (FAULT, "lose lease"): lambda _step, _about: "is told that its lease is lost",
    (NETWORK, "land"): lambda _step, about: f"delivers the {about} late",
    (COORDINATION, "expire"): lambda _step, about: f"lets the {about} expire",
    (COORDINATION, "new epoch"): lambda _step, about: f"stores epoch {about} of the policy",
}
