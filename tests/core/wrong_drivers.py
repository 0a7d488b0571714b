"""Drivers and conversations with a mistake, each put in by a patch, and the clause on the order of calls that notices."""

# ruff: noqa: E501  one driver, one line
from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, TypeVar
from unittest.mock import patch

from attrs import evolve, field, frozen

from perago_core import unanswered
from perago_core.answers import Answer, Done, Unknown
from perago_core.attempt import Phase, run
from perago_core.attempt import messages as m
from perago_core.attempt.state import UNDER_LEASE
from perago_core.calls import Call, Conversation, Dialogue, call, pause
from perago_core.ports import Orchestrator, Store
from perago_core.results import Classification, Failed, Refusal
from perago_core.value import Value
from perago_core.values import Backing, TaskSnapshot, TaskStatus

T = TypeVar("T")
_PERFORM = dict(run.PERFORM)
Patch = Callable[[], AbstractContextManager[object]]


@frozen(repr=False)
class WrongDriver(Value):
    """One mistake, all the clauses that notice it, and an attempt of the kind it concerns."""

    id: str
    says: str
    clauses: tuple[str, ...]
    put_in: Patch = field(eq=False)
    backing: Backing = Backing.CONDITIONAL
    ledger: bool = False
    #: Whether its body changes anything: one that does not has no name to be fenced after, on ``soft``.
    changes: bool = True


def _talking(command: type, talk: Callable[[run.Execution, Any], Conversation]) -> Patch:
    """Carry a command out by another conversation."""
    return partial(patch.dict, run.PERFORM, {command: talk})


def _asking_again(**more: str) -> Patch:
    """Make a call again that may not be."""
    wanted: Mapping[str, frozenset[str]] = {
        port: methods | {more[port]} if port in more else methods for port, methods in unanswered.IDEMPOTENT.items()
    }
    return partial(patch.object, unanswered, "IDEMPOTENT", wanted)


def _carrying(change: Callable[[Dialogue[Any]], Dialogue[Any]]) -> Patch:
    """Let the driver change what it carries."""

    def asking_again(dialogue: Dialogue[T], until: Callable[[], float]) -> Dialogue[T]:
        return unanswered.asking_again(change(dialogue), until)

    return partial(patch, "perago_core.driver.asking_again", asking_again)


# ---------------------------------------------------------------------------------------------------------------------
# What a driver may do wrong


def _remembering_the_task(since: str, until: str = "") -> Callable[[Dialogue[Any]], Dialogue[Any]]:
    """Answer for the task from memory since one call was made and until another, instead of asking the orchestrator."""

    def change(dialogue: Dialogue[Any]) -> Generator[Call, Answer[Any], Any]:
        known: dict[tuple[Any, ...], Answer[Any]] = {}
        remembers = False
        try:
            asked = next(dialogue)
            while True:
                if remembers and asked.method == "reload" and asked.args in known:
                    asked = dialogue.send(known[asked.args])
                    continue
                remembers = asked.method == since or (remembers and asked.method != until)
                answer = yield asked
                if asked.method == "reload":
                    known[asked.args] = answer
                asked = dialogue.send(answer)
        except StopIteration as end:
            return end.value

    return change


def _breathing(dialogue: Dialogue[Any]) -> Generator[Call, Answer[Any], Any]:
    """Rest before each call that changes something, so that the server is not overrun."""
    try:
        asked = next(dialogue)
        while True:
            if asked.method == "publish":
                yield from pause(0.1)
            asked = dialogue.send((yield asked))
    except StopIteration as end:
        return end.value


# ---------------------------------------------------------------------------------------------------------------------
# What a conversation may do wrong


def _head_and_claims(x: run.Execution, command: m.ReadHead) -> Conversation:
    """See the head, and then the claims once more."""
    seen = yield from _PERFORM[m.ReadHead](x, command)
    yield from call(Store.claims, x.attempt.target, x.attempt.logical_task)
    return seen


def _sends_again(x: run.Execution, command: m.Publish) -> Conversation:
    """Send a publication without an answer again if the head has not moved, and leave it to the next look to tell."""
    event = yield from _PERFORM[m.Publish](x, command)
    if isinstance(event, Unknown):
        seen = yield from call(Store.head, x.attempt.target)
        if isinstance(seen, Done) and seen.value is not None and seen.value.commit.ref == command.plan.expected:
            yield from _PERFORM[m.Publish](x, command)
    return event


def _believes_the_poll(x: run.Execution, _command: m.ReloadTask) -> Conversation:
    """Take the task for what it was when it was handed out."""
    attempt = x.attempt
    yield from ()
    return m.TaskReloaded(
        TaskSnapshot(
            workflow_id=attempt.workflow_id,
            task_id=attempt.task_id,
            status=TaskStatus.IN_PROGRESS,
            retry_count=attempt.retry_count,
            worker_id=attempt.worker_id,
            started_at=attempt.started_at,
            poll_count=attempt.poll_count,
        )
    )


def _fence_before_sending(x: run.Execution, command: m.Publish) -> Conversation:
    """Ask once more whether the attempt is current, right before its plan is sent."""
    yield from call(Orchestrator.reload, x.attempt.workflow_id, x.attempt.task_id)
    return (yield from _PERFORM[m.Publish](x, command))


def _reports_twice(x: run.Execution, command: m.Report) -> Conversation:
    """Report again what was not answered."""
    event = yield from _PERFORM[m.Report](x, command)
    return (yield from _PERFORM[m.Report](x, command)) if isinstance(event, Unknown) else event


