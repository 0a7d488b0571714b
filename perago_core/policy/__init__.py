"""The policy machine: which fence backing does this cluster use, and do we all agree.

``resolve`` runs it. To drive it yourself: ``start`` with the settings of a node, ``perform`` each command on the ports,
``step`` with the event it gives, until ``outcome`` says ``Resolved`` or ``PolicyFailed``. The rows are in ``table``.
``change`` writes the next decision, when nobody works under the one before.
"""

from __future__ import annotations

from perago_core.policy.change import (
    Behind,
    Change,
    Changed,
    Member,
    Stance,
    change,
    enrol,
    list_members,
    propose,
    read_decision,
    restate,
    stance,
)
from perago_core.policy.messages import (
    BackedOff,
    BackOff,
    Begun,
    Capability,
    Decision,
    DecisionAbsent,
    DecisionFound,
    DecisionStood,
    DecisionUnreadable,
    Evidence,
    OnIndeterminate,
    Policy,
    Probe,
    ProbeProved,
    ReadDecision,
    StoreDecision,
)
from perago_core.policy.run import detect, perform, resolve
from perago_core.policy.state import Phase, PolicyFailed, PolicyKnown, PolicySettings, PolicyState, Resolved, outcome
from perago_core.policy.table import POLICY, start, step

__all__ = [
    "POLICY",
    "BackOff",
    "BackedOff",
    "Begun",
    "Behind",
    "Capability",
    "Change",
    "Changed",
    "Decision",
    "DecisionAbsent",
    "DecisionFound",
    "DecisionStood",
    "DecisionUnreadable",
    "Evidence",
    "Member",
    "OnIndeterminate",
    "Phase",
    "Policy",
    "PolicyFailed",
    "PolicyKnown",
    "PolicySettings",
    "PolicyState",
    "Probe",
    "ProbeProved",
    "ReadDecision",
    "Resolved",
    "Stance",
    "StoreDecision",
    "change",
    "detect",
    "enrol",
    "list_members",
    "outcome",
    "perform",
    "propose",
    "read_decision",
    "resolve",
    "restate",
    "stance",
    "start",
    "step",
]
