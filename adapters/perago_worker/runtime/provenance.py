"""What made a commit, written into its message: which execution, and a digest of the code that ran.

The message travels with the data on every store and costs no request. It is what its writer says: nothing is decided by
it, and whoever reads it asks claims, ledger and orchestrator whether it is so.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from perago_core.answers import Answer
from perago_core.ports import Store
from perago_core.values import Attempt, StagedRef, Target
from perago_worker.api.task import TaskDefinition

EXECUTION, CODE, INPUT = "Perago-Execution", "Perago-Code", "Perago-Input"
#: Folders in which packages of others are installed.
_INSTALLED = {"site-packages", "dist-packages"}


def code_digests(tasks: Iterable[TaskDefinition]) -> dict[str, str]:
    """Return the digest of each task's code, by the task's name; none for code without a source."""
    digests = {each.module: code_digest(each.module) for each in tasks}
    return {each.name: found for each in tasks if (found := digests[each.module])}


def code_digest(module: str) -> str:
    """Digest the sources of a module and of every module that was loaded from the same folder or below it.

    So a change of a helper beside the tasks is a change of the code; one of an installed package is not, nor is one of
    a module that only a body imports while it runs. Blank where there is no source.
    """
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None:
        return ""
    folder = Path(file).parents[module.count(".") + (Path(file).name == "__init__.py")]
    inside = f"{folder}{os.sep}"
    top = module.partition(".")[0]
    found = hashlib.sha256()
    for name, loaded in sorted(sys.modules.items()):
        source = getattr(loaded, "__file__", None)
        if source is None or not source.startswith(inside) or not source.endswith(".py") or name == "__main__":
            continue
        path = Path(source)
        if not path.is_file() or (_INSTALLED & set(path.parts) and name.partition(".")[0] != top):
            continue
        found.update(f"{name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return f"sha256:{found.hexdigest()}"


def attributed(store: Store, attempt: Attempt, code: str) -> Store:
    """Return the store, whose commits say of themselves what made them."""
    trailers = {EXECUTION: attempt.execution, INPUT: attempt.input, **({CODE: code} if code else {})}
    made: Any = _Attributed(store, trailers)
    found: Store = made
    return found


class _Attributed:
    """A store that adds lines to the message of what it commits; everything else is the store's own."""

    def __init__(self, store: Store, said: Mapping[str, str]) -> None:
        self._store = store
        self._said = said

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  any method of a store
        return getattr(self._store, name)

    def commit(self, target: Target, name: str, message: str) -> Answer[StagedRef | None]:
        """Commit what the sink linked, and say what made it."""
        lines = "\n".join(f"{key}: {value}" for key, value in self._said.items())
        return self._store.commit(target, name, f"{message}\n\n{lines}")


def said_in(message: str) -> Mapping[str, str]:
    """Read what a message says of what made its commit."""
    found: dict[str, str] = {}
    for line in message.splitlines()[1:]:
        key, sign, value = line.partition(": ")
        if sign and key in {EXECUTION, CODE, INPUT}:
            found[key] = value.strip()
    return found
