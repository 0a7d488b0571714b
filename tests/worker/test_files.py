"""Local workspaces: what is fetched, what counts as a change, what is uploaded (issue 5, item 4; P-26, P-43)."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from io import BufferedWriter, BytesIO
from pathlib import Path
from subprocess import PIPE
from typing import BinaryIO
from unicodedata import normalize

import pytest
from attrs import define, field

from perago_core.answers import Answer, Done, NotDone, Unknown
from perago_core.names import problem_of
from perago_core.ports import Stored
from perago_core.results import Completed, Failed
from perago_core.values import CommitRef
from perago_worker.folders import cache
from perago_worker.folders.cache import Cache
from perago_worker.folders.errors import TransferUnknownError, WorkspaceError
from perago_worker.folders.folder import Folder, Origin
from perago_worker.folders.keys import layout_of
from perago_worker.folders.sandboxes import Sandboxes
from perago_worker.folders.tree import Changes, Difference, Tree, clock_of, keeps_change_times, scan
from tests.worker.support import FILES, MAIN, Bench, given


@define
class Contents:
    """A source over a mapping that counts what is read, and can go wrong for one path."""

    files: Mapping[str, bytes]
    wrong: str | None = None
    short: str | None = None
    checksums: bool = True
    gets: list[str] = field(factory=list[str])

    def read(self, repository: str, ref: CommitRef) -> Contents:
        """Be the whole store, too, of which this is every commit."""
        del repository, ref
        return self

    def list(self, prefix: str = "") -> Answer[tuple[Stored, ...]]:
        found = {path: data for path, data in self.files.items() if path.startswith(prefix)}
        sums = {path: data.hex() if self.checksums else "" for path, data in found.items()}
        return Done(tuple(Stored(path, f"at {path}", sums[path], len(data)) for path, data in found.items()))

    def get(self, path: str) -> Answer[BinaryIO]:
        self.gets.append(path)
        if path == self.wrong:
            return NotDone("the test says no")
        return Done(BytesIO(self.files[path][: -1 if path == self.short else None]))


@define
class Uploads:
    """A sink that records what it is given, and can leave its callers in the dark."""

    puts: dict[str, bytes] = field(factory=dict[str, bytes])
    links: list[tuple[tuple[str, ...], tuple[str, ...]]] = field(factory=list[tuple[tuple[str, ...], tuple[str, ...]]])
    put_answer: Answer[Stored] | None = None
    link_answer: Answer[None] = field(factory=lambda: Done(None))

    def put(self, path: str, data: BinaryIO) -> Answer[Stored]:
        self.puts[path] = data.read()
        return self.put_answer or Done(Stored(path, f"at {path}", "", len(self.puts[path])))

    def link(self, stored: tuple[Stored, ...], deleted: tuple[str, ...] = ()) -> Answer[None]:
        self.links.append((tuple(sorted(each.path for each in stored)), deleted))
        return self.link_answer

    def list(self, prefix: str = "") -> Answer[tuple[Stored, ...]]:
        return NotDone(prefix)

    def seal(self, path: str, manifest: bytes) -> Answer[None]:
        return NotDone(f"{path} {len(manifest)}")


#: A content that is one block of the disk with its digest behind it.
BLOCK = 4096 - 32


@define
class Place:
    """A root with sandboxes and a cache; each ``make`` is another execution."""

    root: Path
    limit: int = 1 << 30
    made: int = 0
    sandboxes: Sandboxes = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.sandboxes = Sandboxes(self.root / "rooms")

    def make(self, source: Contents, prefix: str = "", *, read_only: bool = False, trusts_times: bool = True) -> Folder:
        self.made += 1
        room = self.sandboxes.enter(f"run-{self.made}")
        origin = Origin(source, "lake", CommitRef("A"), prefix, read_only)
        return Folder.make(room, origin, self.cache(), width=4, trusts_times=trusts_times)

    def cache(self) -> Cache:
        return Cache(self.root / "cache", self.limit)

    def kept(self) -> set[bytes]:
        """Give the contents that are kept, without their digests."""
        return {path.read_bytes()[:-32] for path in self.entries()}

    def entries(self) -> list[Path]:
        return [path for path in (self.root / "cache").glob("??/*") if path.is_file()]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def tree(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


# ---------------------------------------------------------------------------------------------------------------------
# What is fetched


def test_only_the_prefix_is_fetched_and_a_sibling_with_the_same_beginning_is_not(place: Place) -> None:
    source = Contents({"sales/a": b"1", "sales/deep/b": b"2", "sales-2024/c": b"3", "sales": b"4"})
    folder = place.make(source, "sales/")
    assert tree(folder.sandbox.work) == {"a": b"1", "deep/b": b"2"}
    assert sorted(source.gets) == ["sales/a", "sales/deep/b"]


def test_a_retry_downloads_nothing_twice(place: Place) -> None:
    source = Contents({f"f{number}": f"content {number % 3}".encode() for number in range(9)})
    assert place.make(source).fetched == 3, "equal contents are one download"
    assert place.make(source).fetched == 0
    assert len(source.gets) == 3


def test_a_store_without_checksums_is_cached_by_place(place: Place) -> None:
    source = Contents({"a": b"same", "b": b"same"}, checksums=False)
    assert place.make(source).fetched == 2
    assert place.make(source).fetched == 0


def test_a_body_that_edits_in_place_cannot_poison_the_cache(place: Place) -> None:
    source = Contents({"a.txt": b"alpha"})
    first = place.make(source)
    with (first.sandbox.work / "a.txt").open("r+b") as file:
        file.write(b"OMEGA")
    assert first.changes() == Changes(("a.txt",), ())
    assert tree(place.make(source).sandbox.work) == {"a.txt": b"alpha"}
    assert len(source.gets) == 1


@pytest.mark.parametrize(("wrong", "short", "says"), [("b", None, "the test says no"), (None, "b", "expected 4 bytes")])
def test_a_content_that_does_not_arrive_is_not_kept(place: Place, wrong: str, short: str, says: str) -> None:
    source = Contents({"a": b"alpha", "b": b"beta"}, wrong, short)
    with pytest.raises(WorkspaceError, match=says):
        place.make(source)
    assert place.make(Contents(source.files)).fetched >= 1
    assert place.kept() == {b"alpha", b"beta"}


def _full(_path: Path) -> BufferedWriter:
    return Path("/dev/full").open("wb")


@pytest.mark.parametrize("size", [5, 1 << 20], ids=["full at the end", "full under way"])
def test_a_full_disk_under_the_cache_keeps_nothing_and_the_workspace_is_whole(
    size: int, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Contents({"a": b"a" * size})
    with monkeypatch.context() as full:
        full.setattr(cache, "_created", _full)
        assert tree(place.make(source).sandbox.work) == source.files
    assert place.entries() == []
    assert place.make(source).fetched == 1


def test_a_truncated_entry_is_fetched_again(place: Place) -> None:
    """After a power failure a file may be there without its bytes."""
    source = Contents({"a": b"alpha"})
    place.sandboxes.leave(place.make(source).sandbox.folder.name)
    (entry,) = place.entries()
    entry.chmod(0o600)
    entry.write_bytes(b"al")
    assert tree(place.make(source).sandbox.work) == {"a": b"alpha"}
    assert len(source.gets) == 2


@pytest.mark.parametrize("harm", ["rot", "longer", "another content", "no digest", "empty"])
def test_an_entry_that_is_not_what_was_kept_is_fetched_again(place: Place, harm: str) -> None:
    """Counterexample, seen: as many bytes of something else were given to every later task, and those completed."""
    source = Contents({"a": b"alpha"})
    place.sandboxes.leave(place.make(source).sandbox.folder.name)
    (entry,) = place.entries()
    kept = entry.read_bytes()
    entry.chmod(0o600)
    entry.write_bytes(
        {
            "rot": bytes([kept[0] ^ 1]) + kept[1:],
            "longer": kept + b"x",
            "another content": b"#####" + kept[5:],
            "no digest": kept[:5],
            "empty": b"",
        }[harm]
    )
    for _ in range(2):
        assert tree(place.make(source).sandbox.work) == {"a": b"alpha"}
    assert len(source.gets) == 2, "once more, and then it is kept again"


def test_a_content_has_one_file_for_each_name_and_none_is_a_link(place: Place) -> None:
    """What a body writes through reaches nobody else. And nothing is written beside the workspace and the cache."""
    source = Contents({"a": b"alpha", "b": b"alpha", "c": b"other"})
    for _ in range(2):  # fetched, and taken from the cache
        folder = place.make(source)
        files = [path for path in folder.sandbox.folder.rglob("*") if path.is_file()]
        assert sorted(path.name for path in files) == ["a", "b", "c"]
        assert {path.stat().st_nlink for path in (*files, *place.entries())} == {1}
        for each in files:
            each.write_bytes(b"#####")
        assert folder.changes() == Changes(("a", "b", "c"), ())
    assert tree(place.make(source).sandbox.work) == source.files
    assert len(source.gets) == 2


def test_the_cache_stays_below_its_limit_and_takes_nothing_from_anybody(tmp_path: Path) -> None:
    place = Place(tmp_path, limit=20 * 4096)
    held = {f"h{n}": os.urandom(BLOCK) for n in range(10)}
    folder = place.make(Contents(held))
    for _ in range(8):
        place.sandboxes.leave(place.make(Contents({f"x{n}": os.urandom(BLOCK) for n in range(5)})).sandbox.folder.name)
        assert len(place.entries()) <= 25
        place.cache().trim()
    assert len(place.entries()) <= 20
    assert tree(folder.sandbox.work) == held
    assert folder.changes() == Changes((), ())


def test_the_least_recently_used_goes_first(tmp_path: Path) -> None:
    place = Place(tmp_path, limit=3 * 4096)
    sources = [Contents({"x": bytes([number]) * BLOCK}) for number in range(4)]
    for number in (0, 1, 2, 0, 3):
        time.sleep(0.01)
        place.sandboxes.leave(place.make(sources[number]).sandbox.folder.name)
    place.cache().trim()
    left = {path.read_bytes()[0] for path in place.entries()}
    assert left == {0, 3}


# ---------------------------------------------------------------------------------------------------------------------
# Odd keys


def test_directory_markers_are_folders_and_odd_keys_are_left_alone(place: Place) -> None:
    odd = {"d/": b"", "d/e/": b"", "a//b": b"1", "x/./y": b"2", "full/": b"3", "ok": b"4", "sp ace/ü\n": b"5"}
    source = Contents({"p/": b"", **{f"p/{key}": data for key, data in odd.items()}})
    folder = place.make(source, "p/")
    assert tree(folder.sandbox.work) == {"ok": b"4", "sp ace/ü\n": b"5"}
    assert (folder.sandbox.work / "d" / "e").is_dir()
    assert folder.layout.left_alone == 3
    assert not folder.changes(), "what cannot be shown is not deleted"


def test_a_folder_that_is_removed_takes_its_marker_along(place: Place) -> None:
    folder = place.make(Contents({"p/d/": b"", "p/d/a": b"1", "p/kept/": b""}), "p/")
    (folder.sandbox.work / "d" / "a").unlink()
    (folder.sandbox.work / "d").rmdir()
    (folder.sandbox.work / "d").write_bytes(b"now a file")
    assert folder.changes() == Changes(("d",), ("d/a", "d/"))


def test_backslashes_dots_and_drive_letters_are_names_like_any_other() -> None:
    """What may be written can be read. Counterexample, seen: ``a:b`` was published, and every later task failed."""
    keys = ("a\\..\\b", "...", ".hidden", "..x", "c:d", "C:/x")
    assert [problem_of(key) for key in keys] == [None] * len(keys)
    layout = layout_of([Stored(key, "at", "sum", 1) for key in keys], "")
    assert sorted(layout.files) == sorted(keys)


def test_a_file_system_that_changes_names_is_noticed(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that takes upper and lower case for the same, or decomposes letters, would publish deletions nobody made."""

    def decomposed(root: Path) -> Tree:
        found = scan(root)
        return Tree({normalize("NFD", name): seen for name, seen in found.files.items()}, found.folders)

    monkeypatch.setattr("perago_worker.folders.folder.scan", decomposed)
    assert place.make(Contents({"plain": b"1"})).fetched == 1
    with pytest.raises(WorkspaceError, match="a place of its own"):
        place.make(Contents({"k\u00e4se": b"1"}))


