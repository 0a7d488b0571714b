"""What is known after each moment of a recorded run, from what the executions were told and nothing else.

A branch that moved is known to have moved when somebody says so: the store to whoever published, or a head to whoever
reads it. A worker that was killed after its publication landed told nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from attrs import define, field

from perago_core.answers import NotDone, Unknown
from perago_core.attempt import messages as m
from perago_core.attempt.state import Phase
from perago_core.attempt.table import start
from perago_core.values import Target, TaskSnapshot, TaskStatus
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
from perago_report.scenes import Line
from perago_report.sentences import plan


@define
class Seen:
    """The world of one target, as far as it is known."""

    target: Target
    head: str
    parents: dict[str, tuple[str, ...]] = field(factory=dict[str, tuple[str, ...]])
    mentioned: dict[str, None] = field(factory=dict[str, None])
    owners: dict[str, str] = field(factory=dict[str, str])
    names: dict[str, str] = field(factory=dict[str, str])
    called: dict[str, str] = field(factory=dict[str, str])
    accepted: set[str] = field(factory=set[str])
    tasks: dict[str, Line] = field(factory=dict[str, Line])
    runs: dict[str, Line] = field(factory=dict[str, Line])
    requests: dict[str, Line] = field(factory=dict[str, Line])
    sent: dict[str, str] = field(factory=dict[str, str])
    records: dict[tuple[str, str], Line] = field(factory=dict[tuple[str, str], Line])

    def take(self, at: int, moment: Moment, words: Iterable[Word]) -> None:
        """Learn from a moment. What a task has become by then the orchestrator says itself."""
        match moment:
            case HandedOut(who):
                self._begin(who)
            case Stepped():
                self._step(moment)
            case Sent(who, what):
                self.sent[who.name] = what.commit
                text = plan(what, self.target.branch, sentences.short(what.commit))
                self.requests[who.name] = Line(who.name, text, "sent")
            case Vanished(who, _):
                self._run(who, f"on {who.attempt.worker_id}", "dead")
                self._leave(who)
            case GivenUp():
                pass
        for word in words:
            if word.task_id in self.tasks and word.ended_at and word.ended_at <= at:
                self._stands(word.task_id, word.status, word.ref)

    def line(self, tips: Iterable[str]) -> set[str]:
        """Return these commits and all their ancestors that are known."""
        found: set[str] = set()
        left = list(tips)
        while left:
            ref = left.pop()
            if ref and ref not in found:
                found.add(ref)
                left += self.parents.get(ref, ())
        return found

    def lost(self) -> str:
        """Return an accepted result that was left out of a branch that holds what it was based on (S-01)."""
        branch = self.line([self.head])
        for ref in sorted(self.accepted - branch):
            if set(self.parents.get(ref, ())) & branch:
                return ref
        return ""

    # ---- what each event teaches

    def _begin(self, who: Recording) -> None:
        attempt = who.attempt
        self._run(who, f"on {attempt.worker_id}; next: {start(attempt).state.phase.value}", "running")
        self.called[attempt.staging_name] = who.name
        where = f"attempt {attempt.number}, on {sentences.short(attempt.input)}"
        self.tasks[attempt.task_id] = Line(who.name, where, "open")
        if attempt.target == self.target:
            self._mention(attempt.input)

    def _step(self, moment: Stepped) -> None:
        who, record = moment.who, moment.record
        learn = _LEARN.get(type(record.event))
        if learn is not None:
            learn(self, who, moment.asked, record.event)
        if record.next == Phase.DONE.name:
            self._run(who, f"on {who.attempt.worker_id}", "ended")
        else:
            self._run(who, f"on {who.attempt.worker_id}; next: {Phase[record.next].value}", "running")

    def _leave(self, who: Recording) -> None:
        """Nobody waits for the publication any more; it may land all the same."""
        sent = self.requests.get(who.name)
        if sent is not None:
            self.requests[who.name] = Line(who.name, f"{sent.text}, nobody waits for it", "sent")

    def _mention(self, ref: str, parents: tuple[str, ...] | None = None) -> None:
        """Draw a commit from now on, after the ancestors it stands on."""
        if parents is not None:
            self.parents.setdefault(ref, parents)
        line = [ref]
        while line[-1] not in self.mentioned and self.parents.get(line[-1]):
            line.append(self.parents[line[-1]][0])
        for each in reversed(line):
            self.mentioned.setdefault(each)

    def _run(self, who: Recording, text: str, standing: str) -> None:
        self.runs[who.name] = Line(who.name, text, standing)

    def _stands(self, task_id: str, status: TaskStatus, ref: str | None) -> None:
        line = self.tasks[task_id]
        if status is TaskStatus.COMPLETED and ref is not None:
            self.accepted.add(ref)
            self.tasks[task_id] = Line(line.name, line.text, f"accepted {sentences.short(ref)}")
        elif not status.is_open:
            self.tasks[task_id] = Line(line.name, line.text, sentences.status(status))

    def _reloaded(self, snapshot: TaskSnapshot | None) -> None:
        if snapshot is not None and snapshot.task_id in self.tasks:
            self._stands(snapshot.task_id, snapshot.status, snapshot.result_ref)

    def opened(self, who: Recording, _asked: m.OpenStaging, _event: m.StagingOpened) -> None:
        """A staging name begins at the input."""
        self.names[who.name] = who.attempt.input

    def staged(self, who: Recording, _asked: m.CommitStaging, event: m.Staged) -> None:
        """A staged commit stands on the input."""
        self._mention(event.staged.commit, (who.attempt.input,))
        self.owners[event.staged.commit] = who.name
        self.names[who.name] = event.staged.commit

    def claimed(self, who: Recording, _asked: m.MakeClaim, event: m.ClaimStands) -> None:
        """A claim stands for good."""
        if event.claim.execution == who.attempt.execution:
            what = "a no-op" if event.claim.tree is None else f"tree {sentences.short(event.claim.tree)}"
            text = f"of {who.name}: {what} on {sentences.short(event.claim.parent)}"
            self.records["claim", who.name] = Line("claim", text, "stands")

    def owners_read(self, _who: Recording, _asked: m.ReadOwners, event: m.OwnersRead) -> None:
        """Other tasks were read."""
        for _, snapshot in event.snapshots:
            self._reloaded(snapshot)

    def reloaded(self, _who: Recording, _asked: m.ReloadTask, event: m.TaskReloaded) -> None:
        """The own task was read."""
        self._reloaded(event.snapshot)

    def leased(self, who: Recording, _asked: m.AcquireLease, event: m.LeaseHeld) -> None:
        """The lease is held until it is released or lost."""
        self.records["lease", who.name] = Line("lease", f"of {who.name}, token {event.token}", "held")

    def unleased(self, who: Recording, _asked: object, _event: object) -> None:
        """The lease is gone."""
        self.records.pop(("lease", who.name), None)

    def armed(self, who: Recording, _asked: m.ArmIntent, _event: m.Armed) -> None:
        """An intent is open until it is settled."""
        self.records["intent", who.name] = Line("intent", f"of {who.name}", "open")

    def swept(self, _who: Recording, _asked: m.SettleIntents, event: m.IntentsSettled) -> None:
        """A sweep that leaves nothing open has settled every intent there was."""
        if not event.unresolved:
            self.records = {key: line for key, line in self.records.items() if key[0] != "intent"}

    def settled(self, who: Recording, _asked: m.SettleIntent, _event: m.Settled) -> None:
        """The intent is settled."""
        self.records.pop(("intent", who.name), None)

    def head_seen(self, who: Recording, _asked: m.ReadHead, event: m.HeadSeen) -> None:
        """The branch is where it was read; a publication nobody waits for has landed if it is there."""
        if who.attempt.target != self.target:
            return
        self.head = "" if event.head is None else event.head.commit.ref
        if event.head is not None:
            self._mention(event.head.commit.ref, event.head.commit.parents)
        for name in [name for name, ref in self.sent.items() if ref == self.head]:
            self.requests.pop(name, None)

    def published(self, who: Recording, asked: m.Publish, event: m.Published) -> None:
        """The branch is where the store moved it."""
        self.requests.pop(who.name, None)
        if who.attempt.target == self.target:
            self._mention(event.ref, None if event.ref == asked.plan.commit else (asked.plan.expected,))
            self.owners.setdefault(event.ref, who.name)
            self.head = event.ref

    def unpublished(self, who: Recording, asked: object, _event: NotDone) -> None:
        """A request to publish has ended."""
        if isinstance(asked, m.Publish):
            self.requests.pop(who.name, None)

    def unanswered(self, who: Recording, asked: object, _event: Unknown) -> None:
        """A request to publish may still be on its way."""
        if isinstance(asked, m.Publish):
            self._leave(who)

    def revoked(self, _who: Recording, _asked: m.RevokeOlder, event: m.Revoked) -> None:
        """Names of older attempts are gone."""
        for name in event.names:
            self.names.pop(self.called.get(name, ""), None)

    def dropped(self, who: Recording, _asked: object, _event: object) -> None:
        """The own name is gone."""
        self.names.pop(who.name, None)

    def cleaned(self, who: Recording, asked: m.CleanUp, event: m.CleanedUp) -> None:
        """Name and lease are gone."""
        self.dropped(who, asked, event)
        self.unleased(who, asked, event)


_LEARN: Mapping[type, Callable[[Seen, Recording, Any, Any], None]] = {
    m.StagingOpened: Seen.opened,
    m.Staged: Seen.staged,
    m.ClaimStands: Seen.claimed,
    m.OwnersRead: Seen.owners_read,
    m.TaskReloaded: Seen.reloaded,
    m.LeaseHeld: Seen.leased,
    m.LeaseLost: Seen.unleased,
    m.Armed: Seen.armed,
    m.IntentsSettled: Seen.swept,
    m.Settled: Seen.settled,
    m.HeadSeen: Seen.head_seen,
    m.Published: Seen.published,
    NotDone: Seen.unpublished,
    Unknown: Seen.unanswered,
    m.Revoked: Seen.revoked,
    m.Dropped: Seen.dropped,
    m.CleanedUp: Seen.cleaned,
}
