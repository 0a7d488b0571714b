"""Perago Core: publish the result of exactly one attempt, never lose an accepted one, fail closed otherwise.

Two layers, both public. ``drive`` and ``adrive`` run an attempt over ports. ``start``, ``step`` and ``outcome`` are the
machine itself, for whoever brings a runtime of their own. Everything else is values.

Names are loaded when they are first used: the four machines define some two hundred classes, and an embedder that steps
one of them need not pay for all.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perago_core import fence, lease, ledger, policy, recovery
    from perago_core.answers import Answer, Done, NotDone, Unknown
    from perago_core.attempt import ATTEMPT, AttemptState, Phase, messages, outcome, start, step
    from perago_core.budget import PublishBudget
    from perago_core.driver import Ports, adrive, akeep_alive, drive, keep_alive
    from perago_core.errors import CodecError, DefinitionError, PeragoError, ProtocolError
    from perago_core.failpoints import CATALOGUE, Failpoint
    from perago_core.fence import Case, decide
    from perago_core.machine.codec import dumps, load_state, loads
    from perago_core.machine.trace import Tracer, TraceRecord
    from perago_core.names import attempt_number, task_prefix
    from perago_core.plan import PublishPlan
    from perago_core.results import Acceptance, Completed, Failed, FailedTerminally, Outcome, Refusal, Result
    from perago_core.values import (
        Attempt,
        Backing,
        Claim,
        Commit,
        CommitRef,
        Head,
        Operation,
        StagedRef,
        Target,
        TaskSnapshot,
        TaskStatus,
    )

_WHERE = {
    "answers": ("Answer", "Done", "NotDone", "Unknown"),
    "attempt": ("ATTEMPT", "AttemptState", "Phase", "messages", "outcome", "start", "step"),
    "budget": ("PublishBudget",),
    "driver": ("Ports", "adrive", "akeep_alive", "drive", "keep_alive"),
    "errors": ("CodecError", "DefinitionError", "PeragoError", "ProtocolError"),
    "failpoints": ("CATALOGUE", "Failpoint"),
    "fence": ("Case", "decide"),
    "plan": ("PublishPlan",),
    "names": ("attempt_number", "task_prefix"),
    "results": ("Acceptance", "Completed", "Failed", "FailedTerminally", "Outcome", "Refusal", "Result"),
    "machine.codec": ("dumps", "load_state", "loads"),
    "machine.trace": ("TraceRecord", "Tracer"),
    "values": (
        "Attempt",
        "Backing",
        "Claim",
        "Commit",
        "CommitRef",
        "Head",
        "Operation",
        "StagedRef",
        "Target",
        "TaskSnapshot",
        "TaskStatus",
    ),
}
_MODULE_OF = {name: module for module, names in _WHERE.items() for name in names}
_MODULES = ("fence", "lease", "ledger", "policy", "recovery")

__version__ = "0.1.0"

__all__ = [
    "ATTEMPT",
    "CATALOGUE",
    "Acceptance",
    "Answer",
    "Attempt",
    "AttemptState",
    "Backing",
    "Case",
    "Claim",
    "CodecError",
    "Commit",
    "CommitRef",
    "Completed",
    "DefinitionError",
    "Done",
    "Failed",
    "FailedTerminally",
    "Failpoint",
    "Head",
    "NotDone",
    "Operation",
    "Outcome",
    "PeragoError",
    "Phase",
    "Ports",
    "ProtocolError",
    "PublishBudget",
    "PublishPlan",
    "Refusal",
    "Result",
    "StagedRef",
    "Target",
    "TaskSnapshot",
    "TaskStatus",
    "TraceRecord",
    "Tracer",
    "Unknown",
    "adrive",
    "akeep_alive",
    "attempt_number",
    "decide",
    "drive",
    "dumps",
    "fence",
    "keep_alive",
    "lease",
    "ledger",
    "load_state",
    "loads",
    "messages",
    "outcome",
    "policy",
    "recovery",
    "start",
    "step",
    "task_prefix",
]


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return import_module(f"perago_core.{name}")
    if name not in _MODULE_OF:
        message = f"module 'perago_core' has no attribute {name!r}"
        raise AttributeError(message)
    return getattr(import_module(f"perago_core.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
