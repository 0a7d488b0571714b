"""Large files stream and known ones cost nothing: what goes in and out of the store, measured."""

from __future__ import annotations

import io
import subprocess
import sys
import zlib
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from random import Random

import pytest

from perago_core.values import CommitRef, Target
from perago_local.git import GitStore
from perago_local.git.repository import BIG
from tests.conformance.implementations.git import git
from tests.conformance.support import done, refused

LAKE = Target("lake", "main")
LARGE = 256 * 1024 * 1024

#: Runs alone, so that its memory is its own. Writes by how many bytes its peak has grown, and fails if bytes are lost.
FLAT = """
import io, os, resource, shutil, sys
from pathlib import Path
from perago_core.values import Target
from perago_local.git import GitStore

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
