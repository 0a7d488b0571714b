"""The project a command is about: its settings, systems, tasks and targets, each read when it is needed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from attrs import define, field

from perago_core.ports import Closeable, Coordination, ManagedOrchestrator
from perago_core.values import Target
from perago_worker.cli.console import CommandError

if TYPE_CHECKING:
    from perago_core.pipelines import Pipelines
    from perago_worker.api.registry import Registry
    from perago_worker.api.task import TaskDefinition
    from perago_worker.config.settings import Settings
    from perago_worker.stack import Stack

FILE = "perago.toml"


def find_project(start: Path) -> Path:
    """Find the nearest folder upward that holds a ``perago.toml``, or take ``start`` if there is none."""
    here = start.resolve()
    return next((folder for folder in (here, *here.parents) if (folder / FILE).is_file()), here)


@define
class Project:
    """The project a command is about, read when it is needed."""

    folder: Path = field(factory=lambda: find_project(Path.cwd()))
    overrides: dict[str, Any] = field(factory=dict[str, Any])
    _settings: Settings | None = field(default=None, init=False)
    _orchestrator: ManagedOrchestrator | None = field(default=None, init=False)
    _coordination: Coordination | None = field(default=None, init=False)
    _stack: Stack | None = field(default=None, init=False)

    @property
    def settings(self) -> Settings:
        """Read the settings."""
        if self._settings is None:
            from perago_worker.config.load import load  # noqa: PLC0415  `perago --help` reads no settings

            self._settings = load(self.folder, self.overrides)
            self._require_project(self._settings)
        return self._settings

    def _require_project(self, settings: Settings) -> None:
        """Make nothing in a folder that is no project: its embedded stack would look empty, and stay there."""
        local = "local" in {settings.store.kind, settings.orchestrator.kind, settings.coordination.kind}
        if local and not settings.tasks and not (self.folder / FILE).is_file():
            raise CommandError(
                f"there is no {FILE} in {self.folder} or above: `perago init` writes a project, --project names one"
            )

    @property
    def orchestrator(self) -> ManagedOrchestrator:
        """Open the orchestrator."""
        if self._orchestrator is None:
            from perago_worker.stack import open_orchestrator  # noqa: PLC0415  as above

            self._orchestrator = open_orchestrator(self.settings)
        return self._orchestrator

    @property
    def coordination(self) -> Coordination | None:
        """Open the coordination store, if there is one."""
        if self._stack is not None:
            return self._stack.coordination
        if self._coordination is None:
            from perago_worker.stack import open_coordination  # noqa: PLC0415  as above

            self._coordination = open_coordination(self.settings)
        return self._coordination

    @property
    def stack(self) -> Stack:
        """Open the systems that the settings name."""
        if self._stack is None:
            from perago_worker.stack import open_stack  # noqa: PLC0415  as above

            self._stack = open_stack(self.settings, self.orchestrator)
        return self._stack

    def close(self) -> None:
        """Close the systems, if they were opened."""
        for opened in (self._stack, self._coordination, self._orchestrator if self._stack is None else None):
            if isinstance(opened, Closeable):
                opened.close()
        self._stack = self._coordination = self._orchestrator = None

    def tasks(self) -> Registry:
        """Import the tasks."""
        from perago_worker.api.registry import load_tasks  # noqa: PLC0415  as above

        return load_tasks(self.settings, self.folder)

    def all_tasks(self) -> dict[str, TaskDefinition]:
        """Import the tasks, and add those that workers of this project run beside them, for recovery and whole runs."""
        from perago_worker.pipelines.recovery_task import own_tasks  # noqa: PLC0415  as above
        from perago_worker.pipelines.run_tasks import run_tasks  # noqa: PLC0415  as above

        tasks = self.tasks()
        return {**tasks, **own_tasks(self.settings, self.stack), **run_tasks(self.settings, self.stack, tasks)}

    def pipelines(self) -> Pipelines:
        """Return the orchestrator as people use it; what is registered there is made to fit the publish budget."""
        from perago_worker.stack import pipelines_on  # noqa: PLC0415  as above

        return pipelines_on(self.orchestrator, self.settings.budget.budget())


def project_of(context: typer.Context) -> Project:
    """Find the project the command line named, or the one around the current folder."""
    found = context.find_object(Project)
    return Project() if found is None else found


def target_of(project: Project, branch: str) -> Target:
    """Read REPOSITORY/BRANCH, or take the only target the project has."""
    if branch:
        repository, sign, name = branch.partition("/")
        if not sign or not repository or not name:
            raise CommandError(f"expected REPOSITORY/BRANCH, e.g. lake/main; found {branch!r}")
        return Target(repository, name)
    from perago_worker.config.settings import targets_of  # noqa: PLC0415  as above

    targets = targets_of(project.settings)
    if len(targets) != 1:
        known = ", ".join(map(str, targets)) or "none"
        raise CommandError(f"name the branch as REPOSITORY/BRANCH; this project's pipelines publish to: {known}")
    return targets[0]
