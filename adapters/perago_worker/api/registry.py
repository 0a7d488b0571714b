"""The tasks of a module, by name."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from types import MappingProxyType, ModuleType

from perago_worker.api.errors import TaskDefinitionError, said
from perago_worker.api.task import TaskDefinition, definition_of
from perago_worker.config.settings import Settings


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
    return Registry.of_modules(*settings.tasks)


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
