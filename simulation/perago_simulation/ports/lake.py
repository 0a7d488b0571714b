"""What the simulated store holds, and how a test steers requests that are on their way."""

from __future__ import annotations

from collections.abc import Mapping

from perago_core.answers import Answer
from perago_core.plan import PublishPlan
from perago_core.values import Claim, CommitRef, Target
from perago_simulation.ports.objects import Branch, Repository
from perago_simulation.ports.publications import Publication, Publications
from perago_simulation.ports.serving import ByReference, Dispatcher
from perago_simulation.world.capabilities import Capabilities
from perago_simulation.world.store import Store as Judge


class Lake(ByReference):
    """Repositories, claims, and publications on their way."""

    def __init__(self, dispatcher: Dispatcher, able: Capabilities, judge: Judge) -> None:
        super().__init__()
        self.dispatcher = dispatcher
        self.able = able
        self.judge = judge
        self.publications = Publications(able, judge)
        self.repositories: dict[str, Repository] = {}
        self.targets: set[Target] = set()
        self.records: list[Claim] = []
        self.raised: dict[tuple[Target, str], Claim] = {}
        self.delays = 0

    # -----------------------------------------------------------------------------------------------------------------
    # What tests steer: requests on their way

    def delay_publications(self, count: int = 1) -> None:
        """Let the next publications stay on their way until somebody advances them."""
        with self.dispatcher.lock:
            self.delays += count

    def in_flight(self) -> tuple[Publication, ...]:
        """Give the publications that were sent and have not ended."""
        return tuple(self.publications.in_flight)

    def send(self, plan: PublishPlan) -> Publication:
        """Put a publication on its way."""
        with self.dispatcher.lock:
            return self.publications.send(plan)

    def advance(self, publication: Publication) -> Answer[CommitRef] | None:
        """Carry a publication one phase on: ``None`` if it has begun, else how it has ended."""
        with self.dispatcher.lock:
            plan = publication.plan
            repository = self.repositories.get(plan.target.repository, Repository())
            raised = None if plan.claim is None else self.raised.get((plan.target, plan.claim.logical_task))
            return self.publications.advance(publication, repository, raised)

    # -----------------------------------------------------------------------------------------------------------------
    # What is there

    def create(self, target: Target, files: Mapping[str, bytes]) -> CommitRef:
        """Make a branch, and its repository if there is none, at a first commit that holds these files."""
        with self.dispatcher.lock:
            repository = self.repositories.setdefault(target.repository, Repository())
            if target.branch in repository.branches:
                message = f"{target} exists already"
                raise ValueError(message)
            tree = {path: repository.keep(data) for path, data in files.items()}
            ref = repository.commit((), tree, "first").ref
            repository.branches[target.branch] = Branch(ref)
            self.targets.add(target)
            return ref

    def repository(self, name: str) -> Repository | None:
        """Give everything of one repository, to look at."""
        return self.repositories.get(name)

    def no_staging(self, target: Target, name: str) -> str | None:
        """Say why a name cannot be staged to, or nothing: only ``publish`` moves a branch people publish to."""
        if Target(target.repository, name) in self.targets:
            return f"{name} is a branch people publish to, not a staging name"
        repository = self.repositories.get(target.repository)
        if repository is None or name not in repository.branches:
            return f"there is no staging name {name} in {target.repository}; it may have been revoked"
        return None

    def branch(self, target: Target) -> tuple[Repository, Branch] | None:
        """Give a branch with its repository, if it is there."""
        repository = self.repositories.get(target.repository)
        branch = None if repository is None else repository.branches.get(target.branch)
        return None if repository is None or branch is None else (repository, branch)

    def record(self, claim: Claim) -> Claim | None:
        """Give the claim that stands for this claim's attempt."""
        wanted = (claim.target, claim.logical_task, claim.task_id, claim.number)
        standing = [
            each for each in self.records if (each.target, each.logical_task, each.task_id, each.number) == wanted
        ]
        return standing[0] if standing else None