def _says_goodbye(x: run.Execution, command: m.CleanUp) -> Conversation:
    """Report FAILED for an attempt that ends without a word, so that the orchestrator need not wait."""
    if x.state.known.result is None:
        why = Refusal(Classification.ATTEMPT_STALE, "a current attempt", "a stale one", "nothing")
        yield from call(Orchestrator.report, x.attempt, Failed(why))
    return (yield from _PERFORM[m.CleanUp](x, command))


def _opens_early(x: run.Execution, command: m.PrepareWorkspace) -> Conversation:
    """Open the staging name while the workspace is made, to save time later; the later opening finds it there."""
    yield from call(Store.open_staging, x.attempt.target, x.attempt.staging_name, x.attempt.input)
    return (yield from _PERFORM[m.PrepareWorkspace](x, command))


def _arms_the_record_only(x: run.Execution, command: m.ArmIntent) -> Conversation:
    """Write the intent's record, and no pointer by which a sweep of the target would find it."""
    talk = _PERFORM[m.ArmIntent](x, command)
    asked = next(talk)
    while asked.method != "create_if_absent":
        asked = talk.send((yield asked))
    yield asked
    talk.close()
    return m.Armed()


def _takes_the_ledger_for_clear(x: run.Execution, _command: m.SettleIntents) -> Conversation:
    """Read only the epoch, and take the target for free of open intents."""
    yield from ()
    return m.IntentsSettled(x.attempt.epoch, (), (), ())


def _waits_half(x: run.Execution, command: m.AwaitTakeover) -> Conversation:
    """Wait half as long as the takeover takes."""
    return (yield from _PERFORM[m.AwaitTakeover](x, evolve(command, seconds=command.seconds / 2)))


def _passed(_x: run.Execution, _command: m.PassBarrier) -> Conversation:
    """Take the barrier for passed."""
    yield from ()
    return m.BarrierPassed()


def _revokes_blindly(_x: run.Execution, _command: m.RevokeOlder) -> Conversation:
    """Take all older names for gone."""
    yield from ()
    return m.Revoked(())


def _lease_for_ever(_x: run.Execution) -> float:
    """Take a lease that was held once for one that has no end."""
    return float("inf")


_TENDS = partial(patch, "perago_core.attempt.run.UNDER_LEASE", (*UNDER_LEASE, Phase.PUBLICATION))

# fmt: off
WRONG_DRIVERS = (
    WrongDriver("tends the lease before sending", "the lease is tended before each command, also before the one that publishes", ("S-09",), _TENDS, Backing.LOCKED),
    WrongDriver("claims after the head", "the claims are listed once more after the head was seen", ("S-09",), _talking(m.ReadHead, _head_and_claims)),
    WrongDriver("fence before sending", "the task is reloaded right before the plan is sent, and nobody looks at the answer", ("S-07", "S-09"), _talking(m.Publish, _fence_before_sending)),
    WrongDriver("breathes", "the driver rests before a call that changes something", ("S-09",), _carrying(_breathing)),
    WrongDriver("publication asked again", "a publication counts as a call that may be made again", ("S-05b", "S-05c", "S-09"), _asking_again(store="publish")),
    WrongDriver("sends again", "a publication without an answer is sent again if the head has not moved", ("S-05c",), _talking(m.Publish, _sends_again)),
    WrongDriver("report asked again", "a report counts as a call that may be made again", ("S-07b",), _asking_again(orchestrator="report")),
    WrongDriver("reports twice", "a report without an answer is sent again", ("S-07b",), _talking(m.Report, _reports_twice)),
    WrongDriver("says goodbye", "who would end without a word reports FAILED", ("S-07",), _talking(m.CleanUp, _says_goodbye)),
    WrongDriver("opens early", "the staging name is opened while the workspace is made", ("S-08a",), _talking(m.PrepareWorkspace, _opens_early)),
    WrongDriver("remembers the task", "the fence after staging is answered from memory", ("S-08",), _carrying(_remembering_the_task("commit", "publish"))),
    WrongDriver("remembers after sending", "the fence after a publication without an answer is answered from memory", ("S-05b",), _carrying(_remembering_the_task("publish"))),
    WrongDriver("believes the poll", "every fence is answered by what was handed out", ("S-08b",), _talking(m.ReloadTask, _believes_the_poll), Backing.SOFT, changes=False),
    WrongDriver("remembers under the lease", "the fence under the lease is answered from memory", ("S-08c",), _carrying(_remembering_the_task("swap", "publish")), Backing.LOCKED),
    WrongDriver("arms the record only", "an intent has no pointer when its publication is sent", ("S-18",), _talking(m.ArmIntent, _arms_the_record_only), ledger=True),
    WrongDriver("takes the ledger for clear", "nobody lists the open intents", ("S-18b",), _talking(m.SettleIntents, _takes_the_ledger_for_clear), ledger=True),
    WrongDriver("lease for ever", "a lease that was held once has no end", ("S-24",), partial(patch.object, run.Execution, "lease_until", _lease_for_ever), Backing.LOCKED),
    WrongDriver("waits half", "the takeover wait is half as long", ("S-24b",), _talking(m.AwaitTakeover, _waits_half), Backing.LOCKED),
    WrongDriver("barrier taken for passed", "nobody asks for the barrier", ("S-30b",), _talking(m.PassBarrier, _passed)),
    WrongDriver("revokes blindly", "nobody looks for older names", ("S-30c",), _talking(m.RevokeOlder, _revokes_blindly)),
)
# fmt: on


def noticed_alone() -> list[tuple[str, str]]:
    """Give each clause on calls that notices a wrong driver alone, with what is wrong with it; one driver a clause."""
    found = {each.clauses[0]: f"*{each.id}*: {each.says}" for each in reversed(WRONG_DRIVERS) if len(each.clauses) == 1}
    return sorted(found.items())