# ---------------------------------------------------------------------------------------------------------------------
# What counts as a change


def test_change_is_a_matter_of_content(place: Place) -> None:
    names = ("same", "edited", "rewritten", "deleted", "touched", "longer")
    folder = place.make(Contents({name: name.encode() for name in names}))
    work = folder.sandbox.work
    (work / "edited").write_bytes(b"EDITED")
    (work / "rewritten").write_bytes(b"rewritten")
    (work / "deleted").unlink()
    (work / "touched").touch()
    (work / "longer").write_bytes(b"longer still")
    (work / "deep").mkdir()
    (work / "deep" / "added").write_bytes(b"")
    assert folder.changes() == Changes(("deep/added", "edited", "longer"), ("deleted",))


def test_a_sly_edit_that_keeps_size_and_times_is_a_change(bench: Bench) -> None:
    """P-43: through a mapping, with the modification time put back."""
    ran = bench.run("sly-edit")
    assert isinstance(ran.result, Completed)
    assert ran.files["data/a.txt"] == b"ahpla"


@pytest.mark.parametrize(("later", "noticed"), [(0, True), (1, False)])
def test_a_file_that_changed_in_the_tick_the_folder_was_made_is_read(place: Place, later: int, noticed: bool) -> None:
    """The racy case: an edit within one tick leaves every time as it was. Only a file older than that is trusted."""
    folder = place.make(Contents({"a": b"before"}))
    (folder.sandbox.work / "a").write_bytes(b"after!")
    now = scan(folder.sandbox.work)
    settled = now.files["a"].changed + later
    as_if_unchanged = Difference(now.files, folder.difference.originals, settled)
    assert bool(as_if_unchanged.with_now(folder.sandbox.work, now)) is noticed


