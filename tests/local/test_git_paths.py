"""Which paths and names the store takes, what it says to the others, and what a change of paths makes of a tree."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import pytest
from attrs import evolve

from perago_core.values import CommitRef, Target
from perago_local.git.store import GitStore
from tests.conformance.implementations.git import git
from tests.conformance.support import contents, done, refused

LAKE = Target("lake", "main")
FILES = {"folder/one.txt": b"1", "folder/two.txt": b"2", "top.txt": b"top"}


@pytest.fixture
def store(tmp_path: Path) -> GitStore:
    opened = GitStore(tmp_path)
    first = done(opened.create(LAKE, FILES))
    done(opened.open_staging(LAKE, "staging", first))
    return opened


def changed(store: GitStore, files: dict[str, bytes], deleted: tuple[str, ...] = ()) -> dict[str, bytes]:
    sink = store.sink(LAKE, "staging")
    done(sink.link(tuple(done(sink.put(path, BytesIO(data))) for path, data in files.items()), deleted))
    staged = done(store.commit(LAKE, "staging", "changed"))
    assert staged is not None
    return contents(store.read("lake", staged.commit))


GIT_LIKE = [
    ".git",
    ".GIT/config",
    "a/.git/hooks",
    "git~1",
    ".git ",
    ".git.",
    ".git::$INDEX",
    ".g\u200cit",
    ".gitmodules",
]


@pytest.mark.parametrize("path", [*GIT_LIKE, "x" * 256, "/".join(["y" * 99] * 11), "lone\ud800surrogate"], ids=ascii)
def test_a_path_that_git_or_a_disk_could_not_hold_is_refused(store: GitStore, path: str) -> None:
    sink = store.sink(LAKE, "staging")
    assert "cannot be stored" in refused(sink.put(path, BytesIO(b"x")))
    good = done(sink.put("good", BytesIO(b"x")))
    assert "cannot be stored" in refused(sink.link((evolve(good, path=path),)))
    assert "cannot be stored" in refused(sink.link((), (path,)))
    assert [each.path for each in done(sink.list())] == sorted(FILES)


@pytest.mark.parametrize(
    "path", [".gitignore", ".gitkeep", "a/.hidden", "git", "dot.git", "with\nnewline", "back\\slash"]
)
def test_a_path_that_only_looks_odd_is_stored(store: GitStore, tmp_path: Path, path: str) -> None:
    assert changed(store, {path: b"odd"}) == {**FILES, path: b"odd"}
    git(tmp_path / "lake.git", "fsck", "--strict")


def test_directory_markers_are_taken_and_not_kept(store: GitStore) -> None:
    """Object stores have them, git has no empty folders."""
    sink = store.sink(LAKE, "staging")
    marker = done(sink.put("empty/folder/", BytesIO(b"")))
    done(sink.link((marker,), ("folder/",)))
    assert [each.path for each in done(sink.list())] == sorted(FILES)
    assert "directory marker" in refused(sink.put("not/empty/", BytesIO(b"x")))
    assert "cannot be stored" in refused(sink.put("/", BytesIO(b"")))


def test_a_file_becomes_a_folder_and_a_folder_a_file(store: GitStore) -> None:
    sink = store.sink(LAKE, "staging")
    below = done(sink.put("top.txt/below", BytesIO(b"below")))
    instead = done(sink.put("folder", BytesIO(b"now a file")))
    assert "'top.txt' is a file" in refused(sink.link((below,)))
    assert "'folder' is a folder" in refused(sink.link((instead,)))
    gone = ("top.txt", "folder/one.txt", "folder/two.txt")
    files = {"top.txt/below": b"below", "folder": b"now a file"}
    assert changed(store, files, gone) == files


def test_deleting_everything_leaves_an_empty_commit_tree(store: GitStore, tmp_path: Path) -> None:
    assert changed(store, {}, tuple(FILES)) == {}
    git(tmp_path / "lake.git", "fsck", "--strict")


def test_an_executable_bit_a_stranger_set_survives_a_change_of_the_file(store: GitStore, tmp_path: Path) -> None:
    folder = tmp_path / "lake.git"
    tree = git(folder, "ls-tree", "main").replace(b"100644", b"100755")
    made = git(folder, "mktree", given=tree).decode().strip()
    ref = git(folder, "commit-tree", made, "-p", "main", "-m", "bit").decode().strip()
    done(store.open_staging(LAKE, "bit", CommitRef(ref)))
    sink = store.sink(LAKE, "bit")
    done(sink.link((done(sink.put("top.txt", BytesIO(b"new"))),)))
    staged = done(store.commit(LAKE, "bit", "keep the bit"))
    assert staged is not None
    assert git(folder, "ls-tree", staged.commit, "top.txt").startswith(b"100755")


@pytest.mark.parametrize("name", ["../lake", "a/b", "", " ", ".hidden", "lake.git", "a..b", "x" * 101, "nul\0"])
def test_a_repository_name_cannot_leave_the_root(tmp_path: Path, name: str) -> None:
    if name.strip():
        assert "no repository name" in refused(GitStore(tmp_path).create(Target(name, "main")))
        assert "no repository name" in refused(GitStore(tmp_path).head(Target(name, "main")))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("branch", ["-x", "a..b", "a b", "x.lock", "/x", "@{", "refs~1"])
def test_a_branch_name_git_refuses_is_refused(store: GitStore, branch: str) -> None:
    assert "no branch name" in refused(store.create(Target("fresh", branch)))
    assert "no branch name" in refused(store.create(Target("lake", branch)))
    assert "no branch name" in refused(store.head(Target("lake", branch)))


@pytest.mark.parametrize("name", ["../x", "a/b", "-x", "a b", "x" * 221, "ä"])
def test_a_staging_name_other_stores_would_refuse_is_refused(store: GitStore, name: str) -> None:
    """P-41, T-P3."""
    head = done(store.head(LAKE))
    assert head is not None
    assert "no staging name" in refused(store.open_staging(LAKE, name, head.commit.ref))
    assert "no staging name" in refused(store.drop(LAKE, name))


def test_a_commit_is_named_by_its_full_id_only(store: GitStore) -> None:
    """A branch name would be whatever it points at by then."""
    head = done(store.head(LAKE))
    assert head is not None
    for name in ("main", "HEAD", head.commit.ref[:12], head.commit.tree):
        assert done(store.look("lake", CommitRef(name))) is None
        refused(store.open_staging(LAKE, "another", CommitRef(name)))


def test_a_seal_needs_a_name_that_readers_ignore(store: GitStore) -> None:
    sink = store.sink(LAKE, "staging")
    assert "begins with" in refused(sink.seal("folder/manifest.json", b"{}"))
    done(sink.seal("folder/_manifest.json", b"{}"))
    staged = done(store.commit(LAKE, "staging", "sealed"))
    assert staged is not None
    assert contents(store.read("lake", staged.commit), "folder/_")["folder/_manifest.json"] == b"{}"
