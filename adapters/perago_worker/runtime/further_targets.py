"""The targets of a task beside the one of its run: checked when a worker starts, pinned when an attempt begins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import field, frozen

from perago_core.answers import Done
from perago_core.driver import Ports, run
from perago_core.names import run_of
from perago_core.ports import SeveralTargets, Store
from perago_core.recovery import Mode, sweep
from perago_core.revocation import pin
from perago_core.values import Backing, Beside, Target
from perago_worker.api.errors import UserError
from perago_worker.api.task import TaskDefinition


@frozen
class FurtherTargets:
    """What the names mean by which tasks declare further targets."""

    named: Mapping[str, Target] = field(factory=dict[str, Target])

    def check(self, tasks: Iterable[TaskDefinition], first: Iterable[Target], store: Store, backing: Backing) -> None:
        """Refuse to start with tasks that could never publish: ``UserError`` says why not."""
        able: object = store
        for task in tasks:
            names = () if task.workspace is None else task.workspace.targets
            if not names:
                continue
            missing = next((name for name in names if name not in self.named), None)
            if missing is not None:
                raise UserError(
                    f"task {task.name!r} publishes to {missing!r}, which [targets] of perago.toml does not name; add "
                    f'{missing} = "repository/branch" there'
                )
            if backing is not Backing.ATOMIC or not isinstance(able, SeveralTargets):
                raise UserError(
                    f"task {task.name!r} publishes to several targets, which needs a store that moves several branches "
                    f"in one step; found {type(store).__name__} under the policy {backing.value!r}. Use the local "
                    "store or a bucket, with a policy that finds it 'atomic', or give each target a task of its own"
                )
            for each in first:
                answer = able.moves_together((each, *(self.named[name] for name in names)))
                if not isinstance(answer, Done):
                    raise UserError(f"task {task.name!r} publishes to several targets: {answer.reason}")

    def pinned(
        self, names: tuple[str, ...], first: Target, workflow_id: str, ports: Ports, *, ledger: bool
    ) -> tuple[Beside, ...] | str:
        """Return each target with its head once nothing of the past can move it, or say what is wrong with one.

        A head that another run has left, and nobody accepted, is nothing to build on; one of the own run is adopted.
        """
        if run_of(first.branch) is not None:
            return (
                "expected a pipeline whose steps are seen at once, found one with isolation = 'run': its further "
                f"targets {', '.join(names)} would show what the run has not come to show. Set isolation = 'step'"
            )
        found: list[Beside] = []
        for name in names:
            target = self.named[name]
            if target == first:
                return f"expected further targets, found that [targets] {name} is {first}, which the run publishes to"
            swept = run(sweep(target, Mode.SETTLE_ONLY, "pinning"), ports) if ledger else None
            left = swept.value.unaccepted if isinstance(swept, Done) else ()
            others = [each for each in left if each.intent is None or each.intent.workflow_id != workflow_id]
            if others:
                return f"{target} is at a commit nobody accepted: {others[0].next_action}"
            head = run(pin(target), ports)
            if not isinstance(head, Done) or head.value is None:
                why = "there is no such branch" if isinstance(head, Done) else head.reason
                return f"expected to see the head of {target}: {why}. Create it, or correct [targets] {name}"
            found.append(Beside(target, head.value.commit.ref))
        return tuple(found)
