"""Files that came to harm while nobody looked: a command says which and what to do, changes nothing, and works again.

Real files with bytes turned over. What is put back is a copy, as a person would put it.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.worker.projects import new_project

RUN = ("run", "write", "--target", "lake/main", "--param")


def _repository(ours: Path) -> Path:
    return ours / "store" / "lake.git"


def _object(name: str) -> Callable[[Path], Path]:
    """Find the file that holds an object of the head."""

    def find(ours: Path) -> Path:
        asked = ["git", "--git-dir", str(_repository(ours)), "rev-parse", name]
        found = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()  # noqa: S603  no shell
        return _repository(ours) / "objects" / found[:2] / found[2:]

    return find


def _file(name: str) -> Callable[[Path], Path]:
    def find(ours: Path) -> Path:
        return ours / name

    return find


def _head(ours: Path) -> Path:
    return _repository(ours) / "refs" / "heads" / "main"


def _turned_over(content: bytes) -> bytes:
    """Turn over a byte in each twenty."""
    return bytes(byte ^ 0xFF if place % 20 == 10 else byte for place, byte in enumerate(content))


def _cut_off(content: bytes) -> bytes:
    return content[: len(content) // 2]


def _nothing(_content: bytes) -> bytes:
    return b""


def _elsewhere(_content: bytes) -> bytes:
    return b"1" * 40 + b"\n"


#: Which file, what becomes of it, and the words that name it.
DAMAGED: Mapping[str, tuple[Callable[[Path], Path], Callable[[bytes], bytes], str]] = {
    "the orchestrator's database": (_file("orchestrator.db"), _turned_over, "orchestrator.db"),
    "the orchestrator's database, cut off": (
        _file("orchestrator.db"),
        _cut_off,
        "The file is damaged: stop all workers",
    ),
    "the coordination database": (
        _file("coordination.db"),
        _turned_over,
        "The file is damaged: stop all workers",
    ),
    "the branch": (_head, _turned_over, "lake/main cannot be read"),
    "the branch, empty": (_head, _nothing, "`git fsck` in it says"),
    "the branch, naming what is not there": (_head, _elsewhere, "which is not there. Is the repository damaged?"),
    "the commit": (_object("main"), _turned_over, "`git fsck` in it says"),
    "the tree": (_object("main^{tree}"), _turned_over, "`git fsck` in it says"),
    "the content": (_object("main:data/0.txt"), _turned_over, "`git fsck` in it says"),
}


@pytest.mark.parametrize(("find", "harm", "says"), DAMAGED.values(), ids=DAMAGED.keys())
def test_damage_is_named_in_a_line_nothing_is_published_and_a_copy_mends_it(
    tmp_path: Path, find: Callable[[Path], Path], harm: Callable[[bytes], bytes], says: str
) -> None:
    with new_project(tmp_path / "p") as project:
        ours = project.folder / ".perago"
        assert project.perago(*RUN, "text=before").code == 0
        before = _refs(ours)
        file = find(ours)
        shutil.copy2(file, tmp_path / "copy")
        file.chmod(0o600)
        file.write_bytes(harm(file.read_bytes()))

        refused = project.perago(*RUN, "text=during", width=2000)
        assert refused.code != 0
        (said,) = [line for line in (refused.out + refused.err).splitlines() if says in line]
        assert "Traceback" not in refused.out + refused.err, said

        shutil.copy2(tmp_path / "copy", tmp_path / "again")
        (tmp_path / "again").replace(file)
        assert _refs(ours) == before
        assert project.perago(*RUN, "text=after").code == 0
        assert _published(ours) == ["after", "before"]


def _refs(ours: Path) -> list[str]:
    """Give the branches: but for those that are damaged, they tell what was published."""
    asked = ["git", "--git-dir", str(_repository(ours)), "for-each-ref", "refs/heads"]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.splitlines()  # noqa: S603  no shell


def _published(ours: Path) -> list[str]:
    """Give what each commit of the branch but the first holds, the newest before the others."""
    git = ["git", "--git-dir", str(_repository(ours))]
    listed = subprocess.run([*git, "rev-list", "main"], capture_output=True, text=True, check=True).stdout.split()  # noqa: S603  no shell
    shown = ([*git, "show", f"{each}:data/0.txt"] for each in listed[:-1])
    return [subprocess.run(each, capture_output=True, text=True, check=True).stdout for each in shown]  # noqa: S603  no shell
