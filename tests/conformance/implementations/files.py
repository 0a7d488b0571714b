"""Local folders join the workspace suite, on the store on git. Bodies run in processes of their own, as in a worker."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from attrs import frozen

from perago_conformance.bodies import BODIES, Files, Folder, TerminalError
from perago_conformance.harness import StoreHarness, WorkspaceHarness
from perago_core.values import Attempt
from perago_local.git.store import GitStore
from perago_worker import TaskTerminalError, Workspace, task
from perago_worker.api.registry import Registry
from perago_worker.bodies.pool import Bodies
from perago_worker.folders.cache import Cache
from perago_worker.folders.sandboxes import Sandboxes
from perago_worker.folders.workspace import LocalWorkspace
from tests.conformance.implementations.git import GitHarness
from tests.conformance.opener import Opener


def _task(name: str, body: Callable[[Files], None]) -> Callable[[Path], None]:
    @task(name=name, workspace=Workspace(), timeout=60)
    def run(workspace: Path) -> None:
        try:
            body(Folder(workspace))
        except TerminalError as error:
            raise TaskTerminalError(*error.args) from error

    return run


#: A body's process finds tasks as attributes of the module that defines them.
globals().update({f"run_{name}": _task(name, body) for name, body in BODIES.items()})


@cache
def _bodies() -> Bodies:
    """Start one template for the whole run of tests."""
    bodies = Bodies([__name__])
    atexit.register(bodies.close)
    return bodies


@frozen
class _Workspace:
    port: LocalWorkspace
    store: StoreHarness
    sandboxes: Sandboxes

    def accept(self, attempt: Attempt, body: str) -> None:
        self.port.accept(attempt, body, "{}")

    def leftovers(self) -> tuple[str, ...]:
        return self.sandboxes.names()


def workspace_on(store: StoreHarness, folder: Path) -> WorkspaceHarness:
    """Give a workspace over a store of any kind."""
    work, cached = folder / "work", Cache(folder / "cache", 1 << 30)
    port = LocalWorkspace(store.port, Registry.of_modules(__name__), _bodies(), work, cached)
    return _Workspace(port, store, Sandboxes(work))


@contextmanager
def workspace(folder: Path) -> Generator[WorkspaceHarness, None, None]:
    yield workspace_on(GitHarness(folder / "store", GitStore(folder / "store")), folder)


WORKSPACES: Mapping[str, Opener[WorkspaceHarness]] = {"files": workspace}
