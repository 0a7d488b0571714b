"""The tasks of a module, by name."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from types import MappingProxyType, ModuleType

from attrs import evolve

from perago_core.values import OnConflict, Scope
from perago_worker.api.errors import TaskDefinitionError, said
from perago_worker.api.task import TaskDefinition, check_scope, definition_of
from perago_worker.config.settings import PipelineSettings, Settings


class Registry(Mapping[str, TaskDefinition]):
    """The tasks of one or more modules. Two tasks of one name are an error, not the last one wins."""

    def __init__(self, definitions: Mapping[str, TaskDefinition]) -> None:
        self._definitions = MappingProxyType(dict(definitions))

    @classmethod
    def of_modules(cls, *names: str) -> Registry:
        """Import modules by their dotted names and take every task they show, also those they import."""
        found: dict[str, TaskDefinition] = {}
        for name in names:
            for definition in _tasks_of(_import(name)):
                known = found.setdefault(definition.name, definition)
                if known.function is not definition.function:
                    raise TaskDefinitionError(
                        f"expected one task named {definition.name!r}; found one in {known.module} and one in "
                        f"{definition.module}. Rename one of them"
                    )
        if not found:
            raise TaskDefinitionError(
                f"expected tasks in {', '.join(names) or 'at least one module'}; found none. "
                "Declare a function with @task(name=...) at the top level of the module"
            )
        return cls(found)

    def __getitem__(self, name: str) -> TaskDefinition:
        if name not in self._definitions:
            raise KeyError(f"no task {name!r}; there are {', '.join(sorted(self._definitions))}")
        return self._definitions[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._definitions)

    def __len__(self) -> int:
        return len(self._definitions)

    def modules(self) -> tuple[str, ...]:
        """Name the modules a body has to import."""
        return tuple(sorted({each.module for each in self._definitions.values()}))


def load_tasks(settings: Settings, project: Path) -> Registry:
    """Import the task modules of a project, which need not be installed."""
    folder = str(project)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return _shared(settings, Registry.of_modules(*settings.tasks))


def _shared(settings: Settings, tasks: Registry) -> Registry:
    """Give the tasks of each pipeline the reads and writes that the pipeline declares, unless they have their own."""
    given: dict[str, tuple[str, PipelineSettings]] = {}
    found = dict(tasks)
    for name, pipeline in settings.pipelines.items():
        for each in {step.task for step in pipeline.all_steps if pipeline.reads or pipeline.writes}:
            if each not in tasks or tasks[each].scope is not None or tasks[each].workspace is None:
                continue
            other, known = given.setdefault(each, (name, pipeline))
            if known.sharing != pipeline.sharing:
                raise TaskDefinitionError(
                    f"task {each!r} gets reads and writes from pipeline {other} and others from {name}. Declare them "
                    "in its Workspace, or take a task for each"
                )
            found[each] = _with_scope(tasks[each], pipeline)
    return Registry({**found, **_stacking(settings, found)})


def _stacking(settings: Settings, tasks: Mapping[str, TaskDefinition]) -> dict[str, TaskDefinition]:
    """Let the tasks of pipelines that stack do so, each apart from all that the pipeline declares.

    From what it declares alone is not enough. Counterexample: a first step stacks on what somebody else has published
    to ``b``, and is accepted; the second step, which reads ``b`` and changes nothing, begins there, and is accepted on
    what nobody has accepted.
    """
    apart: dict[str, set[str]] = {}
    waits: dict[str, str] = {}
    for name, pipeline in settings.pipelines.items():
        members = {step.task for step in pipeline.all_steps if step.task in tasks}
        working = sorted(each for each in members if tasks[each].workspace is not None)
        if not pipeline.stacking:
            waits.update(dict.fromkeys(working, name))
            continue
        silent = [each for each in working if tasks[each].scope is None]
        if silent or not working:
            raise TaskDefinitionError(
                f"pipeline {name}: stacking = true wants every step to declare what it reads and writes; found none "
                f"for {', '.join(silent) or 'any'}. Give the pipeline reads and writes, or leave stacking out"
            )
        declared = {prefix for each in working for prefix in (tasks[each].scope or Scope()).prefixes}
        for each in working:
            apart.setdefault(each, set()).update(declared)
    for each in apart.keys() & waits.keys():
        raise TaskDefinitionError(
            f"task {each!r} stacks in one pipeline and waits in {waits[each]}: what it begins on would not be the same "
            "in both. Set stacking in both or in neither, or take a task for each"
        )
    return {each: evolve(tasks[each], apart=tuple(sorted(declared))) for each, declared in apart.items()}


def _with_scope(definition: TaskDefinition, pipeline: PipelineSettings) -> TaskDefinition:
    workspace = definition.workspace
    assert workspace is not None
    writes = None if workspace.read_only else pipeline.writes
    reads = (*pipeline.reads, *pipeline.writes) if workspace.read_only else pipeline.reads
    shared = evolve(
        definition,
        workspace=evolve(workspace, reads=reads, writes=writes),
        on_conflict=OnConflict(pipeline.on_conflict or definition.on_conflict),
    )
    check_scope(shared)
    return shared


def _import(name: str) -> ModuleType:
    if name == "__main__":
        raise TaskDefinitionError(
            "expected a module that another process can import; found the script itself. "
            "Put the tasks into a file of their own and name that"
        )
    try:
        return import_module(name)
    except TaskDefinitionError:
        raise
    except Exception as error:
        raise TaskDefinitionError(
            f"expected a module {name!r} that can be imported; found {said(error)}. "
            f"Correct the module, or the path: {', '.join(sys.path[:3])}, ..."
        ) from error


def _tasks_of(module: ModuleType) -> Iterator[TaskDefinition]:
    for value in tuple(vars(module).values()):
        definition = definition_of(value)
        if definition is not None:
            yield definition
