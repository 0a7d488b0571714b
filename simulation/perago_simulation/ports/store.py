"""The simulated store: real contents, claims, staging names, and publications that take two steps.

What it can do is a set of capabilities, the same the explorer knows. Everything it does not have it does as blindly as
a store without it would. Its sinks and sources are picklable within their process.
"""

from __future__ import annotations

from io import BytesIO
from typing import BinaryIO, ClassVar

from attrs import frozen

from perago_core.answers import Answer, Done, NotDone, Unknown
from perago_core.landed import above, landed
from perago_core.names import EVERY, is_staging_name
from perago_core.plan import PublishPlan
from perago_core.policy.messages import Capability
from perago_core.ports import Stored
from perago_core.values import Claim, Commit, CommitRef, Head, Landed, StagedRef, Target
from perago_simulation.ports.lake import Branch, Lake, Repository, Tree, differences, objection
from perago_simulation.ports.serving import Dispatcher, served


def _listed(repository: Repository, tree: Tree, prefix: str) -> tuple[Stored, ...]:
    return tuple(
        Stored(path, tree[path], tree[path], len(repository.blobs[tree[path]]))
        for path in sorted(tree)
        if path.startswith(prefix)
    )


@frozen
class SimulatedSink:
    """The writer of one staging name."""

    store: Lake
    target: Target
    name: str

    def put(self, path: str, data: BinaryIO) -> Answer[Stored]:
        """Store bytes; the staging branch does not show them before they are linked."""
        wrong = objection(path)
        if wrong is not None:
            return NotDone(wrong)
        content = data.read()
        with self.store.dispatcher.lock:
            repository = self.store.repository(self.target.repository)
            if repository is None:
                return NotDone(f"there is no repository {self.target.repository}")
            address = repository.keep(content)
        return Done(Stored(path, address, address, len(content)))

    def link(self, stored: tuple[Stored, ...], deleted: tuple[str, ...] = ()) -> Answer[None]:
        """Make stored bytes visible on the staging branch, all or nothing."""
        with self.store.dispatcher.lock:
            repository = self.store.repository(self.target.repository)
            wrong = self.store.no_staging(self.target, self.name) or _not_linkable(repository, stored)
            if wrong is not None or repository is None:
                return NotDone(wrong or "no repository")
            uncommitted = repository.branches[self.name].uncommitted
            uncommitted.update({each.path: each.address for each in stored})
            uncommitted.update(dict.fromkeys(deleted))
            return Done(None, operations=len(stored) + len(deleted))

    def list(self, prefix: str = "") -> Answer[tuple[Stored, ...]]:
        """List what the staging branch shows."""
        with self.store.dispatcher.lock:
            repository = self.store.repository(self.target.repository)
            if repository is None or self.name not in repository.branches:
                return NotDone(f"there is no {self.name} in {self.target.repository}")
            return Done(_listed(repository, repository.shown(self.name), prefix))

    def seal(self, path: str, manifest: bytes) -> Answer[None]:
        """Write a manifest; its name begins with ``_``, which readers of data skip."""
        if not path.rpartition("/")[2].startswith("_"):
            return NotDone(f"{path!r} would be read as data: a manifest's name begins with '_'")
        stored = self.put(path, BytesIO(manifest))
        return self.link((stored.value,)) if isinstance(stored, Done) else stored


def _not_linkable(repository: Repository | None, stored: tuple[Stored, ...]) -> str | None:
    for each in stored:
        wrong = objection(each.path)
        if wrong is not None:
            return wrong
        if repository is None or each.address not in repository.blobs:
            return f"nothing is stored at {each.address}: put {each.path!r} first"
    return None


@frozen
class SimulatedSource:
    """The reader of one commit."""

    store: Lake
    repository: str
    ref: CommitRef

    def list(self, prefix: str = "") -> Answer[tuple[Stored, ...]]:
        """List the objects of the commit."""
        with self.store.dispatcher.lock:
            repository = self.store.repository(self.repository)
            if repository is None or self.ref not in repository.commits:
                return NotDone(f"there is no commit {self.ref} in {self.repository}")
            return Done(_listed(repository, repository.tree(self.ref), prefix))

    def get(self, path: str) -> Answer[BinaryIO]:
        """Open one object of the commit."""
        listed = self.list(path)
        if not isinstance(listed, Done):
            return listed
        found = [each.address for each in listed.value if each.path == path]
        repository = self.store.repository(self.repository)
        if not found or repository is None:
            return NotDone(f"there is no {path!r} in commit {self.ref}")
        return Done(BytesIO(repository.blobs[found[0]]))


