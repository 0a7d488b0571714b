"""The task behind ``perago import``: it brings files of this machine into a folder of a branch.

It is a body like any other, in a process of its own. Beside the files it leaves what they were: path, size and SHA-256,
under a name that readers of data ignore.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

from attrs import evolve
from pydantic import BaseModel

from perago_worker.api.errors import TaskTerminalError
from perago_worker.api.task import TaskDefinition, Workspace, definition_of, task

NAME = "perago-import"
RECORD = "_imported.json"


class Files(BaseModel):
    """What to bring: files, and folders with all that is in them. ``replace``: what else is there goes."""

    files: tuple[str, ...]
    replace: bool = False


class Imported(BaseModel):
    """How much was brought."""

    files: int
    bytes: int


@task(name=NAME, workspace=Workspace(), retries=0)
def import_files(workspace: Path, params: Files) -> Imported:
    """Bring files into a folder of a branch."""
    wanted = dict[str, Path]()
    for given in map(Path, params.files):
        for name, place in _found(given):
            if name in wanted or name == RECORD:
                raise TaskTerminalError(
                    f"expected files of different names; found {wanted.get(name, name)} and {place}"
                )
            wanted[name] = place
    if params.replace:
        for each in workspace.iterdir():
            shutil.rmtree(each) if each.is_dir() else each.unlink()
    record: dict[str, dict[str, object]] = {}
    size = 0
    for name, place in sorted(wanted.items()):
        to = workspace / name
        to.parent.mkdir(parents=True, exist_ok=True)
        to.unlink(missing_ok=True)
        shutil.copyfile(place, to)
        with to.open("rb") as copied:
            digest = hashlib.file_digest(copied, "sha256").hexdigest()
        record[name] = {"path": str(place), "size": to.stat().st_size, "sha256": digest}
        size += to.stat().st_size
    kept = workspace / RECORD
    kept.unlink(missing_ok=True)
    kept.write_text(json.dumps(record, indent=1, sort_keys=True), "utf-8")
    return Imported(files=len(wanted), bytes=size)


def import_into(folder: str) -> TaskDefinition:
    """Return the task for one folder of a branch: nothing else of the branch is fetched."""
    definition = definition_of(import_files)
    assert definition is not None
    return evolve(definition, workspace=Workspace(prefix=folder))


def _found(given: Path) -> Iterator[tuple[str, Path]]:
    """Yield files with the names they are to have."""
    if given.is_file():
        yield given.name, given
    elif given.is_dir():
        for each in sorted(given.rglob("*")):
            if each.is_file():
                yield each.relative_to(given).as_posix(), each
    else:
        raise TaskTerminalError(f"expected a file or a folder at {given}; found none that this worker can read")
