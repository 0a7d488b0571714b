"""The store on lakeFS joins the suite on a real server of its own for each test: twice, with the hook and without.

A stranger is whoever talks to the server's API past everything of ours.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from secrets import token_hex

from attrs import evolve, frozen

from perago_conformance.harness import Recipe, Stack, StoreHarness, StoreTraits
from perago_core.plan import PlanKind
from perago_core.policy.messages import Capability
from perago_core.ports import Store
from perago_core.values import Backing, CommitRef, Target
from perago_lakefs import Connection, LakeFSStore
from tests.conformance.implementations.embedded import stack_on
from tests.conformance.implementations.files import workspace_on
from tests.conformance.opener import Opener
from tests.support.lakefs.stranger import Stranger
from tests.support.servers.lakefs import LAKEFS, LakeFS
from tests.support.servers.sharing import demand

#: Left out by `make test`, demanded by `make test-servers`.
NEEDS_SERVERS = True

FENCED = StoreTraits(
    backings=frozenset({Backing.SOFT, Backing.CONDITIONAL, Backing.LOCKED}),
    checks_head=frozenset({PlanKind.MERGE}),
    revocable=True,
    raises_claims=False,
    probe=Capability.CONDITIONAL,
    uncommitted=True,
    equal_trees=False,
    holds_runs=True,
)
BARE = evolve(FENCED, backings=frozenset({Backing.SOFT}), checks_head=frozenset(), probe=None, installable=True)


@frozen
class LakeFSHarness:
    stranger: Stranger
    port: LakeFSStore
    traits: StoreTraits

    @property
    def recipe(self) -> Recipe[Store]:
        return partial(LakeFSStore, self.stranger.connection)

    def create(self, target: Target, files: Mapping[str, bytes]) -> CommitRef:
        """Make the branch at one commit on top of the repository's first, which is empty and always there."""
        stranger = self.stranger
        if target.repository not in stranger.repositories():
            stranger.create_repository(target.repository, target.branch, f"local://{token_hex(8)}")
        else:
            stranger.create_branch(target, stranger.first_commit(target.repository))
        if Backing.CONDITIONAL in self.traits.backings:
            stranger.write_hook(target)
        return stranger.commits(target, files)

    def stranger_commits(self, target: Target, files: Mapping[str, bytes | None]) -> CommitRef:
        return self.stranger.commits(target, files)

    def stranger_leaves_uncommitted(self, target: Target) -> None:
        self.stranger.writes(target, "left behind", b"by a stranger")

    def branches(self, repository: str) -> frozenset[str]:
        return self.stranger.branches(repository)

    def read_file(self, repository: str, ref: str, path: str) -> bytes | None:
        return self.stranger.reads(repository, ref, path)


def harness_on(server: LakeFS, traits: StoreTraits = FENCED) -> LakeFSHarness:
    """Give the store on a server that is running."""
    connection = Connection(server.url, server.access_key, server.secret_key)
    return LakeFSHarness(Stranger(connection), LakeFSStore(connection), traits)


@contextmanager
def _opened(folder: Path, traits: StoreTraits) -> Generator[StoreHarness]:
    demand(LAKEFS)
    server = LakeFS(folder=folder / "server")
    server.start()
    try:
        yield harness_on(server, traits)
    finally:
        server.kill()  # it has nothing to lose


def _with(traits: StoreTraits) -> Opener[StoreHarness]:
    def opener(folder: Path) -> AbstractContextManager[StoreHarness]:
        return _opened(folder, traits)

    return opener


@contextmanager
def _stack(folder: Path) -> Generator[Stack]:
    with _opened(folder, FENCED) as store, stack_on(workspace_on(store, folder), folder) as stack:
        yield stack


STORES: Mapping[str, Opener[StoreHarness]] = {"lakefs": _with(FENCED), "lakefs-without-hook": _with(BARE)}
STACKS: Mapping[str, Opener[Stack]] = {"lakefs": _stack}
