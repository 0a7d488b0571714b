"""Nothing is deleted that is not ours: a folder setting that names somebody else's folder is refused, untouched."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from perago_worker.folders.cache import Cache
from perago_worker.folders.owned import MARKER, ForeignFolderError, take
from perago_worker.folders.sandboxes import Sandboxes
from tests.worker.projects import new_project

#: What people keep beside a project, and names that look like ours: locks with their folders, two letters, digests.
FOLDERS = ("app", "ab", "db", "data", "uv", ".git", "0f", ".perago/store", ".perago/store/ab")
FILES = ("uv.lock", "app.lock", "old.txt", "lock", "e" * 64, f"{'e' * 64}.{'a' * 16}", "README", ".env")
PATHS = st.tuples(st.sampled_from((".", *FOLDERS)), st.sampled_from(FILES)).map("/".join)
TREES = st.sets(PATHS, min_size=1, max_size=8)
LONG_AGO = 1_000_000_000


def fill(folder: Path, tree: set[str]) -> None:
    for name in tree:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name, encoding="utf-8")
        os.utime(folder / name, (LONG_AGO, LONG_AGO))


def contents(folder: Path) -> dict[str, bytes]:
    return {str(each.relative_to(folder)): each.read_bytes() for each in folder.rglob("*") if each.is_file()}


@example(tree={".perago/store/app.lock"}, inside=".perago/store", setting="worker.root")
@example(tree={f".perago/store/ab/{'e' * 64}"}, inside=".perago/store", setting="worker.cache")
@given(tree=TREES, inside=st.sampled_from(("", *FOLDERS)), setting=st.sampled_from(("worker.root", "worker.cache")))
def test_whatever_lies_in_a_folder_and_whichever_setting_names_it_nothing_foreign_is_touched(
    tree: set[str], inside: str, setting: str
) -> None:
    with tempfile.TemporaryDirectory() as at:
        folder = Path(at)
        fill(folder, tree)
        before = contents(folder)
        try:
            if setting == "worker.root":
                Sandboxes(folder / inside).sweep()
            else:
                Cache(folder / inside, 1).trim()
        except ForeignFolderError:
            assert contents(folder) == before
        else:
            assert {name: text for name, text in contents(folder).items() if name in before} == before


@pytest.mark.parametrize("setting", ["worker.root", "worker.cache"])
def test_a_run_in_the_project_folder_itself_is_refused_in_one_line_that_helps(tmp_path: Path, setting: str) -> None:
    with new_project(tmp_path / "project") as project:
        fill(project.folder, {"uv.lock", "app.lock", "app/code.py", "ab/old.txt"})
        kept = {name: data for name, data in contents(project.folder).items() if not name.startswith(".perago")}
        refused = project.perago("--set", f"{setting}={project.folder}", "run", "write")
        assert refused.code == 2
        assert f"{setting}: expected an empty folder, or one that perago made" in refused.err
        assert "Traceback" not in refused.err
        assert kept.items() <= contents(project.folder).items()
        advised = refused.err.rpartition("for example ")[2].split()[0]
        assert project.perago("--set", f"{setting}={advised}", "run", "write").code == 0, "the advice works"
        sick = project.perago("--set", f"{setting}={project.folder}", "doctor", "--json")
        assert [each["fix"] for each in sick.data if not each["fine"]] == [f"set {setting} to a folder of its own"]


def test_garbage_collection_leaves_a_foreign_folder_alone(tmp_path: Path) -> None:
    with new_project(tmp_path / "project") as project:
        fill(project.folder, {"uv.lock", "uv/keep.txt"})
        assert project.perago("--set", f"worker.root={project.folder}", "gc").code == 2
        assert {"uv.lock", "uv/keep.txt"} <= set(contents(project.folder))


def test_a_folder_that_perago_made_is_taken_again_and_only_for_the_same_use(tmp_path: Path) -> None:
    ours = take(tmp_path / "new", "worker.root")
    Sandboxes(ours).enter("run")
    assert take(ours, "worker.root") == ours
    with pytest.raises(ForeignFolderError, match=r"in use as worker\.root\. Nothing was touched"):
        Cache(ours, 1)


def test_what_an_older_release_left_in_the_project_folder_of_perago_is_ours(tmp_path: Path) -> None:
    old = tmp_path / ".perago" / "work"
    (old / "run" / "work").mkdir(parents=True)
    (old / "run.lock").touch()
    assert Sandboxes(old).sweep() == ("run",)
    assert (old / MARKER).is_file()
