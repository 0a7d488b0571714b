"""The policy machine: which fence backing does this cluster use, and do we all agree.

Theory of operation
-------------------
1. One decision, stored once an epoch by create-if-absent, is the truth for every node, whatever a node has seen itself
   (W-08, S-27). A node is resolved only when it has read or created that record. The exceptions have no store to agree
   in: ``soft`` and ``enable`` without coordination (S-28).
2. A choice is a decision too. ``disable`` and ``soft`` probe nothing (W-12), but they read, and store what they choose
   if nothing stands. Counterexample: one ``auto`` start, then ``disable`` beside it unread: two backings on one branch,
   or every attempt refused because its epoch is none.
3. A node whose policy a decision does not fit does not start: it says who decided, and the command that changes it.
4. Never decide without having read (D-2). A node that goes on after a failed read can store ``locked`` beside a
   cluster that is ``conditional``: a lock holder then relocates under a writer that ignores the lock.
5. Three answers of a probe, three evidence classes. *Disproved* is final and not asked again (T-F1): a store that once
   carried out what it had to refuse does not fence, whatever it does next. *Unknown* is asked again within the budget,
   and before each new probe the stored decision is read again (W-10). Silence never becomes *disproved* (T-W1): an
   outage while detecting would otherwise lock the whole cluster for good.
6. Probing and storing have budgets of their own; neither spends the other's (W-13, S-29).
7. No starting node changes a decision: it writes the first one or none. The next epoch is written by ``change``, when
   nobody publishes under the one before.

What does not fit: a node cannot tell whether the epoch moved after it was resolved. Attempts pin the epoch and compare
it before they publish.
"""

from __future__ import annotations

from perago_core.answers import Event, NotDone, Unknown
from perago_core.machine.engine import Table
from perago_core.machine.rows import ALWAYS, Ask, Definition, Fact, On, Step, asks, wait, when
from perago_core.policy import messages as m
from perago_core.policy.messages import Policy
from perago_core.policy.state import (
    CHOSEN,
    PROBES_AUTO,
    PROBES_ENABLE,
    REMEMBER,
    STORES,
    Phase,
    PolicyKnown,
    PolicySettings,
    PolicyState,
    backoff,
    fits,
    proposal,
)


def _fits(settings: PolicySettings, _known: PolicyKnown, event: m.DecisionFound | m.DecisionStood) -> str:
    return _yes(fits(settings.policy, event.decision))


def _probes(settings: PolicySettings, known: PolicyKnown, _event: Event) -> str:
    budget = PROBES_ENABLE if settings.policy is Policy.ENABLE else PROBES_AUTO
    return "left" if len(known.transcript) < budget else "spent"


def _standing(settings: PolicySettings, known: PolicyKnown, event: m.DecisionStood) -> str:
    # The whole record is compared, detector and transcript included: that one exists says nothing (T-W9). Our own
    # earlier request, whose answer was lost, is recognised by the same comparison.
    return "own" if event.decision == proposal(settings, known) else "other"


FACTS = (
    Fact("policy", tuple(each.value for each in Policy), lambda settings, _known, _event: settings.policy.value),
    Fact("required", ("yes", "no"), lambda settings, _known, _event: _yes(settings.policy is Policy.ENABLE)),
    Fact("coordination", ("yes", "no"), lambda settings, _known, _event: _yes(settings.coordination)),
    Fact("silent", ("fallback", "fail"), lambda settings, _known, _event: settings.on_indeterminate.value),
    Fact("chosen", ("yes", "no"), lambda settings, _known, _event: _yes(settings.policy in CHOSEN)),
    Fact("fits", ("yes", "no"), _fits),
    Fact("standing", ("own", "other"), _standing),
    Fact("probes", ("left", "spent"), _probes),
    Fact("stores", ("left", "spent"), lambda _settings, known, _event: "left" if known.stores < STORES else "spent"),
)


def _yes(answer: bool) -> str:  # noqa: FBT001 - it turns a truth into a word, nothing else
    return "yes" if answer else "no"


@asks(m.ReadDecision)
def read(_settings: PolicySettings, _known: PolicyKnown, _event: Event) -> m.ReadDecision:
    """Read what the cluster decided."""
    return m.ReadDecision()


@asks(m.Probe)
def probe(_settings: PolicySettings, _known: PolicyKnown, _event: Event) -> m.Probe:
    """Probe the store."""
    return m.Probe()


@asks(m.StoreDecision)
def store(settings: PolicySettings, known: PolicyKnown, _event: Event) -> m.StoreDecision:
    """Store what this node found; the same record at the same epoch each time."""
    return m.StoreDecision(proposal(settings, known))


@asks(m.BackOff)
def rest(_settings: PolicySettings, known: PolicyKnown, _event: Event) -> m.BackOff:
    """Wait as long as the number of probes says."""
    return m.BackOff(backoff(len(known.transcript)))


