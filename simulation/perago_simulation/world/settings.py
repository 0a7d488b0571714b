"""What is explored: the backing, what the store can do, and how much may go wrong.

Every bound is a number the exploration prints. Within them it is exhaustive; beyond them it claims nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import Attribute, field, frozen

from perago_core.value import Value, a, count, flag
from perago_core.values import Backing
from perago_simulation.world.capabilities import NEEDS, Capabilities

__all__ = ["NEEDS", "RARE", "Capabilities", "Setting", "setting"]

#: The budgets of what seldom happens, and how the bounds tell of them. A setting without any pays nothing for them.
RARE: Mapping[str, str] = {
    "requeues": "requeue(s)",
    "reruns": "rerun(s)",
    "resends": "re-sent publication(s)",
    "terminations": "termination(s)",
    "foreign_merges": "stranger's merge(s)",
    "foreign_resets": "stranger's reset(s)",
    "recreations": "deletion(s) of the branch, made anew where it was",
    "foreign_writes": "stranger's uncommitted write(s)",
    "interrupts": "interruption(s) from outside",
    "refusals": "refused request(s) or failed bodies",
    "lateness": "look(s) past the deadline",
    "late_landings": "unanswered request(s) that land later",
    "epochs": "new epoch(s) of the policy",
    "twins": "task(s) scheduled twice",
    "reverts": "recovery(ies) that revert",
}


#: What the workflows of a branch declare: each its own folder, all of them one, or each reads what the next one writes.
SCOPES = ("", "disjoint", "overlapping", "crossed")
#: Two more that make a difference only to some: every other workflow has the same folder; and the last step of each
#: reads, beside its own, what the next workflow writes.
PAIRED, HANDED_ON = "paired", "handed on"


def _scopes(instance: object, attribute: Attribute[Any], value: object) -> None:
    known = (*SCOPES, PAIRED, HANDED_ON)
    if value not in known:
        message = f"{type(instance).__name__}.{attribute.name} must be one of {known}, not {value!r}"
        raise ValueError(message)


@frozen(cache_hash=True, repr=False, kw_only=True)
class Setting(Value):
    """One configuration to explore.

    With ``adopts`` a retry takes over what an earlier attempt of its task has published, else it replaces it; with
    ``mixed`` only what is scheduled a second time does, as while a changed task is being rolled out.
    ``attempts`` counts the attempts of each workflow step, retries included. ``workflows`` run one after the other:
    when one has ended, whichever way, the next starts from where the head is then; ``pinned`` says that whoever starts
    one first revokes the names of the ended and passes the barrier, as ``perago run`` does. With ``abreast`` the next
    one may start at any moment, beside those that run. With ``maintenance`` every workflow but the first changes the
    layout and no content, and with the ledger the first one publishes on top of what was accepted so. ``scopes``: what
    each of them declares to read and to write, so that they share the branch; the first ``stacking`` of them publish
    above work that nobody has accepted. ``crashes``,
    ``losses`` (answers that do not arrive), ``duplicates`` (second deliveries of an attempt) and ``strangers`` (commits
    by somebody else) are budgets of the whole run. With ``pauses`` the orchestrator may give up an attempt whose worker
    still lives.

    The rare ones, see ``RARE``: ``requeues`` hand an open task out again under its id, ``reruns`` one of a workflow
    that has ended; ``resends`` are copies of a publication made by the transport; ``interrupts`` tell an execution, at
    any moment and rightly or not, that its attempt, its time or its lease is lost; ``refusals`` refuse what was asked
    for, or let a body fail; ``lateness`` is a clock that shows a deadline to be over; ``late_landings`` are unanswered
    requests of any kind that land at any later time; ``epochs`` are policies decided anew under way; ``twins`` are open
    tasks that are scheduled once more, under another id, and both count; ``reverts`` are recoveries of publications to
    a shared branch that nobody accepted. With ``bodies``
    workspace and body take moves of their own, and a body may ask for a place to write while it runs; with
    ``read_only`` it must not. With ``collector`` somebody removes
    names and claims that are no longer needed; with ``early_collector`` claims of every attempt that has ended, which
    is wrong and is here to show why; with ``data_collector`` also the data of staged commits nobody holds any more.
    """

    backing: Backing = field(validator=a(Backing))
    store: Capabilities = field(validator=a(Capabilities))
    ledger: bool = field(default=False, validator=flag)
    attempts: int = field(default=2, validator=count)
    steps: int = field(default=1, validator=count)
    workflows: int = field(default=1, validator=count)
    pinned: bool = field(default=True, validator=flag)
    abreast: bool = field(default=False, validator=flag)
    maintenance: bool = field(default=False, validator=flag)
    crashes: int = field(default=1, validator=count)
    losses: int = field(default=0, validator=count)
    duplicates: int = field(default=0, validator=count)
    strangers: int = field(default=0, validator=count)
    pauses: bool = field(default=True, validator=flag)
    changes: bool = field(default=True, validator=flag)
    no_ops: bool = field(default=False, validator=flag)
    same_tree: bool = field(default=False, validator=flag)
    adopts: bool = field(default=False, validator=flag)
    mixed: bool = field(default=False, validator=flag)
    scopes: str = field(default="", validator=_scopes)
    stacking: int = field(default=0, validator=count)
    requeues: int = field(default=0, validator=count)
    reruns: int = field(default=0, validator=count)
    resends: int = field(default=0, validator=count)
    terminations: int = field(default=0, validator=count)
    foreign_merges: int = field(default=0, validator=count)
    foreign_resets: int = field(default=0, validator=count)
    recreations: int = field(default=0, validator=count)
    foreign_writes: int = field(default=0, validator=count)
    interrupts: int = field(default=0, validator=count)
    refusals: int = field(default=0, validator=count)
    lateness: int = field(default=0, validator=count)
    late_landings: int = field(default=0, validator=count)
    epochs: int = field(default=0, validator=count)
    twins: int = field(default=0, validator=count)
    bodies: bool = field(default=False, validator=flag)
    read_only: bool = field(default=False, validator=flag)
    collector: bool = field(default=False, validator=flag)
    early_collector: bool = field(default=False, validator=flag)
    data_collector: bool = field(default=False, validator=flag)
    reverts: int = field(default=0, validator=count)

    @property
    def takes_over(self) -> bool:
        """Return whether retries adopt: ``soft`` replaces, whatever a task says."""
        return (self.adopts or bool(self.scopes)) and self.backing is not Backing.SOFT

    @property
    def collects(self) -> bool:
        """Return whether anybody removes anything, rightly or too early."""
        return self.collector or self.early_collector or self.data_collector

    def _adopting(self) -> str:
        return " of which the twins adopt" if self.mixed else " that adopts"

    def bounds(self) -> str:
        """Say what was explored, in one line."""
        bodies = " or ".join(name for name, on in (("changed", self.changes), ("unchanged", self.no_ops)) if on)
        bodies = f"that only read {bodies}" if self.read_only else bodies
        bodies += ", one move at a time" if self.bodies else ""
        rare = "".join(f", {getattr(self, name)} {what}" for name, what in RARE.items() if getattr(self, name))
        collector = ", a collector that is too early" if self.early_collector else ", a collector"
        collector += " of data too" if self.data_collector else ""
        order = "side by side" if self.abreast else "in sequence"
        order += " of which all but the first maintain" if self.maintenance else ""
        order += f" with {self.scopes} scopes" if self.scopes else ""
        order += f" of which {self.stacking} stack" if self.stacking else ""
        started = f"{self.workflows} workflows {order}{'' if self.pinned else ' that go around the pin'}, "
        steps = f"{started if self.workflows > 1 else ''}{self.steps}"
        backing = f"{self.backing.value}{self._adopting() if self.takes_over else ''}"
        return (
            f"{backing}, ledger {'on' if self.ledger else 'off'}: {steps} step(s) of {self.attempts} "
            f"attempt(s), {self.crashes} crash(es), {self.losses} lost answer(s), {self.duplicates} duplicate(s), "
            f"{self.strangers} stranger's commit(s), {'pauses that resume' if self.pauses else 'no pauses'}, "
            f"bodies {bodies}{', equal trees' if self.same_tree else ''}{rare}{collector if self.collects else ''}"
        )


def setting(backing: Backing, **more: object) -> Setting:
    """Make a setting for a backing on a store that offers exactly what the backing needs."""
    given: dict[str, object] = {"store": NEEDS[backing], **more}
    return Setting(backing=backing, **given)  # type: ignore[arg-type]
