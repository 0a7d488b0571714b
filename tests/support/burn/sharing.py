"""Several workflows on one branch of a burn: what each declares, in the simulator's words, and what none may meet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from attrs import frozen

from perago_core.pipelines import PipelineView
from perago_core.results import Classification
from perago_core.values import Backing, Scope, TaskStatus
from perago_simulation.world.capabilities import RELIES_ON
from perago_simulation.world.settings import Setting
from perago_simulation.world.state import scope_of

#: What tells an attempt that the branch has moved under it. With a folder of its own nobody may be told so.
_REFUSALS = frozenset(
    each.value
    for each in (
        Classification.CONFLICT,
        Classification.HEAD_ADVANCED,
        Classification.HEAD_ELSEWHERE,
        Classification.HEAD_NOT_REPLACEABLE,
    )
)


@frozen
class Sharing:
    """``workflows`` side by side, each declaring what a workflow of a simulated world with these ``scopes`` does."""

    workflows: int
    scopes: str = "disjoint"

    def scope(self, number: int) -> Scope:
        """Return what a workflow declares."""
        setting = Setting(
            backing=Backing.CONDITIONAL,
            store=RELIES_ON[Backing.CONDITIONAL],
            workflows=self.workflows,
            scopes=self.scopes,
        )
        found = scope_of(setting, number)
        assert found is not None
        return found

    def folder(self, number: int) -> str:
        """Return the folder that a workflow writes."""
        return self.scope(number).writes[0]

    def tasks(self) -> Mapping[str, Mapping[str, object]]:
        """Name a task for each workflow, with the constants that make it declare its scope."""
        scopes = [self.scope(number) for number in range(self.workflows)]
        return {
            f"shared{number}": {"READS": each.reads, "WRITES": each.writes, "FOLDER": each.writes[0]}
            for number, each in enumerate(scopes)
        }

    def refusals(self, view: PipelineView) -> Iterator[str]:
        """Name the attempts that were refused for the sake of somebody else, whose work is disjoint."""
        if self.scopes != "disjoint":
            return
        for each in view.attempts:
            if each.status is not TaskStatus.COMPLETED and each.reason.partition(":")[0] in _REFUSALS:
                yield f"L-01 {view.workflow_id} {each.step}, attempt {each.number}, was refused: {each.reason}"