@asks(m.BackOff)
def rest_store(_settings: PolicySettings, known: PolicyKnown, _event: Event) -> m.BackOff:
    """Wait as long as the number of attempts to store says."""
    return m.BackOff(backoff(known.stores))


TABLE = (
    # id, what happened, if, then wait for, and ask for
    wait(Phase.SETTINGS, None,
        On("S1", m.Begun, when(policy="soft", coordination="no"), Phase.RESOLVED),
        On("S3", m.Begun, when(policy="disable", coordination="no"), Phase.UNCOORDINATED),
        On("S4", m.Begun, when(policy="auto", coordination="no"), Phase.UNCOORDINATED),
        On("S5", m.Begun, when(policy="enable", coordination="no"), Phase.PROBE, probe),
        On("S6", m.Begun, when(coordination="yes"), Phase.DECISION, read),
    ),

    wait(Phase.DECISION, m.ReadDecision,
        On("D1", m.DecisionAbsent, when(chosen="no"), Phase.PROBE, probe),
        On("D2", m.DecisionAbsent, when(chosen="yes"), Phase.STORED, store),
        On("D3", m.DecisionFound, when(fits="yes"), Phase.RESOLVED),
        On("D4", m.DecisionFound, when(fits="no"), Phase.OVERRULED),
        On("D6", m.DecisionUnreadable, ALWAYS, Phase.UNREADABLE),
        On("D7", Unknown, ALWAYS, Phase.UNREADABLE),
    ),

    wait(Phase.PROBE, m.Probe,
        On("P1", m.ProbeProved, when(coordination="yes"), Phase.STORED, store),
        On("P2", m.ProbeProved, when(coordination="no"), Phase.RESOLVED),
        On("P3", NotDone, when(required="no"), Phase.STORED, store),
        On("P4", NotDone, when(required="yes"), Phase.INCAPABLE),
        On("P5", Unknown, when(probes="left"), Phase.PROBE_PAUSE, rest),
        On("P6", Unknown, when(probes="spent", required="yes"), Phase.UNPROVED),
        On("P7", Unknown, when(probes="spent", required="no", silent="fail"), Phase.UNPROVED),
        On("P8", Unknown, when(probes="spent", required="no", silent="fallback"), Phase.STORED, store),
    ),

    wait(Phase.PROBE_PAUSE, m.BackOff,
        On("W1", m.BackedOff, when(coordination="yes"), Phase.DECISION, read),
        On("W2", m.BackedOff, when(coordination="no"), Phase.PROBE, probe),
    ),

    wait(Phase.STORED, m.StoreDecision,
        On("T1", m.DecisionStood, when(standing="own"), Phase.RESOLVED),
        On("T2", m.DecisionStood, when(standing="other", fits="yes"), Phase.RESOLVED),
        On("T4", m.DecisionStood, when(standing="other", fits="no"), Phase.OVERRULED),
        On("T5", m.DecisionUnreadable, ALWAYS, Phase.UNREADABLE),
        On("T6", NotDone, when(stores="left"), Phase.STORE_PAUSE, rest_store),
        On("T7", NotDone, when(stores="spent"), Phase.UNAGREED),
        On("T8", Unknown, when(stores="left"), Phase.STORE_PAUSE, rest_store),
        On("T9", Unknown, when(stores="spent"), Phase.UNAGREED),
    ),

    wait(Phase.STORE_PAUSE, m.BackOff,
        On("X1", m.BackedOff, ALWAYS, Phase.STORED, store),
    ),
)  # fmt: skip

FAILURES = frozenset(
    {
        Phase.UNCOORDINATED,
        Phase.UNREADABLE,
        Phase.INCAPABLE,
        Phase.OVERRULED,
        Phase.UNPROVED,
        Phase.UNAGREED,
    },
)


def _opening(_settings: PolicySettings) -> tuple[Phase, PolicyKnown, Ask | None]:
    return Phase.SETTINGS, PolicyKnown(), None


POLICY: Table[PolicySettings, PolicyKnown] = Table(
    Definition(
        name="policy",
        phases=Phase,
        initial=(Phase.SETTINGS,),
        terminal=FAILURES | {Phase.RESOLVED},
        facts=FACTS,
        table=TABLE,
        remember=REMEMBER,
        opening=_opening,
        interrupts=(m.Begun,),
    ),
)


def start(settings: PolicySettings) -> Step[PolicySettings, PolicyKnown]:
    """Begin, and take the first row at once: what needs no coordination store and has none may then be over."""
    return POLICY.step(POLICY.start(settings).state, m.Begun())


def step(state: PolicyState, event: Event) -> Step[PolicySettings, PolicyKnown]:
    """Advance by one event, or raise ``ProtocolError`` and leave everything as it was."""
    return POLICY.step(state, event)
