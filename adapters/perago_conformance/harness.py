"""What a suite needs of an implementation beyond its port: a way to make things, and to look past it.

A fixture returns a harness over a system with nothing in it, new for every test. Every test runs on every
implementation. Skipped is one thing that no port asks for, the history of a branch, where a store does not list it.
Where implementations may differ, the harness says which of the two the test must see, so a claim that is wrong fails
in either direction.

Time is the harness's clock. One over real time really sleeps, so it offers short time-outs; one over simulated time
advances.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias, TypeVar

from attrs import frozen

from perago_core.plan import PlanKind
from perago_core.policy.messages import Capability
from perago_core.ports import Clock, Coordination, Orchestrator, Store, Workspace
from perago_core.values import Attempt, Backing, CommitRef, Target

P = TypeVar("P")
#: Opens the same system again in another process. Picklable. ``None``: the system lives in this process only.
Recipe: TypeAlias = Callable[[], P]


@frozen
class StoreTraits:
    """What a store claims to be able to do.

    ``backings``: the backings an attempt may run under on it. ``checks_head``: the movements whose expected head it
    checks in the update itself. ``revocable``: a plan that names a deleted staging name is refused. ``raises_claims``:
    a task's claim is only ever raised, and a plan that carries a claim is refused unless that claim stands.
    ``probe``: what ``probe`` must find; ``None``: proved unable, or unknown where what is missing is ``installable``.
    ``uncommitted``: a branch can carry uncommitted objects. ``equal_trees``: equal content has an equal tree id,
    whoever staged it. ``holds_runs``: it makes, lists and removes the branches of runs.
    """

    backings: frozenset[Backing]
    checks_head: frozenset[PlanKind]
    revocable: bool
    raises_claims: bool
    probe: Capability | None
    uncommitted: bool
    equal_trees: bool = True
    holds_runs: bool = False
    installable: bool = False


class StoreHarness(Protocol):
    """A store with nothing in it."""

    @property
    def port(self) -> Store:
        """Return the port."""
        ...

    @property
    def traits(self) -> StoreTraits:
        """Say what the store claims."""
        ...

    @property
    def recipe(self) -> Recipe[Store] | None:
        """Say how another process opens the same store."""
        ...

    def create(self, target: Target, files: Mapping[str, bytes]) -> CommitRef:
        """Make the branch, and its repository if there is none, at a first commit that holds these files."""
        ...

    def stranger_commits(self, target: Target, files: Mapping[str, bytes | None]) -> CommitRef:
        """Commit on top of the branch, past the protocol: these files added or changed, those with ``None`` removed."""
        ...

    def stranger_leaves_uncommitted(self, target: Target) -> None:
        """Leave an uncommitted object on the branch. Called only where the traits say that there is such a thing."""
        ...

    def branches(self, repository: str) -> frozenset[str]:
        """List every branch as any user of the store sees them: targets and staging names."""
        ...

    def read_file(self, repository: str, ref: str, path: str) -> bytes | None:
        """Read a file at a branch or commit, past the port; ``None``: it is not there."""
        ...


@frozen
class Accepted:
    """A result the orchestrator took: of which step, from which task, and what a user sees of it."""

    step: str
    task_id: str
    ref: CommitRef
    output: str


class OrchestratorHarness(Protocol):
    """An orchestrator that runs nothing yet."""

    @property
    def port(self) -> Orchestrator:
        """Return the port."""
        ...

    @property
    def clock(self) -> Clock:
        """Return the clock its time-outs run on."""
        ...

    @property
    def response_timeout(self) -> float:
        """Say after how many seconds of silence a task that was handed out is given up; the same for every step."""
        ...

    @property
    def recipe(self) -> Recipe[Orchestrator] | None:
        """Say how another process opens the same orchestrator."""
        ...

    def start(self, steps: tuple[str, ...], target: Target, ref: CommitRef, retries: int = 2) -> str:
        """Start a workflow of these steps, each a task of that name, retried so often without delay; give its id.

        The input of a task is a JSON object whose ``workspace`` has ``repository``, ``branch`` and ``ref``.
        """
        ...

    def terminate(self, workflow_id: str) -> None:
        """Do what an operator does who ends a workflow."""
        ...

    def redeliver(self, workflow_id: str, task_id: str) -> None:
        """Put an open task back, so that the next poll hands it out again under the same id."""
        ...

    def accepted(self, workflow_id: str) -> tuple[Accepted, ...]:
        """Return the results a user of the workflow sees, in step order."""
        ...


class CoordinationHarness(Protocol):
    """A coordination store with nothing in it."""

    @property
    def port(self) -> Coordination:
        """Return the port."""
        ...

    @property
    def clock(self) -> Clock:
        """Return the clock its leases run on."""
        ...

    @property
    def ttl(self) -> float:
        """Return a time to live that is honoured, and that the suite can wait out a few times."""
        ...

    @property
    def recipe(self) -> Recipe[Coordination] | None:
        """Say how another process opens the same store."""
        ...


class WorkspaceHarness(Protocol):
    """A workspace over a store. Bodies are those of ``bodies.BODIES``, by name."""

    @property
    def port(self) -> Workspace:
        """Return the port."""
        ...

    @property
    def store(self) -> StoreHarness:
        """Return the store it reads from and writes to."""
        ...

    def accept(self, attempt: Attempt, body: str) -> None:
        """Do what a worker does that has polled this attempt: from now on, running it runs this body."""
        ...

    def leftovers(self) -> tuple[str, ...]:
        """Name what any attempt has left on this machine; a cache that attempts share is none."""
        ...


@frozen
class Stack:
    """One of each, over one clock."""

    orchestrator: OrchestratorHarness
    store: StoreHarness
    workspace: WorkspaceHarness
    coordination: CoordinationHarness
    clock: Clock
