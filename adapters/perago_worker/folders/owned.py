"""Folders that are ours to delete in: each carries a marker, made with the folder.

The sweeper of sandboxes removes every ``X.lock`` nobody holds together with the folder ``X``, and the cache evicts the
oldest files. That is right only where nobody else keeps anything. Counterexample, seen: ``worker.root=.`` removed the
``uv.lock``, the ``poetry.lock`` and a folder ``app/`` of the project, with exit code 0 and without a word.
"""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path

from perago_worker.api.errors import UserError

MARKER = ".perago-folder"
#: The folder of a project, and what an older release kept in it for each setting, without a marker.
_PROJECT = ".perago"
_OLDER = {"worker.root": "work", "worker.cache": "cache"}
_SHOWN = 3


class ForeignFolderError(UserError):
    """A folder setting names a folder with somebody else's files in it. Nothing in it was touched."""


def take(folder: Path, setting: str) -> Path:
    """Make a folder ours for what ``setting`` names; refuse one that has foreign files or is ours for something else.

    Two processes may do it at once: the marker appears complete, and both write the same.
    """
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    marker = folder / MARKER
    line = f"perago {setting}\n"
    found = _first_line(marker)
    if found == line:
        return folder
    if found is not None:
        used_as = found.removeprefix("perago ").strip()
        raise ForeignFolderError(
            f"{setting}: expected a folder of its own; found {folder}, which is in use as {used_as}."
            f" Nothing was touched. Set {setting} to another folder"
        )
    others = [each.name for each in islice((e for e in folder.iterdir() if not e.name.startswith(MARKER)), _SHOWN)]
    if others and (folder.parent.name, folder.name) != (_PROJECT, _OLDER[setting]):
        advised = folder / _PROJECT / setting.rpartition(".")[2]
        raise ForeignFolderError(
            f"{setting}: expected an empty folder, or one that perago made (with {MARKER} in it), because everything in"
            f" it is deleted when it is no longer needed; found {folder} with {', '.join(sorted(others))}. Nothing was"
            f" touched. Set {setting} to a folder of its own, for example {advised}"
        )
    make_above(folder)
    _write_whole(marker, f"{line}Everything in this folder is removed when perago no longer needs it.\n")
    return folder


def make_above(path: Path) -> None:
    """Make the folder something of ours will be in; a project's own says to git that nothing in it is source."""
    path.parent.mkdir(parents=True, exist_ok=True)
    said = path.parent / ".gitignore"
    if path.parent.name == _PROJECT and not said.exists():
        said.write_text("*\n", encoding="utf-8")


def _first_line(marker: Path) -> str | None:
    try:
        with marker.open(encoding="utf-8", errors="replace") as file:
            return file.readline(200)
    except FileNotFoundError:
        return None


def _write_whole(marker: Path, text: str) -> None:
    half = marker.with_name(f"{MARKER}.{os.getpid()}")
    half.write_text(text, encoding="utf-8")
    half.replace(marker)