def test_a_file_nobody_touched_is_not_read_again(place: Place) -> None:
    folder = place.make(Contents({"a": b"alpha"}))
    before = scan(folder.sandbox.work)
    while clock_of(folder.sandbox.scratch) <= max(seen.changed for seen in before.files.values()):
        time.sleep(0.001)
    other = {"a": b"what it is not"}
    trusting = Difference(before.files, other, clock_of(folder.sandbox.scratch))
    assert not trusting.with_now(folder.sandbox.work, before)
    assert Difference(before.files, other, 0).with_now(folder.sandbox.work, before)


def test_a_file_that_became_a_pipe_since_it_was_looked_at_is_not_waited_for(place: Place) -> None:
    """Counterexample, seen of the input that was kept beside it: the worker waited for ever for somebody to write."""
    folder = place.make(Contents({"a": b"alpha"}))
    work = folder.sandbox.work
    before = scan(work)
    (work / "a").unlink()
    os.mkfifo(work / "a")
    with ThreadPoolExecutor(1) as pool:
        compared = pool.submit(Difference(before.files, {"a": b"another"}, 0).with_now, work, before)
        try:
            with pytest.raises(WorkspaceError, match="found that 'a' is none any more"):
                compared.result(30)
        finally:
            os.close(os.open(work / "a", os.O_RDWR))  # whoever waits has somebody who writes


