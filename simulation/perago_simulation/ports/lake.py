"""What the simulated store holds: bytes, trees of paths, commits, branches, claims, and publications on their way.

Ids are digests of what they name, and a commit's also of its place in the order of commits: two merges of the same
content are two commits, as they are in a real store, and a run repeated gives the same ids.

A publication is begun, then installed, or begun again; a test steers it while it is on its way. It is judged by the
very ``Store`` the explorer judges it by: its moment is shown to it as an explored world. So whoever describes the
semantics of another store once can explore it and run on it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TypeAlias

from attrs import Factory, define

from perago_core.answers import Answer, Done, NotDone
from perago_core.names import over_message
from perago_core.plan import PlanKind, PublishPlan
from perago_core.values import Backing, Claim, Commit, CommitRef, Target
from perago_simulation.ports.serving import ByReference, Dispatcher
from perago_simulation.world.capabilities import Capabilities
from perago_simulation.world.model import Model
from perago_simulation.world.settings import Setting
from perago_simulation.world.state import CLEAN, DIRTY, MISSING, NOBODY, Request
from perago_simulation.world.store import Store as Judge

#: Each path with the address of its bytes.
Tree: TypeAlias = Mapping[str, str]
#: Each changed path with the address of its new bytes; ``None`` removes it.
Changes: TypeAlias = Mapping[str, str | None]

#: Longer paths are refused, as they are by the stores this one stands for.
LONGEST = 1024


def objection(path: str) -> str | None:
    """Say why a path must not be used as a key, or nothing: it must stay inside wherever it is written to."""
    parts = path.removesuffix("/").split("/")
    if any(part in {"", ".", ".."} for part in parts):
        return f"{path!r} is not a plain relative path: no empty part, no '.', no '..', no leading '/'"
    if "\0" in path or "\\" in path:
        return f"{path!r} has a NUL or a backslash in it: use '/' between the parts"
    try:
        size = len(path.encode())
    except UnicodeEncodeError:
        return f"{path!r} is not text: it cannot be written as UTF-8"
    return f"a path of {size} bytes is too long: at most {LONGEST}" if size > LONGEST else None


def changed(tree: Tree, changes: Changes) -> Tree:
    """Return the tree with the changes made."""
    after = {**tree, **{path: address for path, address in changes.items() if address is not None}}
    return {path: address for path, address in after.items() if changes.get(path, address) is not None}


def differences(before: Tree, after: Tree) -> Changes:
    """Return the changes that make one tree of the other."""
    paths = {**before, **after}
    return {path: after.get(path) for path in paths if before.get(path) != after.get(path)}


@define
class Branch:
    """A name for a commit, with what was written to it and not committed."""

    at: CommitRef
    uncommitted: dict[str, str | None] = Factory(dict[str, str | None])


@define
class Repository:
    """Everything of one repository."""

    blobs: dict[str, bytes] = Factory(dict[str, bytes])
    trees: dict[str, Tree] = Factory(dict[str, Tree])
    commits: dict[CommitRef, Commit] = Factory(dict[CommitRef, Commit])
    branches: dict[str, Branch] = Factory(dict[str, Branch])

    def keep(self, data: bytes) -> str:
        """Store bytes and give their address."""
        address = hashlib.sha256(data).hexdigest()
        self.blobs[address] = data
        return address

    def commit(self, parents: tuple[CommitRef, ...], tree: Tree, message: str) -> Commit:
        """Make a commit."""
        tree_id = _digest(*(f"{path}\0{tree[path]}" for path in sorted(tree)))
        ref = CommitRef(_digest(str(len(self.commits)), *parents, tree_id, message))
        self.trees[tree_id] = tree
        self.commits[ref] = Commit(ref, parents, tree_id, message)
        return self.commits[ref]

    def tree(self, ref: CommitRef) -> Tree:
        """Return the tree of a commit."""
        return self.trees[self.commits[ref].tree]

    def shown(self, name: str) -> Tree:
        """Return what a branch shows: its commit, and on top of it what is not committed."""
        branch = self.branches[name]
        return changed(self.tree(branch.at), branch.uncommitted)

    def merged(
        self, source: CommitRef, onto: CommitRef, *, joins: bool = False, over: tuple[CommitRef, ...] = ()
    ) -> CommitRef:
        """Make the merge of one commit onto another: what the source changed since its parent, as one new commit.

        ``joins``: the source is its second parent. ``over``: what it says it stands above.

        Where both have changed a path the source wins, silently: a store that blends is the worst case, and the one
        that is explored. What joins is refused there (``is_disputed``), as by every store that lets branches be shared.
        """
        base = self.tree(self.commits[source].parents[0])
        tree = changed(self.tree(onto), differences(base, self.tree(source)))
        parents = (onto, source) if joins else (onto,)
        return self.commit(parents, tree, over_message(self.commits[source].message, over)).ref

    def is_disputed(self, source: CommitRef, onto: CommitRef) -> bool:
        """Return whether both have changed a path since the source's parent, each in its own way."""
        base = self.tree(self.commits[source].parents[0])
        ours, theirs = (differences(base, self.tree(each)) for each in (onto, source))
        return any(ours[path] != theirs[path] for path in ours.keys() & theirs.keys())


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:20]


# ---------------------------------------------------------------------------------------------------------------------
# Publications


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
        to = repository.merged(plan.commit, branch.at, joins=plan.joins, over=plan.over) if merge else plan.commit
        branch.at = to
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
        if refusal is None and plan.joins and branch is not None and repository.is_disputed(plan.commit, branch.at):
            refusal = "somebody changed the same objects meanwhile"
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
        """Return the publications that were sent and have not ended."""
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
        """Return everything of one repository, to look at."""
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
        """Return a branch with its repository, if it is there."""
        repository = self.repositories.get(target.repository)
        branch = None if repository is None else repository.branches.get(target.branch)
        return None if repository is None or branch is None else (repository, branch)

    def record(self, claim: Claim) -> Claim | None:
        """Return the claim that stands for this claim's attempt."""
        wanted = (claim.target, claim.logical_task, claim.task_id, claim.rank)
        standing = [
            each for each in self.records if (each.target, each.logical_task, each.task_id, each.rank) == wanted
        ]
        return standing[0] if standing else None
