"""One moment of a recorded run as a sentence that begins with the name of a lane."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import frozen

from perago_core.answers import NotDone
from perago_core.attempt import messages as m
from perago_core.value import Value
from perago_core.values import TaskStatus
from perago_report import sentences
from perago_report.recording import (
    GivenUp,
    HandedOut,
    Moment,
    Recording,
    Sent,
    Stepped,
    Vanished,
    Word,
)


@frozen(repr=False)
class Said(Value):
    """A moment in words: whose lane it is in, the other end, and which way."""

    lane: str
    peer: str
    inward: bool
    says: str
    what: str


def say(moment: Moment, branch: str, was: str, told: Iterable[Word]) -> Said:
    """Say what happened on a branch whose head was there before."""
    match moment:
        case HandedOut(who):
            says = f"hands out {_attempt(who)} to worker {who.attempt.worker_id}"
            return Said(sentences.ORCHESTRATOR, who.name, inward=False, says=says, what="hand out")
        case Sent(who, plan):
            says = f"asks to {sentences.plan(plan, branch, sentences.short(plan.commit))}"
            return Said(who.name, sentences.STORE, inward=False, says=says, what="Publish")
        case Vanished(who, phase):
            says = f"is heard of no more; it waited for {phase.value}"
            return Said(who.name, "", inward=False, says=says, what="crash")
        case GivenUp(word):
            verb = "cancels" if word.status is TaskStatus.CANCELED else "gives up on"
            says = f"{verb} {word.called}{f': {word.reason}' if word.reason else ''}"
            return Said(sentences.ORCHESTRATOR, "", inward=False, says=says, what="give up")
        case Stepped(who, record, asked):
            what = type(asked).__name__
            if isinstance(record.event, m.Published):
                says = f"moves {branch} from {sentences.short(was)} to {sentences.short(record.event.ref)}"
                return Said(sentences.STORE, who.name, inward=False, says=says, what=what)
            if isinstance(asked, m.Publish) and isinstance(record.event, NotDone):
                says = f"refuses {who.name}'s publication: {sentences.shortened(record.event.reason)}"
                return Said(sentences.STORE, who.name, inward=False, says=says, what=what)
            late = _late(who, told) if isinstance(record.event, m.Reported) else ""
            says = sentences.answer(who, asked, record.event) + late
            answers = type(record.event) in asked.answers.all()
            peer = sentences.peer(asked) if answers else ""
            return Said(who.name, peer, inward=sentences.is_read(asked), says=says, what=what)


def _attempt(who: Recording) -> str:
    return f"{who.attempt.logical_task.partition('/')[2] or who.attempt.logical_task}, attempt {who.attempt.number},"


def _late(who: Recording, told: Iterable[Word]) -> str:
    """A result of a task that had ended without it is received and ignored."""
    for word in told:
        if word.task_id == who.attempt.task_id and word.status in {TaskStatus.TIMED_OUT, TaskStatus.CANCELED}:
            return f". Nobody listens: the task is {sentences.status(word.status)}"
    return ""