def test_a_file_put_in_the_place_of_another_is_compared(place: Place) -> None:
    folder = place.make(Contents({"a": b"one", "b": b"two"}))
    work = folder.sandbox.work
    (work / "a").rename(work / "c")
    (work / "b").rename(work / "a")
    (work / "c").rename(work / "b")
    assert folder.changes() == Changes(("a", "b"), ())


def test_the_file_system_is_asked_whether_it_notices_every_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At no moment is there a file that a killed worker would leave behind."""
    seen: list[Path] = []

    def looking(folder: Path) -> int:
        seen.extend(folder.iterdir())
        return clock_of(folder)

    monkeypatch.setattr("perago_worker.folders.tree.clock_of", looking)
    assert keeps_change_times(tmp_path) in {True, False}
    assert seen == list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------------------------------------------------------------
# What is uploaded


def test_only_changes_are_uploaded_with_one_link_under_the_prefix(place: Place) -> None:
    folder = place.make(Contents({f"p/{name}": name.encode() for name in ("a", "b", "c", "d")}), "p/")
    (folder.sandbox.work / "a").write_bytes(b"new a")
    (folder.sandbox.work / "e").write_bytes(b"new e")
    (folder.sandbox.work / "c").unlink()
    (folder.sandbox.work / "d").unlink()
    sink = Uploads()
    assert folder.upload(folder.changes(), sink, width=4) == 3
    assert sink.puts == {"p/a": b"new a", "p/e": b"new e"}
    assert sink.links == [(("p/a", "p/e"), ("p/c", "p/d"))]


@pytest.mark.parametrize(
    ("put", "link", "error"),
    [
        (NotDone("full"), Done(None), WorkspaceError),
        (Unknown("timeout"), Done(None), TransferUnknownError),
        (None, NotDone("gone"), WorkspaceError),
        (None, Unknown("timeout"), TransferUnknownError),
    ],
)
def test_an_upload_says_whether_it_failed_or_nobody_knows(
    place: Place, put: Answer[Stored] | None, link: Answer[None], error: type[Exception]
) -> None:
    folder = place.make(Contents({}))
    (folder.sandbox.work / "new").write_bytes(b"x")
    sink = Uploads(put_answer=put, link_answer=link)
    with pytest.raises(error):
        folder.upload(folder.changes(), sink, width=2)
    assert bool(sink.links) is (put is None)


def test_a_link_planted_after_the_comparison_is_not_followed(place: Place) -> None:
    folder = place.make(Contents({}))
    (folder.sandbox.work / "new").write_bytes(b"x")
    changes = folder.changes()
    (folder.sandbox.work / "new").unlink()
    (folder.sandbox.work / "new").symlink_to("/etc/hostname")
    sink = Uploads()
    with pytest.raises(OSError, match="symbolic links"):
        folder.upload(changes, sink, width=2)
    assert not sink.puts


def test_objects_outside_the_prefix_stay_and_deletions_are_published(bench: Bench) -> None:
    """P-26."""
    ran = bench.run("write", given({"text": "new"}))
    assert isinstance(ran.result, Completed)
    assert ran.files == {**FILES, "data/out.txt": b"new"}


def test_a_body_that_changes_nothing_makes_no_commit(bench: Bench) -> None:
    """S-12, P-33."""
    bench = Bench(bench.folder / "again", bench.bodies, files={**FILES, "data/out.txt": b"hello"})
    ran = bench.run("write")
    assert isinstance(ran.result, Completed)
    assert ran.head == bench.first
    assert bench.branches() == {MAIN.branch}


def test_a_store_that_does_not_answer_while_reading_fails_the_attempt_and_nothing_else(bench: Bench) -> None:
    broken = Contents({"data/a.txt": b"alpha"}, wrong="data/a.txt")
    bench.workspace = bench.open(broken)
    ran = bench.run("write")
    assert isinstance(ran.result, Failed)
    assert "could not be read: the test says no" in str(ran.result.refusal)
    assert bench.sandboxes() == ()


# ---------------------------------------------------------------------------------------------------------------------
# Many processes, one cache

SHARER = """
import random, sys
from pathlib import Path
from subprocess import PIPE
from tests.worker.test_files import BLOCK, Contents, Place, tree
chance = random.Random(int(sys.argv[2]))
place = Place(Path(sys.argv[1]), limit=6 * 4096, made=int(sys.argv[2]) * 1000)
for _ in range(40):
    files = {f"f{n}": bytes([n]) * BLOCK for n in chance.sample(range(12), 5)}
    folder = place.make(Contents(files))
    assert tree(folder.sandbox.work) == files
    place.sandboxes.leave(folder.sandbox.folder.name)
    place.cache().trim()
