"""The simulated ports join every suite; the store once for what each backing needs."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

from attrs import frozen

from perago_conformance.bodies import BODIES, TerminalError
from perago_conformance.harness import (
    Accepted,
    CoordinationHarness,
    OrchestratorHarness,
    Stack,
    StoreHarness,
    StoreTraits,
    WorkspaceHarness,
)
from perago_core.plan import PlanKind
from perago_core.policy.messages import Capability
from perago_core.ports import Clock
from perago_core.results import Completed
from perago_core.values import Attempt, Backing, CommitRef, Target
from perago_simulation.ports import (
    SimulatedCoordination,
    SimulatedOrchestrator,
    SimulatedStore,
    SimulatedWorkspace,
    SimulatedWorld,
    Stranger,
    TerminalBodyError,
)
from perago_simulation.ports.workspace import Files
from perago_simulation.world.capabilities import NEEDS, RELIES_ON, Capabilities
from tests.conformance.opener import Opener

_PROBES = {
    Backing.ATOMIC: Capability.ATOMIC,
    Backing.CONDITIONAL: Capability.CONDITIONAL,
    Backing.LOCKED: None,
    Backing.SOFT: None,
}


def _traits(backing: Backing) -> StoreTraits:
    able: Capabilities = NEEDS[backing]
    return StoreTraits(
        backings=frozenset(each for each in Backing if not able.lacks(RELIES_ON[each])),
        checks_head=frozenset(
            kind
            for kind in PlanKind
            if (able.conditional_merge if kind is PlanKind.MERGE else able.conditional_relocate)
        ),
        revocable=able.revocable_names,
        raises_claims=able.conditional_claim,
        probe=_PROBES[backing],
        uncommitted=True,
    )


@frozen
class _Store:
    port: SimulatedStore
    traits: StoreTraits
    recipe: None = None

    def create(self, target: Target, files: Mapping[str, bytes]) -> CommitRef:
        return self.port.create(target, files)

    def stranger_commits(self, target: Target, files: Mapping[str, bytes | None]) -> CommitRef:
        return Stranger(self.port, target).commit(files)

    def stranger_leaves_uncommitted(self, target: Target) -> None:
        Stranger(self.port, target).write("left behind", b"by a stranger")

    def branches(self, repository: str) -> frozenset[str]:
        found = self.port.repository(repository)
        return frozenset() if found is None else frozenset(found.branches)

    def read_file(self, repository: str, ref: str, path: str) -> bytes | None:
        found = self.port.repository(repository)
        assert found is not None
        branch = found.branches.get(ref)
        address = found.tree(CommitRef(ref) if branch is None else branch.at).get(path)
        return None if address is None else found.blobs[address]


@frozen
class _Orchestrator:
    port: SimulatedOrchestrator
    clock: Clock
    response_timeout: float = 60.0
    recipe: None = None

    def start(self, steps: tuple[str, ...], target: Target, ref: CommitRef, retries: int = 2) -> str:
        return self.port.start(steps, target, ref, retries=retries, response_timeout=self.response_timeout)

    def terminate(self, workflow_id: str) -> None:
        self.port.terminate(workflow_id)

    def redeliver(self, workflow_id: str, task_id: str) -> None:
        self.port.redeliver(workflow_id, task_id)

    def accepted(self, workflow_id: str) -> tuple[Accepted, ...]:
        workflow = self.port.workflow(workflow_id)
        return tuple(
            Accepted(workflow.steps[task.step], task.id, task.result.ref, task.result.output)
            for task in workflow.tasks
            if isinstance(task.result, Completed)
        )


@frozen
class _Coordination:
    port: SimulatedCoordination
    clock: Clock
    ttl: float = 10.0
    recipe: None = None


@frozen
class _Workspace:
    port: SimulatedWorkspace
    store: StoreHarness

    def accept(self, attempt: Attempt, body: str) -> None:
        self.port.accept(attempt, partial(_run, body))

    def leftovers(self) -> tuple[str, ...]:
        return self.port.places()


def _run(body: str, files: Files) -> None:
    try:
        BODIES[body](files)
    except TerminalError as error:
        raise TerminalBodyError(*error.args) from error


def _stack(world: SimulatedWorld, backing: Backing) -> Stack:
    clock, store = world.clock(), _Store(world.store(), _traits(backing))
    return Stack(
        _Orchestrator(world.orchestrator(), clock),
        store,
        _Workspace(world.workspace(), store),
        _Coordination(world.coordination(), clock),
        clock,
    )


@contextmanager
def stack(_folder: Path, backing: Backing) -> Generator[Stack, None, None]:
    yield _stack(SimulatedWorld(NEEDS[backing]), backing)


@contextmanager
def store(folder: Path, backing: Backing) -> Generator[StoreHarness, None, None]:
    with stack(folder, backing) as parts:
        yield parts.store


@contextmanager
def orchestrator(folder: Path) -> Generator[OrchestratorHarness, None, None]:
    with stack(folder, Backing.ATOMIC) as parts:
        yield parts.orchestrator


@contextmanager
def coordination(folder: Path) -> Generator[CoordinationHarness, None, None]:
    with stack(folder, Backing.ATOMIC) as parts:
        yield parts.coordination


@contextmanager
def workspace(folder: Path) -> Generator[WorkspaceHarness, None, None]:
    with stack(folder, Backing.ATOMIC) as parts:
        yield parts.workspace


def _store_for(backing: Backing) -> Opener[StoreHarness]:
    def opener(folder: Path) -> AbstractContextManager[StoreHarness]:
        return store(folder, backing)

    return opener


def _stack_for(backing: Backing) -> Opener[Stack]:
    def opener(folder: Path) -> AbstractContextManager[Stack]:
        return stack(folder, backing)

    return opener


STORES: Mapping[str, Opener[StoreHarness]] = {f"simulated-{each.value}": _store_for(each) for each in Backing}
STACKS: Mapping[str, Opener[Stack]] = {f"simulated-{each.value}": _stack_for(each) for each in Backing}
ORCHESTRATORS: Mapping[str, Opener[OrchestratorHarness]] = {"simulated": orchestrator}
COORDINATIONS: Mapping[str, Opener[CoordinationHarness]] = {"simulated": coordination}
LEASES = COORDINATIONS
WORKSPACES: Mapping[str, Opener[WorkspaceHarness]] = {"simulated": workspace}
