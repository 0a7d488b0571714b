"""One repository, attempts at it, and what must be true of it whatever happened to whom."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any, TypeAlias

from attrs import Factory, define, frozen

from perago_conformance.support import attempt_at, done, plan_for
from perago_core.answers import Answer, Done
from perago_core.plan import PublishPlan
from perago_core.values import Attempt, Backing, CommitRef, StagedRef, Target, claim_of
from perago_local.git.store import GitStore
from tests.conformance.implementations.git import GitHarness, git

FILES = {"data/a.txt": b"alpha", "data/b.txt": b"beta", "keep.txt": b"keep"}
Call: TypeAlias = Callable[[], Answer[Any]]
#: Short, so that nobody waits long for a stopped writer; far longer than any step takes.
PATIENCE = 0.1


@define
class GitWorld:
    """A root with repository ``lake``, and one branch for each case."""

    root: Path
    harness: GitHarness = Factory(lambda self: GitHarness(self.root, GitStore(self.root, PATIENCE)), takes_self=True)
    cases: int = 0

    @property
    def store(self) -> GitStore:
        return self.harness.port

    @property
    def folder(self) -> Path:
        return self.root / "lake.git"

    def case(self) -> Case:
        """Make a branch nobody has used."""
        self.cases += 1
        target = Target("lake", f"case-{self.cases}")
        return Case(self, target, self.harness.create(target, FILES))

    def check_rest(self) -> None:
        """Git finds nothing wrong, and nobody left a lock, a ticket or a list behind."""
        git(self.folder, "fsck", "--strict", "--no-dangling")
        self.check_locks()

    def check_locks(self) -> None:
        """Nobody left a lock, a ticket or a list behind."""
        left = list((self.folder / "refs").rglob("*.lock"))
        left += self.folder.glob("*.lock")
        left += (self.folder / "perago" / "open").iterdir()
        assert left == []


@frozen
class Case:
    """A branch at its first commit."""

    world: GitWorld
    target: Target
    first: CommitRef

    def attempt(self, number: int) -> Attempt:
        task = f"wf/{self.target.branch}"
        return attempt_at(self.first, number=number, backing=Backing.ATOMIC, task=task, target=self.target)

    def stage(self, attempt: Attempt, data: bytes | None = None) -> StagedRef:
        store, name = self.world.store, attempt.staging_name
        done(store.open_staging(self.target, name, self.first))
        link(store, attempt, data)
        staged = done(store.commit(self.target, name, "staged"))
        assert staged is not None
        return staged

    def plan(self, attempt: Attempt, staged: StagedRef | None) -> PublishPlan:
        return plan_for(self.world.harness, attempt, staged)

    def publish(self, number: int, data: bytes | None = None) -> CommitRef:
        """Do all that an attempt does, up to its clean-up, every older attempt being dead."""
        store, attempt = self.world.store, self.attempt(number)
        staged = self.stage(attempt, data)
        assert done(store.claim(claim_of(attempt, staged))).execution == attempt.execution
        published = done(store.publish(self.plan(attempt, staged)))
        done(store.drop(self.target, attempt.staging_name))
        return published

    def history(self) -> list[CommitRef]:
        return [commit.ref for commit in done(self.world.store.history(self.target))]


def link(store: GitStore, attempt: Attempt, data: bytes | None = None) -> Answer[None]:
    """Put and link one changed file."""
    sink = store.sink(attempt.target, attempt.staging_name)
    stored = sink.put("data/a.txt", BytesIO(attempt.execution.encode() if data is None else data))
    return sink.link((stored.value,)) if isinstance(stored, Done) else stored


def _opening(case: Case) -> Call:
    return partial(case.world.store.open_staging, case.target, case.attempt(1).staging_name, case.first)


def _linking(case: Case) -> Call:
    done(_opening(case)())
    return partial(link, case.world.store, case.attempt(1))


def _committing(case: Case) -> Call:
    done(_linking(case)())
    return partial(case.world.store.commit, case.target, case.attempt(1).staging_name, "staged")


def _claiming(case: Case) -> Call:
    attempt = case.attempt(1)
    return partial(case.world.store.claim, claim_of(attempt, case.stage(attempt)))


def _publishing(case: Case) -> Call:
    attempt = case.attempt(1)
    staged = case.stage(attempt)
    done(case.world.store.claim(claim_of(attempt, staged)))
    return partial(case.world.store.publish, case.plan(attempt, staged))


def _dropping(case: Case) -> Call:
    attempt = case.attempt(1)
    case.stage(attempt)
    git(case.world.folder, "pack-refs", "--all")
    return partial(case.world.store.drop, case.target, attempt.staging_name)


#: Each call that changes something: given a case, it does what must come before and gives the call itself.
ACTIONS: Mapping[str, Callable[[Case], Call]] = {
    "open": _opening,
    "link": _linking,
    "commit": _committing,
    "claim": _claiming,
    "publish": _publishing,
    "drop": _dropping,
}
