"""What the store on git promises beyond the suite that all stores pass."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from random import Random

import pygit2
import pytest
from attrs import evolve

from perago_conformance.support import attempt_at, contents, done, plan_for, refused
from perago_core.answers import Answer, Done, NotDone, Unknown, UnknownError
from perago_core.names import target_prefix
from perago_core.plan import Condition, PublishPlan
from perago_core.policy.messages import Capability
from perago_core.values import Backing, CommitRef, Target, claim_of
from perago_local.git.probe import probe
from perago_local.git.repository import BIG
from perago_local.git.store import GitStore
from tests.conformance.implementations.git import commit_with_git, git
from tests.local.git_victims import victim
from tests.local.git_world import FILES, GitWorld, link


@pytest.fixture
def world(tmp_path: Path) -> GitWorld:
    return GitWorld(tmp_path)


# ---------------------------------------------------------------------------------------------------------------------
# Merging


def soft_plan(world: GitWorld, path: str, data: bytes) -> tuple[Target, PublishPlan]:
    """Plan a merge under ``soft``, which checks no head when it lands."""
    case = world.case()
    attempt = attempt_at(case.first, backing=Backing.SOFT, target=case.target, task=case.target.branch)
    done(world.store.open_staging(case.target, attempt.staging_name, case.first))
    sink = world.store.sink(case.target, attempt.staging_name)
    done(sink.link((done(sink.put(path, BytesIO(data))),)))
    staged = done(world.store.commit(case.target, attempt.staging_name, "staged"))
    return case.target, plan_for(world.harness, attempt, staged)


def test_a_merge_onto_another_head_takes_both_sides_and_has_one_parent(world: GitWorld) -> None:
    """ST-4. Also how an attempt lands on maintenance that came between."""
    target, plan = soft_plan(world, "data/new.txt", b"ours")
    stranger = commit_with_git(world.folder, target.branch, {"data/theirs.txt": b"theirs", "keep.txt": None})
    published = done(world.store.publish(plan))
    commit = done(world.store.look("lake", published))
    assert commit is not None
    assert commit.parents == (stranger,)
    expected = {**FILES, "data/new.txt": b"ours", "data/theirs.txt": b"theirs"}
    del expected["keep.txt"]
    assert contents(world.store.read("lake", published)) == expected


def test_lines_of_data_are_never_mixed(world: GitWorld) -> None:
    """Git would merge two changes of one text file line by line. The result would be data nobody has made."""
    lines = b"".join(b"%d\n" % number for number in range(50))
    target, plan = soft_plan(world, "data/a.txt", b"first\n" + lines)
    stranger = commit_with_git(world.folder, target.branch, {"data/a.txt": lines + b"last\n"})
    assert "'data/a.txt' was changed on the target" in refused(world.store.publish(plan))
    head = done(world.store.head(target))
    assert head is not None
    assert head.commit.ref == stranger


def test_the_same_change_on_both_sides_is_nothing_to_merge(world: GitWorld) -> None:
    target, plan = soft_plan(world, "data/a.txt", b"same")
    commit_with_git(world.folder, target.branch, {"data/a.txt": b"same"})
    assert "nothing to merge" in refused(world.store.publish(plan))


def test_equal_results_of_two_executions_are_two_commits(world: GitWorld) -> None:
    """One second, one parent, one tree, one message: the staging name still tells whose publication the head is."""
    case = world.case()
    one, two = (case.stage(case.attempt(number), b"equal") for number in (1, 2))
    assert one.tree == two.tree
    assert one.commit != two.commit


# ---------------------------------------------------------------------------------------------------------------------
# Claims


def test_a_plan_whose_claim_was_raised_meanwhile_says_who_has_the_task(world: GitWorld) -> None:
    case = world.case()
    attempt = case.attempt(1)
    staged = case.stage(attempt)
    done(world.store.claim(claim_of(attempt, staged)))
    plan = case.plan(attempt, staged)
    done(world.store.claim(claim_of(case.attempt(2), None)))
    reason = refused(world.store.publish(plan))
    assert "expected the claim of attempt 1, execution run-1, found attempt 2, execution run-2" in reason
    assert "carries the claim" in refused(world.store.publish(evolve(plan, claim=None)))
    assert case.history() == [case.first]


def test_claims_are_removed_by_name_only_and_all_at_once(world: GitWorld) -> None:
    """RT-10: whoever removes them has settled the task; nobody else's claims go with them."""
    case, other = world.case(), world.case()
    for number in (1, 2):
        done(world.store.claim(claim_of(case.attempt(number), None)))
    kept = done(world.store.claim(claim_of(other.attempt(1), None)))
    git(world.folder, "pack-refs", "--all")
    assert len(done(world.store.all_claims("lake"))) == 3
    gone = done(world.store.remove_claims(case.target, case.attempt(1).logical_task))
    assert [claim.number for claim in gone] == [1, 2]
    assert done(world.store.all_claims("lake")) == (kept,)
    assert done(world.store.remove_claims(case.target, case.attempt(1).logical_task)) == ()
    assert done(world.store.claim(claim_of(case.attempt(1), None))) == claim_of(case.attempt(1), None)
    world.check_rest()