print("fine")
"""


def test_processes_that_share_a_small_cache_never_read_a_wrong_byte(tmp_path: Path) -> None:
    """Eviction, linking and using at once, each content always right."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    sharers = [
        subprocess.Popen([sys.executable, "-c", SHARER, str(tmp_path), str(number)], stdout=PIPE, env=environment)  # noqa: S603  ourselves
        for number in range(3)
    ]
    assert [each.communicate()[0] for each in sharers] == [b"fine\n"] * 3
    place = Place(tmp_path, limit=6 * 4096)
    place.cache().trim()
    assert len(place.entries()) <= 6
    assert {path.name for path in (tmp_path / "cache").iterdir()} >= {"lock"}


LARGE = """
import io, resource, sys
from pathlib import Path
from subprocess import PIPE
from perago_core.answers import Done
from perago_core.ports import Stored
from tests.worker.test_files import Contents, Place, Uploads

class Endless(io.RawIOBase):
    left = 400 << 20
    def readable(self): return True
    def readinto(self, buffer):
        size = min(len(buffer), self.left)
        buffer[:size] = bytes(size)
        self.left -= size
        return size

class Large(Contents):
    def list(self, prefix=""): return Done((Stored("big", "at", "sum", 400 << 20),))
    def get(self, path): return Done(Endless())

class Counting(Uploads):
    def put(self, path, data):
        while data.read(1 << 20): pass
        return Done(Stored(path, "at", "", 0))

place = Place(Path(sys.argv[1]))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
folder = place.make(Large({}))
with (folder.sandbox.work / "big").open("r+b") as file: file.seek(399 << 20); file.write(b"x")
changes = folder.changes()
folder.upload(changes, Counting(), width=2)
print(changes.written, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""


def test_a_large_file_passes_through_without_filling_memory(tmp_path: Path) -> None:
    """400 MiB in, compared and out."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(  # noqa: S603  ourselves
        [sys.executable, "-c", LARGE, str(tmp_path)], capture_output=True, check=True, env=environment, text=True
    )
    names, grown = done.stdout.rsplit(None, 1)
    assert names == "('big',)"
    assert int(grown) < 64, f"{grown} MiB more than before"
