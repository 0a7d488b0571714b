"""The attempt machine, assembled: ``start`` an attempt, ``step`` it with events, ask for its ``outcome``."""

from __future__ import annotations

from perago_core.attempt import asks as ask
from perago_core.attempt import commands as c
from perago_core.attempt import failures as f
from perago_core.attempt.facts import FACTS
from perago_core.attempt.interrupts import INTERRUPTS
from perago_core.attempt.known import REMEMBER, AttemptState, Known
from perago_core.attempt.phases import Phase
from perago_core.attempt.table import ROWS
from perago_core.engine import Table
from perago_core.errors import ProtocolError
from perago_core.results import Outcome
from perago_core.rows import Ask, Definition, Event, Step
from perago_core.values import Attempt


def _opening(_attempt: Attempt) -> tuple[Known, Ask]:
    return Known(), ask.prepare_workspace


ATTEMPT: Table[Attempt, Known] = Table(
    Definition(
        name="attempt",
        phases=Phase,
        initial=Phase.WORKSPACE,
        terminal=frozenset({Phase.DONE}),
        facts=FACTS,
        rows=(*ROWS, *INTERRUPTS),
        waits={
            Phase.WORKSPACE: (c.PrepareWorkspace,),
            Phase.BODY: (c.RunBody, c.ResumeBody),
            Phase.FENCE_0: (c.ReloadTask,),
            Phase.STAGING_0: (c.OpenStaging,),
            Phase.FENCE_1: (c.ReloadTask,),
            Phase.STAGING: (c.OpenStaging,),
            Phase.UPLOAD: (c.Upload,),
            Phase.COMMIT: (c.CommitStaging,),
            Phase.FENCE_2: (c.ReloadTask,),
            Phase.CLAIM: (c.MakeClaim,),
            Phase.CLAIM_CHECK: (c.ReadClaim,),
            Phase.CLAIMS: (c.ListClaims,),
            Phase.OWNERS: (c.ReadOwners,),
            Phase.INTENTS: (c.SettleIntents,),
            Phase.LEASE: (c.AcquireLease,),
            Phase.TAKEOVER: (c.AwaitTakeover,),
            Phase.FENCE_3: (c.ReloadTask,),
            Phase.REVOCATION: (c.RevokeOlder,),
            Phase.BARRIER: (c.PassBarrier,),
            Phase.INTENT: (c.ArmIntent,),
            Phase.HEAD: (c.ReadHead,),
            Phase.PUBLICATION: (c.Publish,),
            Phase.OWN_REVOCATION: (c.DropStaging,),
            Phase.OWN_BARRIER: (c.PassBarrier,),
            Phase.OWN_HEAD: (c.ReadHead,),
            Phase.OWN_FENCE: (c.ReloadTask,),
            Phase.READ_BACK: (c.ReadCommit,),
            Phase.REPORT: (c.Report,),
            Phase.CONFIRMATION: (c.ConfirmIntent,),
            Phase.ACCEPTANCE: (c.ReloadTask,),
            Phase.SETTLEMENT: (c.SettleIntent,),
            Phase.CLEAN_UP: (c.CleanUp,),
        },
        remember=REMEMBER,
        opening=_opening,
        interrupts=(f.AttemptLost, f.LeaseLost, f.DeadlineExceeded),
    ),
)


def start(attempt: Attempt) -> Step[Attempt, Known]:
    """Begin an attempt: the first state and its first command."""
    return ATTEMPT.start(attempt)


def step(state: AttemptState, event: Event) -> Step[Attempt, Known]:
    """Advance an attempt by one event, or raise ``ProtocolError`` and leave the state as it was."""
    return ATTEMPT.step(state, event)


def outcome(state: AttemptState) -> Outcome:
    """Say what became of an attempt that has ended."""
    if not ATTEMPT.is_terminal(state):
        message = f"the attempt has not ended: it waits for {state.phase.value}"
        raise ProtocolError(message)
    known = state.known
    return Outcome(
        result=known.result,
        acceptance=known.acceptance,
        backing=state.subject.backing,
        silence=known.refusal if known.result is None else None,
        left_behind=known.left_behind,
    )
