"""The policy machine: which fence backing does this cluster use, and do we all agree.

``resolve`` runs it. To drive it yourself: ``start`` with the settings of a node, ``perform`` each command on the ports,
``step`` with the event it gives, until ``outcome`` says ``Resolved`` or ``PolicyFailed``. The rows are in ``table``.
"""

from __future__ import annotations

from perago_core.policy.calls import perform
from perago_core.policy.commands import BackOff, Probe, ReadDecision, StoreDecision
from perago_core.policy.events import (
    BackedOff,
    Begun,
    Capability,
    Decision,
    DecisionAbsent,
    DecisionFound,
    DecisionReadUnknown,
    DecisionStood,
    DecisionUnreadable,
    Evidence,
    OnIndeterminate,
    Policy,
    ProbeDisproved,
    ProbeProved,
    ProbeUnknown,
    StoringRefused,
    StoringUnknown,
)
from perago_core.policy.known import PolicyKnown, PolicySettings, PolicyState
from perago_core.policy.outcomes import PolicyFailed, Resolved, outcome
from perago_core.policy.phases import Phase
from perago_core.policy.resolving import resolve
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
    "DecisionReadUnknown",
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
    "ProbeDisproved",
    "ProbeProved",
    "ProbeUnknown",
    "ReadDecision",
    "Resolved",
    "StoreDecision",
    "StoringRefused",
    "StoringUnknown",
    "outcome",
    "perform",
    "resolve",
    "start",
    "step",
]