class SimulatedStore(Lake):
    """The ``Store`` port over memory."""

    PORT: ClassVar[str] = "store"

    # -----------------------------------------------------------------------------------------------------------------
    # The port: reading

    @served
    def head(self, target: Target) -> Answer[Head | None]:
        """Read the tip of the target."""
        found = self.branch(target)
        if found is None:
            return Done(None)
        repository, branch = found
        return Done(Head(repository.commits[branch.at], dirty=bool(branch.uncommitted)))

    @served
    def look(self, repository: str, ref: CommitRef) -> Answer[Commit | None]:
        """Read one commit."""
        found = self.repositories.get(repository)
        return Done(None if found is None else found.commits.get(ref))

    @served
    def since(
        self, repository: str, base: CommitRef, head: CommitRef, prefixes: tuple[str, ...]
    ) -> Answer[tuple[Landed, ...] | None]:
        """List what lies above a commit up to a head, each with paths under the prefixes that differ."""
        found = self.repositories.get(repository)
        if found is None or head not in found.commits:
            return NotDone(f"there is no commit {head} in {repository}")
        commits = above(base, head, found.commits.__getitem__)

        def differing(one: CommitRef, other: CommitRef) -> list[str]:
            changes = differences(found.tree(one), found.tree(other))
            return [path for path in changes if path.startswith(prefixes)]

        return Done(None if commits is None else landed(commits, base, differing))

    def read(self, repository: str, ref: CommitRef) -> SimulatedSource:
        """Return the reader of a commit."""
        return SimulatedSource(self, repository, ref)

    # -----------------------------------------------------------------------------------------------------------------
    # The port: staging

    def sink(self, target: Target, name: str) -> SimulatedSink:
        """Return the writer of a staging name."""
        return SimulatedSink(self, target, name)

    @served
    def open_staging(self, target: Target, name: str, at: CommitRef) -> Answer[None]:
        """Create the staging name at a commit."""
        repository = self.repositories.get(target.repository)
        if repository is None or at not in repository.commits:
            return NotDone(f"there is no commit {at} in {target.repository}")
        if name in repository.branches:
            return NotDone(f"{name} exists already")
        repository.branches[name] = Branch(at)
        return Done(None)

    @served
    def commit(self, target: Target, name: str, message: str) -> Answer[StagedRef | None]:
        """Commit what was linked."""
        wrong = self.no_staging(target, name)
        if wrong is not None:
            return NotDone(wrong)
        repository = self.repositories[target.repository]
        branch = repository.branches[name]
        before, after = repository.tree(branch.at), repository.shown(name)
        branch.uncommitted.clear()
        if after == before:
            return Done(None)
        made = repository.commit((branch.at,), after, message)
        branch.at = made.ref
        return Done(StagedRef(target.repository, name, made.ref, made.tree))

    @served
    def revert(self, target: Target, name: str, message: str) -> Answer[StagedRef | None]:
        """Commit the content before the commit that the name stands at."""
        wrong = self.no_staging(target, name)
        if wrong is not None:
            return NotDone(wrong)
        repository = self.repositories[target.repository]
        branch = repository.branches[name]
        parents = repository.commits[branch.at].parents
        if not parents:
            return NotDone(f"{branch.at} is the first commit: there is nothing before it")
        before = repository.tree(parents[0])
        if before == repository.tree(branch.at):
            return Done(None)
        made = repository.commit((branch.at,), before, message)
        branch.at = made.ref
        return Done(StagedRef(target.repository, name, made.ref, made.tree))

    @served
    def drop(self, target: Target, name: str) -> Answer[None]:
        """Delete a staging name."""
        if Target(target.repository, name) in self.targets:
            return NotDone(f"{name} is a branch people publish to, not a staging name")
        repository = self.repositories.get(target.repository)
        if repository is not None:
            repository.branches.pop(name, None)
        return Done(None)

    # -----------------------------------------------------------------------------------------------------------------
    # The port: claims, revocation, publication

    @served
    def claim(self, claim: Claim) -> Answer[Claim]:
        """Create the attempt's claim if absent; where the store knows claims, only above the one that stands."""
        if not self.able.claim:
            return NotDone("this store cannot create a record if there is none: only `soft` runs on it")
        record = self.record(claim)
        if record is not None:
            return Done(record)
        if self.able.conditional_claim:
            key = (claim.target, claim.logical_task)
            standing = self.raised.get(key)
            if standing is not None and standing.rank >= claim.rank:
                return Done(standing)
            # The claim is part of what an update is conditioned on, so raising it makes begun updates start again.
            self.raised[key] = claim
            self.publications.restart(claim.target)
        self.records.append(claim)
        return Done(claim)

    @served
    def read_claim(self, claim: Claim) -> Answer[Claim | None]:
        """Read the claim that stands for this claim's attempt."""
        return Done(self.record(claim))

    @served
    def claims(self, target: Target, logical_task: str) -> Answer[tuple[Claim, ...]]:
        """List the claims of one logical task."""
        return Done(tuple(each for each in self.records if (each.target, each.logical_task) == (target, logical_task)))

    @served
    def staging_names(self, repository: str, prefix: str = EVERY) -> Answer[tuple[str, ...]]:
        """List the staging names that exist and begin with this."""
        branches = self.repositories.get(repository, Repository()).branches
        return Done(tuple(sorted(name for name in branches if name.startswith(prefix) and is_staging_name(name))))

    @served
    def barrier(self, target: Target) -> Answer[None]:
        """Let what was begun begin again, where the store has such a call; elsewhere it is an empty gesture."""
        found = self.branch(target)
        if found is None or found[1].uncommitted:
            why = "is missing" if found is None else "has uncommitted objects"
            return NotDone(f"{target} {why}: no barrier can be passed")
        if self.able.barrier:
            self.publications.restart(target)
        return Done(None)

    @served
    def publish(self, plan: PublishPlan) -> Answer[CommitRef]:
        """Move the target as planned; a delayed request stays on its way, and its sender stops waiting."""
        if plan.along:
            return NotDone("this store moves one branch at a time")
        publication = self.send(plan)
        if self.delays:
            self.delays -= 1
            return Unknown("no answer in time; the request is on its way")
        answer = self.advance(publication)
        while answer is None:
            answer = self.advance(publication)
        return answer

    @served
    def probe(self) -> Answer[Capability]:
        """Try out, on a store of the same kind, what it refuses and what it does not."""
        from perago_simulation.ports.probing import found_out  # noqa: PLC0415  the probe runs on stores like this one

        return found_out(SimulatedStore(Dispatcher(), self.able, self.judge))
