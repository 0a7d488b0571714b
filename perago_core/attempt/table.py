"""The attempt machine: what does one attempt do next, given what just happened.

Read it top to bottom; it is one publication. One block is one phase: what it waits for, what to do when that is not
done (``not_done``), when nobody can say (``unknown``) and when something comes from outside (``outside``). One line in
it is one row:

    id | what happened | if | then wait for | and ask for

``FAIL``, ``SILENT``, ``LEAVE``, ``GO_ON``, ``FIND_OUT``, ``ASK_RIVALS`` and ``IGNORE`` are the only policies; each
stands for one to three rows.

How to read it
--------------
* ``soft`` is the seed protocol, step for step: two attempt fences, one look at the head, one movement.
* The ledger is a switch of its own: with it on, open intents are settled and an intent is armed before the head is
  read, and confirmed and settled after the report. It adds evidence and changes no verdict.
* The other backings add claim and owner rule for all, revocation and barrier for ``conditional`` and ``locked``, the
  lease, a third fence and the takeover wait for ``locked``. They change which rows are reachable, not who decides.
* Two partial orders carry the weight: *name before last fence before send*, and *revoke before barrier before observe
  before send* (with a lease also *lease before fence 3*, *lease before observe*). ``conditional`` has no lease, so it
  also lists the claims *after* the barrier: whoever published before it is then on record and can be judged (L-02). No
  row puts anything between observing the head and sending the plan: HEAD leads to PUBLICATION and nowhere in between.
* Any answer that is not *done* leads to a report of failure, to silence, or, for a publication outside ``soft``, to
  finding out. Going to CLEAN_UP without a report is silence: the attempt is not ours to speak for.
* Outside ``soft`` an attempt that adopts first looks for what an earlier one of its task has left. What was accepted it
  reports at once. What was published it claims, like work of its own, and reports once nobody can take it away any
  more; the body does not run. Only what has no result on record is still replaced.
* Then: publish, report, clean up. What the ledger wants (confirm, settle) comes after the report, because everything
  between publish and report only widens the one window that matters.
* A task that declares what it reads and writes shares its branch: it sees the head with all that lies below it down to
  its input, waits there for its turn, and, if the store refuses because somebody was faster, looks again (PR4).
* The decision about the head is ``fence.decide``, named in the block of HEAD and nowhere else.

What is not here: bodies, heartbeats, polling and shutdown belong to the runtime; they reach the machine as events.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from perago_core import fence
from perago_core.answers import Event, NotDone, Unknown
from perago_core.attempt import messages as m
from perago_core.attempt.state import (
    BEYOND_SOFT,
    REMEMBER,
    AttemptState,
    Known,
    earlier_head_seen,
    intents_are_clear,
    is_accepted,
    is_current,
    is_ours,
    judged_by,
    plan_of,
    rival,
    work_of,
)
from perago_core.attempt.state import Phase as P
from perago_core.errors import ProtocolError
from perago_core.ledger.records import SettlementKind
from perago_core.machine.engine import Table
from perago_core.machine.rows import (
    ALWAYS,
    Ask,
    Command,
    Definition,
    Fact,
    Guard,
    On,
    Row,
    Step,
    Wait,
    asks,
    same,
    when,
)
from perago_core.names import commit_message
from perago_core.plan import PlanKind
from perago_core.results import Completed, Failed, FailedTerminally, Outcome, Refusal
from perago_core.values import Attempt, Backing, CommitRef, claim_of


def _mode(attempt: Attempt, _known: Known, _event: object) -> str:
    return "read only" if attempt.read_only else "writable"


def _backing(attempt: Attempt, _known: Known, _event: object) -> str:
    return attempt.backing.value


def _ledger(attempt: Attempt, _known: Known, _event: object) -> str:
    return "on" if attempt.ledger else "off"


def _sender(attempt: Attempt, _known: Known, event: m.BodyEvent) -> str:
    return "ours" if event.execution == attempt.execution else "foreign"


def _failure(_attempt: Attempt, _known: Known, event: m.BodyFailed) -> str:
    return "terminal" if event.terminal else "plain"


def _diff(_attempt: Attempt, known: Known, _event: object) -> str:
    return "changed" if known.changed else "unchanged"


def _staging(_attempt: Attempt, known: Known, _event: object) -> str:
    return "open" if known.staging else "none"


def _attempt(attempt: Attempt, _known: Known, event: m.TaskReloaded) -> str:
    return "current" if is_current(attempt, event.snapshot) else "stale"


def _time(_attempt: Attempt, _known: Known, event: Unknown) -> str:
    return "left" if event.now < event.until else "over"


def _claim(attempt: Attempt, _known: Known, event: m.ClaimStands | m.ClaimRead) -> str:
    return "ours" if is_ours(attempt, event.claim) else "not ours"


def _others(attempt: Attempt, known: Known, _event: object) -> str:
    return "some" if any(claim.execution != attempt.execution for claim in known.claims) else "none"


def _abandoned(attempt: Attempt, _known: Known, _event: object) -> str:
    return "adopt" if attempt.adopts else "replace"


def _rank(attempt: Attempt, known: Known, _event: object) -> str:
    """Beside other writers a refusal may say no more than that one of them was faster: then look again."""
    if rival(attempt, known.claims) is not None:
        return "outranked"
    return "highest, beside others" if attempt.shares else "highest"


def _earlier(_attempt: Attempt, known: Known, _event: object) -> str:
    if known.accepted is not None:
        return "accepted"
    return "published" if known.adopting else "nothing"


def _owners(attempt: Attempt, known: Known, _event: object) -> str:
    """Whoever replaces judges the owners when it sees the head; whoever adopts need not come so far."""
    if not attempt.adopts:
        return "for the head"
    if known.accepted is not None:
        return "accepted"
    return "for the head" if rival(attempt, known.claims) is None else "above us"


def _intents(attempt: Attempt, _known: Known, event: m.IntentsSettled) -> str:
    return "clear" if intents_are_clear(attempt, event) else "open"


def _predecessor(_attempt: Attempt, _known: Known, event: m.LeaseHeld) -> str:
    return "clean" if event.clean else "unclean"


def _verdict(_attempt: Attempt, known: Known, _event: object) -> str:
    assert known.decision is not None
    return known.decision.verdict


def _moves(_attempt: Attempt, known: Known, _event: object) -> str:
    return "to the input" if plan_of(known).kind is PlanKind.RETURN else "to a commit"


def _effect(_attempt: Attempt, known: Known, _event: object) -> str:
    return "ours" if known.published is not None and not known.uncertain else "not ours"


def _result(_attempt: Attempt, known: Known, _event: object) -> str:
    return "completed" if isinstance(known.result, Completed) else "failed"


def _reads_back(attempt: Attempt, _known: Known, _event: object) -> str:
    return "no" if attempt.read_only or (attempt.backing is Backing.SOFT and not attempt.ledger) else "yes"


def _intent(_attempt: Attempt, known: Known, _event: object) -> str:
    if not known.armed:
        return "none"
    return "uncertain" if known.uncertain else "armed"


def _acceptance(attempt: Attempt, _known: Known, event: m.TaskReloaded) -> str:
    return "ours" if is_accepted(attempt, event.snapshot) else "not ours"


FACTS = (
    Fact("mode", ("read only", "writable"), _mode),
    Fact("backing", ("soft", "atomic", "conditional", "locked"), _backing),
    Fact("ledger", ("on", "off"), _ledger),
    Fact("sender", ("ours", "foreign"), _sender),
    Fact("failure", ("plain", "terminal"), _failure),
    Fact("diff", ("changed", "unchanged"), _diff),
    Fact("staging", ("open", "none"), _staging),
    Fact("attempt", ("current", "stale"), _attempt),
    Fact("time", ("left", "over"), _time),
    Fact("claim", ("ours", "not ours"), _claim),
    Fact("others", ("some", "none"), _others),
    Fact("abandoned", ("adopt", "replace"), _abandoned),
    Fact("rank", ("outranked", "highest", "highest, beside others"), _rank),
    Fact("earlier", ("accepted", "published", "nothing"), _earlier),
    Fact("owners", ("accepted", "above us", "for the head"), _owners),
    Fact("intents", ("open", "clear"), _intents),
    Fact("predecessor", ("clean", "unclean"), _predecessor),
    Fact("verdict", ("merge", "replace", "return", "nothing", "adopt", "refuse", "conflict", "late"), _verdict),
    Fact("moves", ("to a commit", "to the input"), _moves),
    Fact("effect", ("ours", "not ours"), _effect),
    Fact("result", ("completed", "failed"), _result),
    Fact("reads_back", ("yes", "no"), _reads_back),
    Fact("intent", ("none", "armed", "uncertain"), _intent),
    Fact("acceptance", ("ours", "not ours"), _acceptance),
)


prepare_workspace = same(m.PrepareWorkspace)
run_body = same(m.RunBody)
reload_task = same(m.ReloadTask)
list_claims = same(m.ListClaims)
settle_intents = same(m.SettleIntents)
acquire_lease = same(m.AcquireLease)
pass_barrier = same(m.PassBarrier)
read_head = same(m.ReadHead)


@asks(m.ResumeBody)
def resume_body(attempt: Attempt, _known: Known, _event: object) -> Command:
    return m.ResumeBody(attempt.staging_name)


@asks(m.OpenStaging)
def open_staging(attempt: Attempt, _known: Known, _event: object) -> Command:
    return m.OpenStaging(attempt.staging_name, attempt.input)


@asks(m.Upload)
def upload(attempt: Attempt, _known: Known, _event: object) -> Command:
    return m.Upload(attempt.staging_name)


@asks(m.CommitStaging)
def commit_staging(attempt: Attempt, _known: Known, _event: object) -> Command:
    message = commit_message(attempt.logical_task, attempt.number, attempt.task_id)
    return m.CommitStaging(attempt.staging_name, message)


@asks(m.MakeClaim)
def make_claim(attempt: Attempt, known: Known, _event: object) -> Command:
    return m.MakeClaim(claim_of(attempt, work_of(known), known.output))


@asks(m.ReadClaim)
def read_claim(attempt: Attempt, known: Known, _event: object) -> Command:
    return m.ReadClaim(claim_of(attempt, work_of(known), known.output))


@asks(m.ReadOwners)
def read_owners(attempt: Attempt, known: Known, _event: object) -> Command:
    others = {(claim.workflow_id, claim.task_id) for claim in known.claims if claim.execution != attempt.execution}
    return m.ReadOwners(tuple(sorted(others)))


@asks(m.AwaitTakeover)
def await_takeover(attempt: Attempt, _known: Known, _event: object) -> Command:
    return m.AwaitTakeover(attempt.budget.takeover_wait)


@asks(m.RevokeOlder)
def revoke_older(attempt: Attempt, _known: Known, _event: object) -> Command:
    return m.RevokeOlder(attempt.number)


@asks(m.ArmIntent)
def arm_intent(_attempt: Attempt, known: Known, _event: object) -> Command:
    return m.ArmIntent(work_of(known), known.token)


@asks(m.Publish)
def publish(_attempt: Attempt, known: Known, _event: object) -> Command:
    return m.Publish(plan_of(known))


@asks(m.DropStaging)
def drop_staging(attempt: Attempt, _known: Known, _event: object) -> Command:
    return m.DropStaging(attempt.staging_name)


@asks(m.ReadCommit)
def read_commit(_attempt: Attempt, known: Known, _event: object) -> Command:
    assert known.published is not None
    return m.ReadCommit(known.published)


@asks(m.Report)
def report_input(attempt: Attempt, known: Known, _event: object) -> Command:
    return m.Report(Completed(attempt.input, known.output, attempt.execution))


@asks(m.Report)
def report_unneeded(attempt: Attempt, known: Known, _event: object) -> Command:
    assert isinstance(known.decision, fence.Unneeded)
    return m.Report(Completed(known.decision.output, known.output, attempt.execution))


@asks(m.Report)
def report_published(attempt: Attempt, known: Known, _event: object) -> Command:
    assert known.published is not None
    return m.Report(Completed(known.published, known.output, attempt.execution))


@asks(m.Report)
def report_adopted(attempt: Attempt, known: Known, _event: object) -> Command:
    assert isinstance(known.decision, fence.Adopted)
    return m.Report(Completed(known.decision.ref, known.decision.output, attempt.execution))


@asks(m.Report)
def report_accepted(attempt: Attempt, known: Known, _event: object) -> Command:
    assert known.accepted is not None
    ref, output = known.accepted
    return m.Report(Completed(ref, output, attempt.execution))


@asks(m.Report)
def report_failed(_attempt: Attempt, known: Known, _event: object) -> Command:
    return m.Report(Failed(_the_refusal(known)))


@asks(m.Report)
def report_terminal(_attempt: Attempt, known: Known, _event: object) -> Command:
    return m.Report(FailedTerminally(_the_refusal(known)))


def _the_refusal(known: Known) -> Refusal:
    assert known.refusal is not None
    return known.refusal


@asks(m.ConfirmIntent)
def confirm_intent(_attempt: Attempt, known: Known, _event: object) -> Command:
    return m.ConfirmIntent(_completed_ref(known))


@asks(m.SettleIntent)
def settle_accepted(_attempt: Attempt, known: Known, _event: object) -> Command:
    return m.SettleIntent(SettlementKind.ACCEPTED, _completed_ref(known))


@asks(m.SettleIntent)
def settle_not_published(_attempt: Attempt, _known: Known, _event: object) -> Command:
    return m.SettleIntent(SettlementKind.NOT_PUBLISHED)


def _completed_ref(known: Known) -> CommitRef:
    assert isinstance(known.result, Completed)
    return known.result.ref


@asks(m.CleanUp)
def clean_up(attempt: Attempt, known: Known, _event: object) -> Command:
    """Release the lease only when the publication's fate is known.

    After an unknown one the next holder must meet an unclean release, so that it waits until our request has ended.
    """
    return m.CleanUp(
        name=attempt.staging_name if known.staging else None,
        release_lease=known.token is not None and not known.uncertain,
    )


#: Every backing but the seed's own.
STRONG = ("atomic", "conditional", "locked")
#: The backings that act by a revocable name.
BY_NAME = ("conditional", "locked")
#: The backings that judge the claims before they revoke, or revoke nothing. A lease keeps a late claimant from sending.
JUDGES_FIRST = ("soft", "atomic", "locked")


class Way(NamedTuple):
    """Where a policy leads if a guard holds; ``next`` is ``None`` where the machine goes on waiting."""

    suffix: str
    when: Guard
    next: P | None
    ask: Ask | None

    def row(self, name: str, phase: P, event: type[Event]) -> Row:
        """Return the row for an event in a phase."""
        return Row(name + self.suffix, phase, event, self.when, self.next or phase, self.ask)


#: What to do when something is not done, unknown, or comes from outside.
Policy: TypeAlias = tuple[Way, ...]

#: Report the attempt as failed; the orchestrator may try again.
FAIL: Policy = (Way("", ALWAYS, P.REPORT, report_failed),)
#: Clean up and say nothing: the attempt is not ours to speak for.
SILENT: Policy = (Way("", ALWAYS, P.CLEAN_UP, clean_up),)
#: The seed protocol fails; every other backing is silent, because the task may be a successor's by now.
LEAVE: Policy = (
    Way("-soft", when(backing="soft"), P.REPORT, report_failed),
    Way("", when(backing=STRONG), P.CLEAN_UP, clean_up),
)
#: The target may have moved. Never sent again, never called success: find out, where the backing has a way to.
FIND_OUT: Policy = (
    Way("-1", when(backing="soft"), P.REPORT, report_failed),
    Way("-2", when(backing="atomic"), P.OWN_HEAD, read_head),
    Way("-3", when(backing=BY_NAME), P.OWN_REVOCATION, drop_staging),
)
#: Nothing was learnt of earlier attempts: do the work, and learn it when the head is seen.
GO_ON: Policy = (Way("", ALWAYS, P.WORKSPACE, prepare_workspace),)
#: The target did not move. Where an attempt may have a twin, the refusal may be its doing, and then it speaks for both.
ASK_RIVALS: Policy = (
    Way("", when(abandoned="replace"), P.REPORT, report_failed),
    Way("", when(abandoned="adopt"), P.RIVALS, list_claims),
)
#: Nothing changes any more: go on waiting.
IGNORE: Policy = (Way("", ALWAYS, None, None),)


class Outside(NamedTuple):
    """What to do about what comes from outside: the attempt is lost, the time is over, the lease is lost.

    Before the publication is sent, it refuses it. While it is on its way, it makes it unknown, whether the request was
    sent or not. Once the result is on its way, it changes nothing. A lost lease means something only while it is held.
    """

    attempt_lost: Policy
    deadline: Policy
    lease_lost: Policy = ()

    def rows(self, phase: P) -> tuple[Row, ...]:
        """Return the rows of one phase."""
        return (
            *(way.row(f"AL-{phase.name}", phase, m.AttemptLost) for way in self.attempt_lost),
            *(way.row(f"DE-{phase.name}", phase, m.DeadlineExceeded) for way in self.deadline),
            *(way.row(f"LL-{phase.name}", phase, m.LeaseLost) for way in self.lease_lost),
        )


EARLY = Outside(attempt_lost=LEAVE, deadline=FAIL)
#: Nobody knows yet whose the attempt is, and a FAILED from whoever lost it would end the winner's (S-40).
CLAIMING = Outside(attempt_lost=SILENT, deadline=SILENT)
CLAIMED = Outside(attempt_lost=SILENT, deadline=FAIL)
HOLDING = Outside(attempt_lost=SILENT, deadline=FAIL, lease_lost=FAIL)
#: As before, in the phases that ``soft`` comes to as well.
LAST = Outside(attempt_lost=LEAVE, deadline=FAIL, lease_lost=FAIL)
SENT = Outside(attempt_lost=LEAVE, deadline=FIND_OUT, lease_lost=FIND_OUT)
RESOLVING = Outside(attempt_lost=SILENT, deadline=FAIL, lease_lost=IGNORE)
REPORTED = Outside(attempt_lost=IGNORE, deadline=IGNORE, lease_lost=IGNORE)


def wait(
    phase: P,
    *commands: type[Command],
    rows: tuple[On, ...],
    outside: Outside,
    fails: str = "",
    not_done: Policy = (),
    unknown: Policy = (),
    judge: Callable[[AttemptState, m.HeadSeen], Known] | None = None,
) -> Wait:
    """Write one phase: what it waits for, its rows, and the policies for whatever else may happen in it.

    ``fails`` begins the ids of the rows for *not done* and *unknown*. A phase that gives no policy for one of the two
    writes its rows out, or waits for something that cannot answer so. ``judge`` says what the head teaches.
    """
    failing = [(NotDone, way) for way in not_done] + [(Unknown, way) for way in unknown]
    return Wait(
        phase,
        commands,
        (
            *(row.at(phase) for row in rows),
            *(way.row(f"{fails}{number}", phase, event) for number, (event, way) in enumerate(failing, start=1)),
            *outside.rows(phase),
        ),
        {} if judge is None else {m.HeadSeen: judge},
    )


def stale(prefix: str, phase: P) -> tuple[On, ...]:
    """Rows for an attempt fence that does not pass.

    The seed reports FAILED. Outside ``soft`` a stale attempt is silent: the task may belong to a successor by now, and
    our FAILED would be taken for its. An unreadable task is FAILED only while our own deadline has not passed.
    """
    if phase in BEYOND_SOFT:
        return (
            On(f"{prefix}1", m.TaskReloaded, when(attempt="stale"), P.CLEAN_UP, clean_up),
            On(f"{prefix}2", Unknown, when(time="left"), P.REPORT, report_failed),
            On(f"{prefix}3", Unknown, when(time="over"), P.CLEAN_UP, clean_up),
        )
    return (
        On(f"{prefix}1", m.TaskReloaded, when(attempt="stale", backing=STRONG), P.CLEAN_UP, clean_up),
        On(f"{prefix}2", Unknown, when(backing=STRONG, time="left"), P.REPORT, report_failed),
        On(f"{prefix}3", Unknown, when(backing=STRONG, time="over"), P.CLEAN_UP, clean_up),
        On(f"{prefix}4", m.TaskReloaded, when(attempt="stale", backing="soft"), P.REPORT, report_failed),
        On(f"{prefix}5", Unknown, when(backing="soft"), P.REPORT, report_failed),
    )


def guarded(prefix: str, event: type[Event], **also: str) -> tuple[On, ...]:
    """Rows on, once the claims are judged and, with a ledger, the intents are clear: to the lease, or to the head."""
    observe: tuple[P, Ask] = (P.INTENT, arm_intent) if event is m.IntentsSettled else (P.HEAD, read_head)
    return (
        On(f"{prefix}1", event, when(backing="locked", **also), P.LEASE, acquire_lease),
        On(f"{prefix}3", event, when(backing=("soft", "atomic", "conditional"), **also), *observe),
    )


#: An intent stands, whatever became of it.
_KEPT = ("armed", "uncertain")
#: A result that was sent, and will be looked for.
_READS_BACK = {"result": "completed", "reads_back": "yes"}


def answered(prefix: str, event: type[Event]) -> tuple[On, ...]:
    """Rows for a report that was received, or may have been: what may have arrived is treated as arrived."""
    return (
        On(f"{prefix}1", event, when(result="completed", reads_back="no"), P.CLEAN_UP, clean_up),
        On(f"{prefix}2", event, when(**_READS_BACK, intent="none"), P.ACCEPTANCE, reload_task),
        On(f"{prefix}3", event, when(**_READS_BACK, intent=_KEPT), P.CONFIRMATION, confirm_intent),
        On(f"{prefix}4", event, when(result="failed", intent=("none", "uncertain")), P.CLEAN_UP, clean_up),
        On(f"{prefix}5", event, when(result="failed", intent="armed"), P.SETTLEMENT, settle_not_published),
    )


#: The task is still ours, and the body changed nothing.
_UNCHANGED = {"attempt": "current", "diff": "unchanged"}

# One row, one line; the blank lines between the phases are part of how the table reads.
# fmt: off
TABLE: tuple[Wait, ...] = (
    wait(P.EARLIER_CLAIMS, m.ListClaims, fails="ECX", unknown=GO_ON, outside=CLAIMED, rows=(
        On("EC1", m.ClaimsListed, when(others="some"), P.EARLIER_OWNERS, read_owners),
        On("EC2", m.ClaimsListed, when(others="none"), P.WORKSPACE, prepare_workspace),
    )),

    wait(P.EARLIER_OWNERS, m.ReadOwners, fails="EOX", unknown=GO_ON, outside=CLAIMED, rows=(
        On("EO1", m.OwnersRead, when(earlier="accepted"), P.REPORT, report_accepted,
           note="no claim, no barrier: it is accepted and stays, and a twin that claimed would be silent for ever"),
        On("EO2", m.OwnersRead, when(earlier=("published", "nothing")), P.EARLIER_HEAD, read_head),
    )),

    wait(P.EARLIER_HEAD, m.ReadHead, judge=earlier_head_seen, fails="EHX", unknown=GO_ON, outside=CLAIMED, rows=(
        On("EH1", m.HeadSeen, when(earlier="published"), P.FENCE_1, reload_task,
           note="from here on like a no-op, with a name and a claim: else a recovery might take it away unseen"),
        On("EH2", m.HeadSeen, when(earlier=("accepted", "nothing")), P.WORKSPACE, prepare_workspace),
    )),

    wait(P.WORKSPACE, m.PrepareWorkspace, fails="WX", not_done=FAIL, unknown=FAIL, outside=EARLY, rows=(
        On("W1", m.WorkspaceReady, ALWAYS, P.BODY, run_body),
    )),

    wait(P.BODY, m.RunBody, m.ResumeBody, fails="BX", unknown=FAIL, outside=EARLY, rows=(
        On("B1", m.BodyDone, when(sender="ours", mode="read only"), P.REPORT, report_input),
        On("B2", m.BodyDone, when(sender="ours", mode="writable"), P.FENCE_1, reload_task),
        On("B3", m.BodyDone, when(sender="foreign"), P.BODY, note="another execution's completion is dropped"),
        On("B4", m.BodyFailed, when(sender="ours", failure="plain"), P.REPORT, report_failed),
        On("B5", m.BodyFailed, when(sender="ours", failure="terminal"), P.REPORT, report_terminal),
        On("B6", m.BodyFailed, when(sender="foreign"), P.BODY),
        On("B7", m.StagingWanted, when(sender="ours", mode="writable", staging="none"), P.FENCE_0, reload_task),
        On("B8", m.StagingWanted, when(sender="ours", mode="writable", staging="open"), P.BODY, resume_body),
        On("B9", m.StagingWanted, when(sender="ours", mode="read only"), P.REPORT, report_failed),
        On("B10", m.StagingWanted, when(sender="foreign"), P.BODY),
    )),

    wait(P.FENCE_0, m.ReloadTask, outside=EARLY, rows=(
        On("E1", m.TaskReloaded, when(attempt="current"), P.STAGING_0, open_staging),
        *stale("EX", P.FENCE_0),
    )),

    wait(P.STAGING_0, m.OpenStaging, fails="OX", not_done=FAIL, unknown=FAIL, outside=EARLY, rows=(
        On("O1", m.StagingOpened, ALWAYS, P.BODY, resume_body),
    )),

    wait(P.FENCE_1, m.ReloadTask, outside=EARLY, rows=(
        On("F1", m.TaskReloaded, when(attempt="current", diff="changed", staging="none"), P.STAGING, open_staging),
        On("F2", m.TaskReloaded, when(attempt="current", diff="changed", staging="open"), P.UPLOAD, upload),
        On("F3", m.TaskReloaded, when(**_UNCHANGED, backing="soft", ledger="off"), P.HEAD, read_head),
        On("F4", m.TaskReloaded, when(**_UNCHANGED, backing="soft", ledger="on"), P.INTENTS, settle_intents),
        On("F6", m.TaskReloaded, when(**_UNCHANGED, backing=STRONG, staging="none"), P.STAGING, open_staging,
           note="the anchor: a no-op that leaves no mark lets a stalled predecessor land after it"),
        On("F7", m.TaskReloaded, when(**_UNCHANGED, backing=STRONG, staging="open"), P.FENCE_2, reload_task),
        *stale("FX", P.FENCE_1),
    )),

    wait(P.STAGING, m.OpenStaging, fails="SX", not_done=FAIL, unknown=FAIL, outside=EARLY, rows=(
        On("S1", m.StagingOpened, when(diff="changed"), P.UPLOAD, upload),
        On("S2", m.StagingOpened, when(diff="unchanged"), P.FENCE_2, reload_task),
    )),

    wait(P.UPLOAD, m.Upload, fails="UX", not_done=FAIL, unknown=FAIL, outside=EARLY, rows=(
        On("U1", m.Uploaded, ALWAYS, P.COMMIT, commit_staging),
    )),

    wait(P.COMMIT, m.CommitStaging, fails="CX", not_done=FAIL, unknown=FAIL, outside=EARLY, rows=(
        On("C1", m.Staged, ALWAYS, P.FENCE_2, reload_task),
        On("C2", m.NothingStaged, ALWAYS, P.FENCE_2, reload_task,
           note="a no-op after all: no empty commit"),
    )),

    wait(P.FENCE_2, m.ReloadTask, outside=EARLY, rows=(
        On("G1", m.TaskReloaded, when(attempt="current", backing="soft", ledger="off"), P.HEAD, read_head),
        On("G2", m.TaskReloaded, when(attempt="current", backing="soft", ledger="on"), P.INTENTS, settle_intents),
        On("G3", m.TaskReloaded, when(attempt="current", backing=STRONG), P.CLAIM, make_claim),
        *stale("GX", P.FENCE_2),
    )),

    wait(P.CLAIM, m.MakeClaim, fails="KX", not_done=FAIL, outside=CLAIMING, rows=(
        On("K1", m.ClaimStands, when(claim="ours", backing=JUDGES_FIRST), P.CLAIMS, list_claims),
        On("K4", m.ClaimStands, when(claim="ours", backing="conditional"), P.REVOCATION, revoke_older,
           note="claims are listed past the barrier: a zombie that claims and publishes before it is then on record"),
        On("K2", m.ClaimStands, when(claim="not ours"), P.CLEAN_UP, clean_up,
           note="silent: a FAILED from the duplicate would end the winner's attempt, because both share the task id"),
        On("K3", Unknown, ALWAYS, P.CLAIM_CHECK, read_claim),
    )),

    wait(P.CLAIM_CHECK, m.ReadClaim, outside=CLAIMING, rows=(
        On("Q1", m.ClaimRead, when(claim="ours", backing=JUDGES_FIRST), P.CLAIMS, list_claims),
        On("Q4", m.ClaimRead, when(claim="ours", backing="conditional"), P.REVOCATION, revoke_older),
        On("Q2", m.ClaimRead, when(claim="not ours"), P.CLEAN_UP, clean_up),
        On("Q3", Unknown, ALWAYS, P.CLEAN_UP, clean_up),
    )),

    wait(P.CLAIMS, m.ListClaims, fails="LX", unknown=FAIL, outside=CLAIMED, rows=(
        On("L1", m.ClaimsListed, when(others="some"), P.OWNERS, read_owners),
        On("L2", m.ClaimsListed, when(others="none", ledger="on"), P.INTENTS, settle_intents),
        *guarded("LG", m.ClaimsListed, others="none", ledger="off"),
    )),

    wait(P.OWNERS, m.ReadOwners, fails="NX", unknown=FAIL, outside=CLAIMED, rows=(
        On("N1", m.OwnersRead, when(owners="for the head", ledger="on"), P.INTENTS, settle_intents),
        *guarded("NG", m.OwnersRead, owners="for the head", ledger="off"),
        On("N2", m.OwnersRead, when(owners="accepted"), P.REPORT, report_accepted),
        On("N3", m.OwnersRead, when(owners="above us"), P.CLEAN_UP, clean_up,
           note="silent: the newer one publishes for both, and a later attempt of ours reports what was accepted"),
    )),

    wait(P.INTENTS, m.SettleIntents, fails="IX", unknown=FAIL, outside=EARLY, rows=(
        On("I1", m.IntentsSettled, when(intents="open"), P.REPORT, report_failed,
           note="never around an unresolved intent, never beside workers of another policy epoch"),
        *guarded("IG", m.IntentsSettled, intents="clear"),
    )),

    wait(P.LEASE, m.AcquireLease, fails="TX", not_done=FAIL, unknown=FAIL, outside=CLAIMED, rows=(
        On("T1", m.LeaseHeld, when(predecessor="clean"), P.FENCE_3, reload_task),
        On("T2", m.LeaseHeld, when(predecessor="unclean"), P.TAKEOVER, await_takeover),
    )),

    wait(P.TAKEOVER, m.AwaitTakeover, outside=HOLDING, rows=(
        On("D1", m.Waited, ALWAYS, P.FENCE_3, reload_task),
    )),

    wait(P.FENCE_3, m.ReloadTask, outside=HOLDING, rows=(
        On("J1", m.TaskReloaded, when(attempt="current"), P.REVOCATION, revoke_older),
        *stale("JX", P.FENCE_3),
    )),

    wait(P.REVOCATION, m.RevokeOlder, fails="VX", not_done=FAIL, unknown=FAIL, outside=HOLDING, rows=(
        On("V1", m.Revoked, ALWAYS, P.BARRIER, pass_barrier),
    )),

    wait(P.BARRIER, m.PassBarrier, fails="AX", not_done=FAIL, unknown=FAIL, outside=HOLDING, rows=(
        On("A1", m.BarrierPassed, when(ledger="on", backing=JUDGES_FIRST), P.INTENT, arm_intent),
        On("A2", m.BarrierPassed, when(ledger="off", backing=JUDGES_FIRST), P.HEAD, read_head),
        On("A3", m.BarrierPassed, when(backing="conditional"), P.CLAIMS, list_claims),
    )),

    wait(P.INTENT, m.ArmIntent, fails="MX", not_done=FAIL, unknown=FAIL, outside=LAST, rows=(
        On("M1", m.Armed, ALWAYS, P.HEAD, read_head),
    )),

    wait(P.HEAD, m.ReadHead, judge=judged_by(fence.decide), fails="HX", unknown=FAIL, outside=LAST, rows=(
        On("H1", m.HeadSeen, when(verdict="merge"), P.PUBLICATION, publish),
        On("H2", m.HeadSeen, when(verdict="replace"), P.PUBLICATION, publish),
        On("H3", m.HeadSeen, when(verdict="return"), P.PUBLICATION, publish),
        On("H4", m.HeadSeen, when(verdict="nothing"), P.REPORT, report_unneeded),
        On("H5", m.HeadSeen, when(verdict="refuse"), P.REPORT, report_failed),
        On("H6", m.HeadSeen, when(verdict="late"), P.CLEAN_UP, clean_up),
        On("H7", m.HeadSeen, when(verdict="adopt"), P.REPORT, report_adopted),
        On("H8", m.HeadSeen, when(verdict="conflict"), P.REPORT, report_terminal),
    )),

    wait(P.PUBLICATION, m.Publish, fails="PX", not_done=ASK_RIVALS, outside=SENT, rows=(
        On("P1", m.Published, when(moves="to a commit", backing="soft"), P.REPORT, report_published),
        On("P2", m.Published, when(moves="to a commit", backing=STRONG), P.READ_BACK, read_commit),
        On("P3", m.Published, when(moves="to the input"), P.REPORT, report_input),
        On("P4", Unknown, when(backing="soft"), P.REPORT, report_failed, note="never sent again, never called success"),
        On("P5", Unknown, when(backing="atomic"), P.OWN_HEAD, read_head),
        On("P6", Unknown, when(backing=BY_NAME), P.OWN_REVOCATION, drop_staging),
    )),

    wait(P.RIVALS, m.ListClaims, fails="PRX", unknown=FAIL, outside=HOLDING, rows=(
        On("PR1", m.ClaimsListed, when(rank="outranked", intent="none"), P.CLEAN_UP, clean_up,
           note="silent: a FAILED from the lower of two twins may end the workflow the other one completes"),
        On("PR3", m.ClaimsListed, when(rank="outranked", intent=_KEPT), P.SETTLEMENT, settle_not_published),
        On("PR2", m.ClaimsListed, when(rank="highest"), P.REPORT, report_failed),
        On("PR4", m.ClaimsListed, when(rank="highest, beside others"), P.HEAD, read_head,
           note="somebody else may have been faster: look where the head is now; the same head is not tried again"),
    )),

    wait(P.OWN_REVOCATION, m.DropStaging, fails="RX", not_done=FAIL, unknown=FAIL, outside=RESOLVING, rows=(
        On("R1", m.Dropped, ALWAYS, P.OWN_BARRIER, pass_barrier),
    )),

    wait(P.OWN_BARRIER, m.PassBarrier, fails="RB", not_done=FAIL, unknown=FAIL, outside=RESOLVING, rows=(
        On("R2", m.BarrierPassed, ALWAYS, P.OWN_HEAD, read_head),
    )),

    wait(P.OWN_HEAD, m.ReadHead, fails="RH", unknown=FAIL, outside=RESOLVING, rows=(
        On("R3", m.HeadSeen, when(effect="ours"), P.OWN_FENCE, reload_task),
        On("R4", m.HeadSeen, when(effect="not ours"), P.REPORT, report_failed),
    )),

    wait(P.OWN_FENCE, m.ReloadTask, outside=RESOLVING, rows=(
        On("R5", m.TaskReloaded, when(attempt="current"), P.REPORT, report_published),
        *stale("RF", P.OWN_FENCE),
    )),

    wait(P.READ_BACK, m.ReadCommit, outside=RESOLVING, rows=(
        On("Y1", m.CommitSeen, when(effect="ours"), P.REPORT, report_published),
        On("Y2", m.CommitSeen, when(effect="not ours"), P.REPORT, report_failed),
        On("YX1", Unknown, ALWAYS, P.OWN_HEAD, read_head,
           note="it landed, so the head may show it: a lost answer to a read costs no second computation"),
    )),

    wait(P.REPORT, m.Report, outside=REPORTED, rows=(
        *answered("Z", m.Reported),
        *answered("ZU", Unknown),
        On("ZX1", NotDone, when(result="completed"), P.CLEAN_UP, clean_up),
        On("ZX2", NotDone, when(result="failed", intent=("none", "uncertain")), P.CLEAN_UP, clean_up),
        On("ZX3", NotDone, when(result="failed", intent="armed"), P.SETTLEMENT, settle_not_published),
    )),

    wait(P.CONFIRMATION, m.ConfirmIntent, outside=REPORTED, rows=(
        On("ZC1", m.Confirmed, ALWAYS, P.ACCEPTANCE, reload_task),
        On("ZC2", NotDone, ALWAYS, P.ACCEPTANCE, reload_task),
        On("ZC3", Unknown, ALWAYS, P.ACCEPTANCE, reload_task),
    )),

    wait(P.ACCEPTANCE, m.ReloadTask, outside=REPORTED, rows=(
        On("ZA1", m.TaskReloaded, when(acceptance="ours", intent="none"), P.CLEAN_UP, clean_up),
        On("ZA2", m.TaskReloaded, when(acceptance="ours", intent=_KEPT), P.SETTLEMENT, settle_accepted),
        On("ZA3", m.TaskReloaded, when(acceptance="not ours"), P.CLEAN_UP, clean_up,
           note="a sweep settles the intent once the authority has spoken"),
        On("ZA4", Unknown, ALWAYS, P.CLEAN_UP, clean_up),
    )),

    wait(P.SETTLEMENT, m.SettleIntent, outside=REPORTED, rows=(
        On("ZS1", m.Settled, ALWAYS, P.CLEAN_UP, clean_up),
        On("ZS2", NotDone, ALWAYS, P.CLEAN_UP, clean_up),
        On("ZS3", Unknown, ALWAYS, P.CLEAN_UP, clean_up),
    )),

    wait(P.CLEAN_UP, m.CleanUp, outside=REPORTED, rows=(
        On("X1", m.CleanedUp, ALWAYS, P.DONE),
        On("X2", NotDone, ALWAYS, P.DONE, note="logged; the result stands"),
        On("X3", Unknown, ALWAYS, P.DONE),
    )),
)
# fmt: on


def _opening(attempt: Attempt) -> tuple[P, Known, Ask]:
    known = Known()
    if attempt.read_only or not attempt.adopts:
        return P.WORKSPACE, known, prepare_workspace
    return P.EARLIER_CLAIMS, known, list_claims


ATTEMPT: Table[Attempt, Known] = Table(
    Definition(
        name="attempt",
        phases=P,
        initial=(P.WORKSPACE, P.EARLIER_CLAIMS),
        terminal=frozenset({P.DONE}),
        facts=FACTS,
        table=TABLE,
        remember=REMEMBER,
        opening=_opening,
        interrupts=(m.AttemptLost, m.LeaseLost, m.DeadlineExceeded),
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
        adopted=isinstance(known.result, Completed)
        and (known.accepted is not None or isinstance(known.decision, fence.Adopted)),
    )
