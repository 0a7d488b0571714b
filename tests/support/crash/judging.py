"""What must be true at rest, judged from outside: by the store, the orchestrator's answers, the ledger's records.

Each sentence begins with the identifier of the promise that is broken.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from attrs import frozen

from perago_core.answers import NotDone
from perago_core.driver import run
from perago_core.ledger.records import Audit, Settlement, SettlementKind, decode
from perago_core.pipelines import AttemptView, PipelineView
from perago_core.recovery import Mode, sweep
from perago_core.values import CommitRef, Target, TaskStatus
from perago_worker.folders.owned import MARKER
from perago_worker.ops.gc import collect
from tests.support.crash.project import LIMIT, REPOSITORY, CrashProject, done


@frozen
class Line:
    """One workflow on a branch of its own: where it began, what strangers put there, whether it can complete."""

    target: Target
    first: CommitRef
    workflow: str
    strangers: tuple[CommitRef, ...] = ()
    completes: bool = True


def judge_line(project: CrashProject, line: Line) -> list[str]:
    """Judge one branch and its workflow."""
    view = project.view(line.workflow)
    accepted = [each for each in view.attempts if each.status is TaskStatus.COMPLETED]
    broken = [] if view.succeeded is line.completes else [f"L-01 {line.workflow} is {view.status}: {view.reason}"]
    steps = [each.step for each in accepted]
    if len(set(steps)) != len(steps):
        broken.append(f"S-05 a step was accepted more than once: {steps}")
    return broken + _judge_history(project, line, accepted) + judge_outputs(project, view)


def _judge_history(project: CrashProject, line: Line, accepted: list[AttemptView]) -> list[str]:
    """The branch is what was accepted, in that order, on what was there: nothing lost, nothing between, linear."""
    expected = [line.first, *line.strangers]
    expected += [CommitRef(each.ref) for each in accepted if each.ref is not None and each.ref not in expected]
    history = done(project.store.history(line.target, limit=10_000))
    found = [commit.ref for commit in reversed(history)]
    found = found[found.index(line.first) :] if line.first in found else found  # the branch may be older than the line
    broken = [f"S-01 accepted {ref} is not on {line.target}" for ref in expected if ref not in found]
    if any(len(commit.parents) > 1 for commit in history):
        broken.append(f"S-04 {line.target} has a commit with two parents")
    extra = [ref for ref in found if ref not in expected]
    if extra and found[-1] in extra:
        broken.append(f"S-02b the head of {line.target} was never accepted: {extra}")
    elif extra:
        broken.append(f"S-03 {line.target} holds what was never accepted: {extra}")
    if not broken and found != expected:
        broken.append(f"S-03 {line.target} is out of order: {found}, not {expected}")
    return broken


def judge_outputs(
    project: CrashProject,
    view: PipelineView,
    file: str = "token",
    holding: Callable[[CrashProject, CommitRef], str] | None = None,
) -> list[str]:
    """An accepted result says what the commit it names holds (S-06): a file, or what ``holding`` finds there."""
    broken: list[str] = []
    for each in view.attempts:
        if each.status is not TaskStatus.COMPLETED:
            continue
        said = view.output[each.step]["result"].get("token")
        ref = CommitRef(each.ref or "")
        holds = text_at(project, ref, file) if holding is None else holding(project, ref)
        if said != holds:
            broken.append(f"S-06 {each.step} reported {said!r}, and its commit holds {holds!r}")
    return broken


def text_at(project: CrashProject, ref: CommitRef, path: str) -> str | None:
    """Return what a file holds in a commit; ``None``: there is no such file."""
    found = project.store.read(REPOSITORY, ref).get(path)
    if isinstance(found, NotDone):
        return None
    with done(found) as file:
        return file.read().decode()


def judge_rest(project: CrashProject, lines: Iterable[Line]) -> list[str]:
    """Settle and collect as ``perago recover --settle`` and ``perago gc`` do; then nothing may be left of anybody."""
    lines = tuple(lines)
    broken = settle(project, lines)
    collected = collect(project.stack, project.pipelines, lines[0].target, older_than=0.0)
    left = [f"{sentence}; gc said {collected}" for sentence in judge_leftovers(project)]
    ledger = judge_ledger(project, executions_accepted(project, lines))
    return broken + ledger + left + project.judge_store() + judge_processes(project)


def settle(project: CrashProject, lines: Iterable[Line]) -> list[str]:
    """Settle what is open on every branch; what stays open is a broken promise."""
    broken: list[str] = []
    for target in dict.fromkeys(line.target for line in lines):
        swept = done(run(sweep(target, Mode.SETTLE_ONLY, "judge"), project.stack.ports()))
        broken += [
            f"S-21 {each.operation_id} stays open: {each.reason}" for each in swept.outcomes if each.audit is None
        ]
    return broken


def executions_accepted(project: CrashProject, lines: Iterable[Line]) -> set[str | None]:
    """Return the executions whose results the orchestrator has taken."""
    accepted = set[str | None]()
    for line in lines:
        for each in project.view(line.workflow).attempts:
            snapshot = done(project.stack.orchestrator.reload(line.workflow, each.task_id))
            if snapshot is not None and snapshot.status is TaskStatus.COMPLETED:
                accepted.add(snapshot.result_execution)
    return accepted


def judge_ledger(project: CrashProject, accepted: Collection[str | None]) -> list[str]:
    """One audit record for each operation, of the kind it was settled as; accepted is what the authority accepted."""
    store = project.stack.coordination
    assert store is not None
    broken = [f"S-21 left: {entry.key}" for prefix in ("open/", "intent/") for entry in done(store.list(prefix))]
    audits = {entry.key.partition("/")[2]: decode(Audit, entry) for entry in done(store.list("audit/"))}
    settled = {entry.key.partition("/")[2]: decode(Settlement, entry) for entry in done(store.list("settled/"))}
    if audits.keys() != settled.keys():
        broken.append(f"S-21 settled and audited differ: {sorted(audits.keys() ^ settled.keys())}")
    for key, audit in audits.items():
        settlement = settled.get(key)
        if not isinstance(audit, Audit) or not isinstance(settlement, Settlement):
            broken.append(f"S-21 the records of {key} cannot be read: {audit}, {settlement}")
        elif audit.kind is SettlementKind.ACCEPTED_LOST:
            broken.append(f"S-01 {key} is audited as accepted and lost")
        elif audit.kind is not settlement.kind or audit.kind.accepts is not (audit.execution in accepted):
            broken.append(f"S-19 {key} is audited as {audit.kind.value}, settled as {settlement.kind.value}")
    return broken


def judge_leftovers(project: CrashProject) -> list[str]:
    """No staging name, no claim, no directory (S-33)."""
    names = project.staging_names()
    work = project.folder / ".perago" / "work"
    # The processes of Spark bodies have a folder of their own, for their scratch folders.
    rooms = sorted(path.name for path in (*work.iterdir(), *work.glob("spark/*")) if path.name not in {MARKER, "spark"})
    claims = done(project.store.all_claims(REPOSITORY))
    found = (("staging names", names), ("rooms", rooms), ("claims", claims))
    return [f"S-33 {what} are left: {left}" for what, left in found if left]


def judge_processes(project: CrashProject) -> list[str]:
    """Templates, guards and bodies of dead workers end too; each has the project's folder on its command line."""
    until = time.monotonic() + LIMIT
    while left := [path.parent.name for path in Path("/proc").glob("[0-9]*/cmdline") if _names(path, project.folder)]:
        if time.monotonic() > until:
            return [f"N-13 processes are left: {left}"]
        time.sleep(0.1)
    return []


def _names(cmdline: Path, folder: Path) -> bool:
    try:
        return str(folder).encode() in cmdline.read_bytes()
    except OSError:  # it has ended
        return False