# ---------------------------------------------------------------------------------------------------------------------
# What users see


def test_staging_names_show_their_attempts(world: GitWorld) -> None:
    case = world.case()
    attempt = case.attempt(3)
    case.stage(attempt)
    assert done(world.store.staging_names("lake")) == (attempt.staging_name,)
    assert done(world.store.staging_names("lake", target_prefix(case.target))) == (attempt.staging_name,)
    assert done(world.store.staging_names("lake", target_prefix(Target("lake", "another")))) == ()


def test_history_is_bounded_and_follows_first_parents(world: GitWorld) -> None:
    case = world.case()
    second = commit_with_git(world.folder, case.target.branch, {"x": b"x"})
    third = commit_with_git(world.folder, case.target.branch, {"x": b"y"})
    assert case.history() == [third, second, case.first]
    assert [each.ref for each in done(world.store.history(case.target, limit=2))] == [third, second]
    assert done(world.store.history(Target("lake", "nowhere"))) == ()


def test_a_branch_or_repository_is_made_once(world: GitWorld) -> None:
    case = world.case()
    assert "exists already" in refused(world.store.create(case.target))
    assert case.history() == [case.first]
    git(world.folder, "pack-refs", "--all")
    for near in ("deep/er", "deep/er/still", "deep"):
        answer = world.store.create(Target("lake", near))
        assert isinstance(answer, Done if near == "deep/er" else NotDone)
    racing = [threading.Thread(target=world.store.create, args=(Target("fresh", "main"),)) for _ in range(6)]
    for each in racing:
        each.start()
    for each in racing:
        each.join()
    assert len(done(world.store.history(Target("fresh", "main")))) == 1
    assert {found.name for found in world.root.iterdir()} == {"lake.git", "fresh.git"}


def test_a_missing_repository_says_what_to_do(tmp_path: Path) -> None:
    store = GitStore(tmp_path)
    assert "create it first" in refused(store.look("lake", CommitRef("0" * 40)))
    assert "create it first" in refused(store.sink(Target("lake", "main"), "staging").put("x", BytesIO(b"x")))


def test_a_symbolic_ref_is_no_target(world: GitWorld) -> None:
    """Moving it would turn it into a branch of its own, and leave the branch it stood for behind."""
    case = world.case()
    git(world.folder, "symbolic-ref", "refs/heads/alias", f"refs/heads/{case.target.branch}")
    assert "symbolic ref" in refused(world.store.head(Target("lake", "alias")))


