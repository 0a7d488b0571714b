"""The policy machine: which fence backing does this cluster use, and do we all agree.

``resolve`` runs it. To drive it yourself: ``start`` with the settings of a node, ``perform`` each command on the ports,
``step`` with the event it gives, until ``outcome`` says ``Resolved`` or ``PolicyFailed``. The rows are in ``table``.
"""

from __future__ import annotations

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
from perago_core.policy.run import perform, resolve
from perago_core.policy.state import Phase, PolicyFailed, PolicyKnown, PolicySettings, PolicyState, Resolved, outcome
from perago_core.policy.table import POLICY, start, step

__all__ = [
    "POLICY",
    "BackOff",
    "BackedOff",
    "Begun",
    "Capability",
    "Decision",
    "DecisionAbsent",
    "DecisionFound",
    "DecisionStood",
    "DecisionUnreadable",
    "Evidence",
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
    "StoreDecision",
    "outcome",
    "perform",
    "resolve",
    "start",
    "step",
]
