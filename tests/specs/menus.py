"""What to start the machines from and what to feed them, for the walk over all their rows.

Each menu gives, for the phase a state is in, concrete events that reach every value of every fact there; an ended
machine has none. The attempt's is in ``tests.core.attempts``. Reasons and times are few on purpose: what differs only
in them is one state more, and a finite number of states is what makes the walk end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from itertools import product
from typing import TypeAlias

from attrs import evolve

from perago_core import lease as l
from perago_core import policy as p
from perago_core.answers import Event, NotDone, Unknown
from perago_core.ledger.records import (
    Intent,
    IntentState,
    Movement,
    Prepared,
    Settlement,
    SettlementKind,
    TargetIntent,
    audit_of,
)
from perago_core.recovery import Mode, Recovery, RecoveryState, Word
from perago_core.recovery import Phase as RecoveryPhase
from perago_core.recovery import messages as m
from perago_core.recovery.classify import Owners, Trail
from perago_core.values import Backing, Commit, CommitRef, Head, Operation, Target, TaskSnapshot, TaskStatus

SILENT = "timeout"

# ---------------------------------------------------------------------------------------------------------------------
# Policy

POLICY_SUBJECTS = tuple(
    p.PolicySettings(policy, silence, coordination, "node-1")
    for policy, silence, coordination in product(p.Policy, p.OnIndeterminate, (True, False))
)


def _decided(backing: Backing, evidence: p.Evidence) -> p.Decision:
    return p.Decision(1, backing, evidence, "node-0", p.Policy.AUTO, "digest")


DECISIONS = (
    _decided(Backing.CONDITIONAL, p.Evidence.PROVED),
    _decided(Backing.LOCKED, p.Evidence.DISPROVED),
    _decided(Backing.LOCKED, p.Evidence.INDETERMINATE),
    _decided(Backing.SOFT, p.Evidence.CHOSEN),
)


def policy_menu(state: p.PolicyState) -> list[Event]:
    """Give what may happen to a node that asks for its backing."""
    match state.phase:
        case p.Phase.SETTINGS:
            return [p.Begun()]
        case p.Phase.DECISION:
            return [
                p.DecisionAbsent(),
                *(p.DecisionFound(each) for each in DECISIONS),
                p.DecisionUnreadable("a newer program's"),
                Unknown(SILENT),
            ]
        case p.Phase.PROBE:
            return [
                *(p.ProbeProved(each) for each in p.Capability),
                NotDone("not implemented"),
                Unknown(SILENT),
            ]
        case p.Phase.STORED:
            return [
                *(p.DecisionStood(each.decision) for each in state.pending if isinstance(each, p.StoreDecision)),
                *(p.DecisionStood(each) for each in DECISIONS),
                p.DecisionUnreadable("a newer program's"),
                NotDone("no permission"),
                Unknown(SILENT),
            ]
        case p.Phase.PROBE_PAUSE | p.Phase.STORE_PAUSE:
            return [p.BackedOff()]
        case _:
            return []


# ---------------------------------------------------------------------------------------------------------------------
# Lease

#: Ten seconds to live and a margin of two: fresh until a third has passed, over at eight.
FRESH, DUE, LATER, OVER = 1.0, 4.0, 5.0, 8.0

LEASE_SUBJECTS = (l.LeaseRequest(Target("lake", "main"), "execution-1", 10.0, 2.0),)

_REVOKED: list[Event] = [l.LeaseRevoked(), NotDone("no permission"), Unknown(SILENT)]

_LEASE: Mapping[Enum, list[Event]] = {
    l.Phase.LEASE: [l.Granted("lease-1", 0.0), NotDone("no permission"), Unknown(SILENT)],
    l.Phase.LOCK: [
        l.LockStood("execution-1", "lease-1"),
        l.LockStood("execution-2", "lease-2"),
        l.LockStood("execution-1", "lease-0"),
        l.LockStood("", ""),
        NotDone("no permission"),
        Unknown(SILENT),
    ],
    l.Phase.TOKEN: [
        l.TokenAbsent(),
        l.TokenFound(l.TokenRecord(6, "execution-0", released=True), "the last holder's record, as it stands"),
        l.TokenFound(l.TokenRecord(6, "execution-0", released=False), "the last holder's record, as it stands"),
        NotDone("a newer program's"),
        Unknown(SILENT),
    ],
    l.Phase.OWN_TOKEN: [
        l.TokenTaken(FRESH),
        l.TokenTaken(OVER),
        NotDone("another holder has taken the next token"),
        Unknown(SILENT),
    ],
    l.Phase.HELD: [l.Ticked(FRESH), l.Ticked(DUE), l.Ticked(OVER), l.ReleaseWanted()],
    l.Phase.RENEWAL: [
        l.KeptAlive(DUE, LATER),
        l.KeptAlive(DUE, OVER),
        NotDone("the lease is gone"),
        Unknown(SILENT, now=DUE),
        Unknown(SILENT, now=OVER),
        l.Ticked(LATER),
        l.Ticked(OVER),
    ],
    l.Phase.RELEASE_MARK: [
        l.ReleaseMarked(),
        NotDone("another holder has taken the next token"),
        Unknown(SILENT),
    ],
    l.Phase.RELEASE: _REVOKED,
    l.Phase.YIELD: _REVOKED,
    l.Phase.RETREAT: _REVOKED,
}


def lease_menu(state: l.LeaseState) -> list[Event]:
    """Give what may happen to a lease."""
    return _LEASE.get(state.phase, [])


# ---------------------------------------------------------------------------------------------------------------------
# Recovery

MAIN, OTHER = Target("repo", "main"), Target("repo", "other")
INPUT, OWN = CommitRef("A"), CommitRef("P")

_LOOKS = (Mode.PROBE, Mode.SETTLE_ONLY)
RECOVERY_SUBJECTS = (
    *(Recovery("operation-1", MAIN, mode, "recoverer", 1000, "" if mode in _LOOKS else "a reason") for mode in Mode),
    *(Recovery("operation-1", MAIN, Mode.SETTLE_ONLY, "recoverer", 1000, "a reason", word) for word in Word),
)


def _intent(*targets: Target) -> Intent:
    return Intent(
        operation_id="operation-1",
        operation=Operation.LOGICAL,
        workflow_id="workflow-1",
        task_id="task-1",
        number=1,
        execution="run-1",
        logical_task="workflow-1.load.0",
        actor="worker-1",
        created_at=900,
        targets=tuple(TargetIntent(each, INPUT, CommitRef("C"), "tree-C") for each in targets),
        backing=Backing.CONDITIONAL,
        epoch=3,
    )


ARMED = _intent(MAIN)
CONFIRMED = evolve(
    ARMED, state=IntentState.CONFIRMED, targets=tuple(evolve(each, confirmed=OWN) for each in ARMED.targets)
)
#: Nobody claims under ``soft``, and nobody adopts.
SOFT = evolve(CONFIRMED, backing=Backing.SOFT)
INTENTS = (ARMED, CONFIRMED, _intent(MAIN, OTHER), _intent(OTHER), SOFT)

_TASK = TaskSnapshot("workflow-1", "task-1", 0, TaskStatus.COMPLETED, result_execution="run-1", result_ref=OWN)

#: What the authority may say: ours, another's, running, dead, a contradiction, nothing.
TASKS: tuple[TaskSnapshot | None, ...] = (
    _TASK,
    evolve(_TASK, result_execution="run-9", result_ref=CommitRef("X")),
    TaskSnapshot("workflow-1", "task-1", 0, TaskStatus.IN_PROGRESS),
    TaskSnapshot("workflow-1", "task-1", 0, TaskStatus.TIMED_OUT),
    TaskSnapshot("workflow-1", "task-1", 0, TaskStatus.TIMED_OUT, workflow_running=False),
    evolve(_TASK, task_id="task-9"),
    None,
)


def _commit(ref: str, *parents: str, tree: str = "") -> Commit:
    return Commit(CommitRef(ref), tuple(CommitRef(each) for each in parents), tree or f"tree-{ref}")


def _trail(*commits: Commit, whole: bool = True, dirty: bool = False) -> Trail:
    return Trail(Head(commits[0], dirty), commits, whole)


_ON_INPUT = _trail(_commit("A", "root"))
_ON_OWN = _trail(_commit("P", "A", tree="tree-C"))

#: A target as it may look: our own commit at the head, under another, not there, another's, gone back, missing, unread.
TRAILS = (
    _ON_OWN,
    _trail(_commit("N", "P"), _commit("P", "A", tree="tree-C")),
    _ON_INPUT,
    _trail(_commit("X", "A")),
    _trail(_commit("root")),
    Trail(None),
    _trail(_commit("U", "V"), whole=False),
    _trail(_commit("P", "A", tree="tree-C"), dirty=True),
)

PLAN = Prepared("operation-1", "recoverer", "lock token 6", (Movement(MAIN, OWN, INPUT),))
EARLIER = Settlement("operation-1", SettlementKind.ABANDONED, (Movement(MAIN, INPUT, OWN),))


def _record(_state: RecoveryState) -> list[Event]:
    found = [m.RecordFound(each) for each in INTENTS]
    return [*found, m.RecordGone(), NotDone("a newer program's"), Unknown(SILENT)]


def _earlier_settlement(_state: RecoveryState) -> list[Event]:
    return [
        m.SettlementAbsent(),
        m.SettlementFound(EARLIER),
        NotDone("a newer program's"),
        Unknown(SILENT),
    ]


def _authority(_state: RecoveryState) -> list[Event]:
    return [*(m.TaskSeen(each) for each in TASKS), Unknown(SILENT)]


def _owners(_state: RecoveryState) -> list[Event]:
    return [*(m.OwnersRead(each) for each in Owners), Unknown(SILENT)]


def _revocation(_state: RecoveryState) -> list[Event]:
    return [m.NamesRevoked(("perago-x",)), NotDone("no permission"), Unknown(SILENT)]


def _barrier(_state: RecoveryState) -> list[Event]:
    return [m.BarrierPassed(), NotDone("the branch is dirty"), Unknown(SILENT)]


def _targets(state: RecoveryState) -> list[Event]:
    # The first target may look like anything; the others, if there are any, are where they were.
    assert state.known.intent is not None
    others = (_ON_INPUT,) * (len(state.known.intent.targets) - 1)
    return [*(m.TargetsSeen((each, *others)) for each in TRAILS), Unknown(SILENT)]


def _earlier_plan(_state: RecoveryState) -> list[Event]:
    return [
        m.PlanRead(None),
        m.PlanRead(PLAN),
        NotDone("a newer program's"),
        Unknown(SILENT),
    ]


def _plan(state: RecoveryState) -> list[Event]:
    stands = [m.PlanStands(each.prepared) for each in state.pending if isinstance(each, m.WritePlan)]
    return [*stands, NotDone("no permission"), Unknown(SILENT)]


def _relocation(_state: RecoveryState) -> list[Event]:
    return [m.Relocated(), m.TargetBusy("task-2 publishes"), NotDone("the head is another"), Unknown(SILENT)]


def _settlement(state: RecoveryState) -> list[Event]:
    stands = [m.SettlementStands(each.settlement) for each in state.pending if isinstance(each, m.Settle)]
    return [
        *stands,
        m.SettlementStands(EARLIER),
        NotDone("no permission"),
        Unknown(SILENT),
    ]


def _audit(state: RecoveryState) -> list[Event]:
    subject = state.subject
    stands = [
        m.AuditStands(audit_of(each.intent, each.settlement, subject.actor, subject.at))
        for each in state.pending
        if isinstance(each, m.RecordAudit)
    ]
    return [*stands, NotDone("another record contradicts it"), Unknown(SILENT)]


def _closing(_state: RecoveryState) -> list[Event]:
    return [m.Closed(), NotDone("no permission"), Unknown(SILENT)]


_Answers: TypeAlias = Callable[[RecoveryState], list[Event]]

_RECOVERY: Mapping[Enum, _Answers] = {
    RecoveryPhase.RECORD: _record,
    RecoveryPhase.EARLIER_SETTLEMENT: _earlier_settlement,
    RecoveryPhase.AUTHORITY: _authority,
    RecoveryPhase.REVOCATION: _revocation,
    RecoveryPhase.BARRIER: _barrier,
    RecoveryPhase.OWNERS: _owners,
    RecoveryPhase.TARGETS: _targets,
    RecoveryPhase.EARLIER_PLAN: _earlier_plan,
    RecoveryPhase.PLAN: _plan,
    RecoveryPhase.RELOCATION: _relocation,
    RecoveryPhase.SETTLEMENT: _settlement,
    RecoveryPhase.AUDIT: _audit,
    RecoveryPhase.CLOSING: _closing,
}


def recovery_menu(state: RecoveryState) -> list[Event]:
    """Give what may happen to a recovery."""
    answers = _RECOVERY.get(state.phase)
    return [] if answers is None else answers(state)