def test_a_repository_that_asks_for_it_is_written_through_to_the_disk(
    world: GitWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    case = world.case()
    monkeypatch.setattr("os.fsync", synced.append)
    case.publish(1)
    assert synced == []
    git(world.folder, "config", "core.fsyncObjectFiles", "true")
    case.publish(2)
    assert len(synced) > 5


# ---------------------------------------------------------------------------------------------------------------------
# Probe


class IgnoresClaims(GitStore):
    """A store that would move the head whatever the claim says."""

    def publish(self, plan: PublishPlan) -> Answer[CommitRef]:
        return super().publish(evolve(plan, condition=Condition.HEAD))


class IgnoresHeads(GitStore):
    """A store that checks nothing."""

    def publish(self, plan: PublishPlan) -> Answer[CommitRef]:
        return super().publish(evolve(plan, condition=Condition.NONE))


@pytest.mark.parametrize("kind", [IgnoresClaims, IgnoresHeads])
def test_a_probe_sees_through_a_store_that_does_not_check(tmp_path: Path, kind: type[GitStore]) -> None:
    """W-15: what was not shown is not there."""
    assert probe(GitStore, tmp_path, 1.0) == Done(Capability.ATOMIC)
    answer = probe(kind, tmp_path, 1.0)
    assert isinstance(answer, NotDone)
    assert "was carried out" in answer.reason
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("problem", [OSError("no space left on the device"), UnknownError("half of it was done")])
def test_a_store_that_breaks_while_it_is_tried_is_not_disproved(tmp_path: Path, problem: Exception) -> None:
    """T-W1: a disproof is final, so only what was done and must not be is one. It breaks at each call in turn."""

    class Breaking(GitStore):
        def _opened(self, repository: str) -> pygit2.Repository:
            if not left:
                raise problem
            left.pop()
            return super()._opened(repository)

    found: list[Answer[Capability]] = []
    while not found or not isinstance(found[-1], Done):
        left = [None] * len(found)
        found.append(probe(Breaking, tmp_path, 1.0))
    assert len(found) > 20
    assert {type(each) for each in found[:-1]} == {Unknown}


def test_a_probe_that_cannot_write_knows_nothing(tmp_path: Path) -> None:
    """Silence is not a disproof (T-W1)."""
    (tmp_path / "file").touch()
    assert isinstance(GitStore(tmp_path / "file").probe(), Unknown)


def test_what_a_killed_prober_left_is_swept_and_what_is_under_way_is_not(tmp_path: Path) -> None:
    """CW-32: probe artefacts never affect a target and are removed by the sweeper."""
    store = GitStore(tmp_path)
    done(store.create(Target("lake", "main")))
    for name in (".probe-old", ".making-old", ".probe-new"):
        (tmp_path / name).mkdir()
    contents = tmp_path / "lake.git" / "objects"
    for name in ("tmp_obj_perago_old", "tmp_obj_perago_new", "tmp_obj_of_git"):
        (contents / name).touch()
    old = (
        tmp_path / ".probe-old",
        tmp_path / ".making-old",
        contents / "tmp_obj_perago_old",
        contents / "tmp_obj_of_git",
    )
    for each in old:
        os.utime(each, (0, 0))
    done(store.probe())
    assert sorted(each.name for each in tmp_path.iterdir() if each.is_dir()) == [".probe-new", "lake.git"]
    assert sorted(each.name for each in contents.glob("tmp_*")) == ["tmp_obj_of_git", "tmp_obj_perago_new"]


# ---------------------------------------------------------------------------------------------------------------------
# Locks


def test_a_lock_of_ours_whose_list_is_gone_is_recognised(world: GitWorld) -> None:
    """Somebody died while clearing up after somebody who had died."""
    case = world.case()
    lock = world.folder / "refs" / "heads" / f"{case.target.branch}.lock"
    lock.write_text("A writer of perago holds these locks:\nwhatever\n", encoding="utf-8")
    second = case.publish(1)
    assert case.history() == [second, case.first]
    world.check_rest()


# ---- Which paths and names the store takes, what it says to the others, and what a change of paths makes of a tree.


LAKE = Target("lake", "main")
PATHS = {"folder/one.txt": b"1", "folder/two.txt": b"2", "top.txt": b"top"}


@pytest.fixture
def store(tmp_path: Path) -> GitStore:
    opened = GitStore(tmp_path)
    first = done(opened.create(LAKE, PATHS))
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
    assert [each.path for each in done(sink.list())] == sorted(PATHS)


@pytest.mark.parametrize(
    "path", [".gitignore", ".gitkeep", "a/.hidden", "git", "dot.git", "with\nnewline", "back\\slash"]
)
def test_a_path_that_only_looks_odd_is_stored(store: GitStore, tmp_path: Path, path: str) -> None:
    assert changed(store, {path: b"odd"}) == {**PATHS, path: b"odd"}
    git(tmp_path / "lake.git", "fsck", "--strict")


def test_directory_markers_are_taken_and_not_kept(store: GitStore) -> None:
    """Object stores have them, git has no empty folders."""
    sink = store.sink(LAKE, "staging")
    marker = done(sink.put("empty/folder/", BytesIO(b"")))
    done(sink.link((marker,), ("folder/",)))
    assert [each.path for each in done(sink.list())] == sorted(PATHS)
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
    assert changed(store, {}, tuple(PATHS)) == {}
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


# ---- Large files stream and known ones cost nothing: what goes in and out of the store, measured.


LARGE = 256 * 1024 * 1024

#: Runs alone, so that its memory is its own. Writes by how many bytes its peak has grown, and fails if bytes are lost.
FLAT = """
import io, os, resource, shutil, sys
from pathlib import Path
from perago_core.values import Target
from perago_local.git.store import GitStore

root, size = Path(sys.argv[1]), int(sys.argv[2])
block = os.urandom(1024 * 1024 - 7)

class Stream(io.RawIOBase):
    # Cannot be rewound, like a pipe, and does not compress.
    left = size
    def readable(self): return True
    def readinto(self, buffer):
        count = min(len(buffer), self.left, len(block))
        buffer[:count] = block[:count]
        self.left -= count
        return count

def value(answer):
    assert hasattr(answer, "value"), answer
    return answer.value

store, lake = GitStore(root), Target("lake", "main")
first = value(store.create(lake, {"small": b"small"}))
value(store.open_staging(lake, "staging", first))
sink = store.sink(lake, "staging")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
value(sink.link((value(sink.put("big.bin", io.BufferedReader(Stream()))),)))
staged = value(store.commit(lake, "staging", "big"))
def out():
    total = 0
    with value(store.read("lake", staged.commit).get("big.bin")) as data:
        while chunk := data.read(1024 * 1024):
            total += len(chunk)
    return total
assert out() == size
if len(sys.argv) > 3:
    assert os.system(f"git --git-dir={root}/lake.git gc --quiet --prune=now") == 0
    assert not list((root / "lake.git" / "objects").glob("[0-9a-f][0-9a-f]/*"))
    assert out() == size
shutil.rmtree(root / "lake.git")
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""


@pytest.mark.parametrize(("size", "more"), [(LARGE, ()), (3 * BIG, ("packed",))], ids=["loose", "packed by git"])
def test_memory_stays_flat(tmp_path: Path, size: int, more: tuple[str, ...]) -> None:
    command = [sys.executable, "-c", FLAT, str(tmp_path), str(size), *more]
    ran = subprocess.run(command, capture_output=True, check=False, text=True)  # noqa: S603  no shell
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) < size / 3


class Opened:
    """A store with one branch and one staging name."""

    def __init__(self, root: Path, files: dict[str, bytes]) -> None:
        self.store = GitStore(root)
        self.folder = root / "lake.git"
        self.first = done(self.store.create(LAKE, files))
        done(self.store.open_staging(LAKE, "staging", self.first))
        self.sink = self.store.sink(LAKE, "staging")

    def objects(self) -> set[Path]:
        return {found for found in (self.folder / "objects").rglob("*") if found.is_file()}

    def committed(self) -> CommitRef:
        staged = done(self.store.commit(LAKE, "staging", "staged"))
        assert staged is not None
        return staged.commit


def test_one_changed_file_among_2000_writes_its_own_folders_only(tmp_path: Path) -> None:
    """Staging uploads only what changed: one blob, the folder it is in, the folders above."""
    files = {f"part-{index % 40}/{index // 1000}/{index}.csv": b"%d" % index for index in range(2000)}
    opened = Opened(tmp_path, files)
    before = opened.objects()
    done(opened.sink.link((done(opened.sink.put("part-7/1/1007.csv", BytesIO(b"changed"))),)))
    assert len(opened.objects() - before) == 4
    listed = done(opened.store.read("lake", opened.committed()).list())
    assert [each.path for each in listed] == sorted(files)


@pytest.mark.parametrize("packed", [False, True])
def test_bytes_the_repository_has_cost_no_write(tmp_path: Path, packed: bool) -> None:
    data = Random(1).randbytes(3_000_000)
    opened = Opened(tmp_path, {"known.bin": data})
    if packed:
        git(opened.folder, "gc", "--quiet")
    before = opened.objects()
    stored = done(opened.sink.put("copy.bin", BytesIO(data)))
    assert opened.objects() == before
    done(opened.sink.link((stored,)))
    with done(opened.store.read("lake", opened.committed()).get("copy.bin")) as back:
        assert back.read() == data


def text() -> bytes:
    return b"the same line again and again\n" * 100_000


def noise() -> bytes:
    return Random(2).randbytes(3_000_000)


def nothing() -> bytes:
    return b""


@pytest.mark.parametrize("make", [text, noise, nothing])
def test_what_comes_out_is_what_went_in_for_us_and_for_git(tmp_path: Path, make: Callable[[], bytes]) -> None:
    """Compressible bytes are compressed, others are stored as they are, because trying costs ten times as much."""
    opened, data = Opened(tmp_path, {"small": b"small"}), make()
    stored = done(opened.sink.put("data.bin", BytesIO(data)))
    assert git(opened.folder, "cat-file", "blob", stored.address) == data
    done(opened.sink.link((stored,)))
    with done(opened.store.read("lake", opened.committed()).get("data.bin")) as back:
        assert b"".join(iter(lambda: back.read(77_777), b"")) == data
    loose = opened.folder / "objects" / stored.address[:2] / stored.address[2:]
    assert (loose.stat().st_size < len(data) / 10) == (make is text)
    git(opened.folder, "fsck", "--strict")


def cut_off(raw: bytes) -> bytes:
    return raw[: len(raw) // 2]


def replaced(_raw: bytes) -> bytes:
    return zlib.compress(b"blob 5\0other")


@pytest.mark.parametrize("damage", [cut_off, replaced])
def test_a_damaged_object_is_an_error_and_never_a_short_or_other_file(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    opened = Opened(tmp_path, {"small": b"small"})
    stored = done(opened.sink.put("data.bin", BytesIO(noise())))
    done(opened.sink.link((stored,)))
    ref = opened.committed()
    loose = opened.folder / "objects" / stored.address[:2] / stored.address[2:]
    raw = loose.read_bytes()
    loose.chmod(0o644)
    loose.write_bytes(damage(raw))
    with done(opened.store.read("lake", ref).get("data.bin")) as back, pytest.raises(OSError, match="git fsck"):
        back.read()


class Growing(io.BytesIO):
    """A file somebody else is still writing: after each reading there is a byte more."""

    def read(self, size: int | None = -1, /) -> bytes:
        found, at = super().read(size), self.tell()
        self.seek(0, io.SEEK_END)
        self.write(b"x")
        self.seek(at)
        return found


def test_a_file_that_grows_while_it_is_read_is_refused(tmp_path: Path) -> None:
    opened = Opened(tmp_path, {"small": b"small"})
    before = opened.objects()
    assert "grew or shrank" in refused(opened.sink.put("data.bin", Growing(b"x" * 100)))
    assert opened.objects() == before


# ---- A repository of ours is an ordinary repository: the git command line reads, checks, packs and collects it.


def test_git_log_shows_one_commit_on_the_input(tmp_path: Path) -> None:
    """An abandoned publication is replaced: A -> C, never A -> H -> C."""
    world = GitWorld(tmp_path)
    case = world.case()
    case.publish(1)
    second = case.publish(2)
    log = git(world.folder, "log", "--format=%H", case.target.branch).decode().split()
    assert log == [second, case.first]
    assert git(world.folder, "cat-file", "blob", f"{case.target.branch}:data/a.txt") == b"run-2"


def test_git_gc_loses_nothing_we_need(tmp_path: Path) -> None:
    """Linked trees that nobody committed yet and claims are under refs, so even ``--prune=now`` spares them (S-34)."""
    world = GitWorld(tmp_path)
    case = world.case()
    attempt = case.attempt(1)
    done(world.store.open_staging(case.target, attempt.staging_name, case.first))
    done(link(world.store, attempt))
    git(world.folder, "gc", "--quiet", "--prune=now")
    staged = done(world.store.commit(case.target, attempt.staging_name, "after gc"))
    assert staged is not None
    claim = done(world.store.claim(claim_of(attempt, staged)))
    git(world.folder, "gc", "--quiet", "--prune=now")
    assert done(world.store.claims(case.target, attempt.logical_task)) == (claim,)
    assert done(world.store.publish(case.plan(attempt, staged))) == staged.commit
    git(world.folder, "gc", "--quiet", "--prune=now")
    done(world.store.drop(case.target, attempt.staging_name))
    assert case.history() == [staged.commit, case.first]
    assert world.harness.branches("lake") == {case.target.branch}, "a packed name must not come back"
    world.check_rest()


def test_bytes_that_were_collected_before_they_were_linked_are_asked_for_again(tmp_path: Path) -> None:
    """Linking them would make a tree that git could never read."""
    world = GitWorld(tmp_path)
    case = world.case()
    name = case.attempt(1).staging_name
    done(world.store.open_staging(case.target, name, case.first))
    sink = world.store.sink(case.target, name)
    stored = done(sink.put("late.bin", BytesIO(b"late")))
    git(world.folder, "gc", "--quiet", "--prune=now")
    assert "put them again" in refused(sink.link((stored,)))
    done(sink.link((done(sink.put("late.bin", BytesIO(b"late"))),)))
    world.check_rest()


def test_a_lock_made_by_git_is_reported_and_left_alone(tmp_path: Path) -> None:
    world = GitWorld(tmp_path)
    case = world.case()
    attempt = case.attempt(1)
    staged = case.stage(attempt)
    done(world.store.claim(claim_of(attempt, staged)))
    plan = case.plan(attempt, staged)
    lock = world.folder / "refs" / "heads" / f"{case.target.branch}.lock"
    for content in ("", f"{case.first}\n"):
        lock.write_text(content, encoding="utf-8")
        reason = refused(world.store.publish(plan))
        assert str(lock) in reason
        assert "remove that file" in reason
        assert lock.read_text(encoding="utf-8") == content
    assert case.history() == [case.first]
    lock.unlink()
    assert done(world.store.publish(plan)) == staged.commit
    packed = world.folder / "packed-refs.lock"
    packed.touch()
    assert str(packed) in refused(world.store.drop(case.target, attempt.staging_name))
    assert packed.exists()
    packed.unlink()
    done(world.store.drop(case.target, attempt.staging_name))
    world.check_rest()


def test_a_lock_of_a_dead_writer_does_not_outlive_the_next_writer(tmp_path: Path) -> None:
    """Not even on a ref the next writer has nothing to do with: git would stumble over it for ever."""
    world = GitWorld(tmp_path)
    case, other = world.case(), world.case()
    attempt = case.attempt(1)
    staged = case.stage(attempt)
    done(world.store.claim(claim_of(attempt, staged)))
    plan = case.plan(attempt, staged)
    lock = world.folder / "refs" / "heads" / f"{case.target.branch}.lock"
    step = 0
    while not lock.exists():
        done(world.store.barrier(other.target))  # clears what the last one left, so that steps are counted alike
        step += 1
        assert victim(lambda: world.store.publish(plan), step, signal.SIGKILL).wait() == "killed"
    with pytest.raises(AssertionError, match="File exists"):
        git(world.folder, "update-ref", f"refs/heads/{case.target.branch}", case.first)
    other.publish(1)
    assert not lock.exists()
    git(world.folder, "update-ref", f"refs/heads/{case.target.branch}", case.first)
    world.check_rest()


def test_a_strangers_commit_is_never_overwritten(tmp_path: Path) -> None:
    """The stranger moved the head after it was observed and before the plan was sent."""
    world = GitWorld(tmp_path)
    case = world.case()
    attempt = case.attempt(1)
    staged = case.stage(attempt)
    done(world.store.claim(claim_of(attempt, staged)))
    plan = case.plan(attempt, staged)
    stranger = commit_with_git(world.folder, case.target.branch, {"by a stranger.txt": b"!"})
    reason = refused(world.store.publish(plan))
    assert case.first in reason
    assert stranger in reason
    assert case.history() == [stranger, case.first]


def test_publishing_while_git_packs_refs_loses_nothing(tmp_path: Path) -> None:
    """``git pack-refs`` removes loose refs under the same lock files that we take."""
    world = GitWorld(tmp_path)
    case = world.case()

    def pack() -> None:
        for _ in range(60):
            # That it fails when it meets a lock of ours is part of the game.
            command = ["git", f"--git-dir={world.folder}", "pack-refs", "--all", "--prune"]
            subprocess.run(command, check=False, capture_output=True)  # noqa: S603  no shell

    with ThreadPoolExecutor(1) as pool:
        packing = pool.submit(pack)
        number = 0
        while not packing.done():
            number += 1
            assert case.publish(number) == case.history()[0]
    assert number > 3
    assert len(case.history()) == 2
    assert len(done(world.store.claims(case.target, case.attempt(1).logical_task))) == number
    world.check_rest()


def test_a_user_who_clones_the_lake_gets_the_data(tmp_path: Path) -> None:
    world = GitWorld(tmp_path)
    case = world.case()
    case.publish(1)
    command = ["git", "clone", "--quiet", "--branch", case.target.branch, str(world.folder), str(tmp_path / "copy")]
    subprocess.run(command, check=True, capture_output=True)  # noqa: S603  no shell
    assert (tmp_path / "copy" / "data" / "a.txt").read_bytes() == b"run-1"
