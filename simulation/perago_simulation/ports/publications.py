"""Publications on their way through the simulated store: begun, then installed, or begun again.

Judged by the very ``Store`` the explorer judges them by: the moment of a publication is shown to it as an explored
world. So whoever describes the semantics of another store once can explore it and run on it.
"""

from __future__ import annotations

from attrs import define

from perago_core.answers import Answer, Done, NotDone
from perago_core.plan import PlanKind, PublishPlan
from perago_core.values import Backing, Claim, CommitRef, Target
from perago_simulation.ports.objects import Branch, Repository
from perago_simulation.world.capabilities import Capabilities
from perago_simulation.world.model import Model
from perago_simulation.world.settings import Setting
from perago_simulation.world.state import CLEAN, DIRTY, MISSING, NOBODY, Request
from perago_simulation.world.store import Store as Judge


@define(eq=False)
class Publication:
    """One request: its plan, and whether the store has looked everything up and is about to install."""

    plan: PublishPlan
    begun: bool = False


class Publications:
    """The requests that have been sent and have not ended."""

    def __init__(self, able: Capabilities, judge: Judge) -> None:
        self.in_flight: list[Publication] = []
        self._judge = judge
        # Which backing is explored makes no difference to a store; a budget for strangers makes room for their traces.
        self._setting = Setting(backing=Backing.SOFT, store=able, foreign_writes=1)
        _, self._moment = next(iter(Model(self._setting).beginnings()))
        assert self._moment.rare is not None
        self._rare = self._moment.rare

    def send(self, plan: PublishPlan) -> Publication:
        """Put a request on its way."""
        publication = Publication(plan)
        self.in_flight.append(publication)
        return publication

    def restart(self, target: Target) -> None:
        """Let every update of this target that was begun begin again: what it was computed from has changed."""
        for publication in self.in_flight:
            if publication.plan.target == target:
                publication.begun = False

    def advance(
        self, publication: Publication, repository: Repository, raised: Claim | None
    ) -> Answer[CommitRef] | None:
        """Carry a request one phase on; ``None`` says that it has begun and is not installed."""
        plan = publication.plan
        branch = repository.branches.get(plan.target.branch)
        if publication.begun and branch is not None:
            self.in_flight.remove(publication)
            return Done(self._install(plan, repository, branch))
        refusal = self._refusal(plan, repository, branch, raised)
        if refusal is None:
            publication.begun = True
            return None
        self.in_flight.remove(publication)
        return NotDone(refusal)

    def _install(self, plan: PublishPlan, repository: Repository, branch: Branch) -> CommitRef:
        merge = plan.kind is PlanKind.MERGE
        branch.at = repository.merged(plan.commit, branch.at) if merge else plan.commit
        self.restart(plan.target)
        return branch.at

    def _refusal(
        self, plan: PublishPlan, repository: Repository, branch: Branch | None, raised: Claim | None
    ) -> str | None:
        if plan.commit not in repository.commits:
            return f"there is no commit {plan.commit} in {plan.target.repository}"
        named = plan.name is not None and plan.name in repository.branches
        moment = self._moment._replace(
            head="" if branch is None else branch.at,
            names=((0, plan.commit),) if named else (),
            raised=(0 if plan.claim is not None and raised == plan.claim else NOBODY,),
            rare=self._rare._replace(branch=_state(branch)),
        )
        refusal = self._judge.refusal(self._setting, moment, Request(0, plan))
        if refusal is None:
            return None
        found = "no branch" if branch is None else f"head {branch.at}"
        return (
            f"{refusal}: expected head {plan.expected} of {plan.target}, by {plan.name or plan.commit}; found {found}"
        )


def _state(branch: Branch | None) -> str:
    if branch is None:
        return MISSING
    return DIRTY if branch.uncommitted else CLEAN
