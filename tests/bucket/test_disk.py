"""A folder as a bucket: what it refuses, what it leaves alone, and what it says of itself."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from perago_bucket import BucketCoordination, BucketStore, Connection, versions
from perago_bucket.client import bucket
from perago_bucket.disk import Disk
from perago_bucket.folders import Made, names_in
from perago_bucket.mounts import described, mount_of
from perago_bucket.versions import KEPT
from perago_conformance.support import FIRST, MAIN, attempt_at, contents, done, head_of, plan_for, stage
from perago_core.answers import Done, NotDone, NotDoneError, Unknown
from perago_core.policy.messages import Capability
from perago_core.values import Backing, Target
from perago_worker.config.load import load
from perago_worker.runtime.assembly import hidden_from_bodies
from tests.support.bucket.harness import BucketHarness

KEY = "lake/branches/main"


def on(folder: Path) -> Connection:
    """Name a folder in which nothing waits for the disk."""
    return Connection(f"file://{folder}", (("durable", "false"),))


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path / "bucket", {"durable": "false"})


def test_a_folder_is_proved_and_the_probe_leaves_nothing(tmp_path: Path) -> None:
    assert BucketStore(on(tmp_path)).probe() == Done(Capability.ATOMIC)
    assert [each.name for each in tmp_path.iterdir()] == [".aside"]
    assert list((tmp_path / ".aside").iterdir()) == []


def overwriting(self: Made, folder: int, name: str) -> None:
    time.sleep(0.05)  # until all who race have looked that the name is free
    os.rename(self.name, name, src_dir_fd=self.folder, dst_dir_fd=folder)


def refusing(self: Made, folder: int, name: str) -> None:
    raise FileExistsError(self, folder, name)


@pytest.mark.parametrize(
    ("link", "seen"),
    [(overwriting, "who swapped one object at once"), (refusing, "by the tag that was just read did not happen")],
)
def test_a_file_system_that_does_not_refuse_a_name_twice_is_disproved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, link: Callable[..., None], seen: str
) -> None:
    monkeypatch.setattr(Made, "link", link)
    answer = BucketStore(on(tmp_path)).probe()
    assert isinstance(answer, NotDone), answer
    assert seen in answer.reason


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP])
def test_a_file_system_without_hard_links_is_disproved_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def link(*_words: object, **_named: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", link)
    answer = BucketStore(on(tmp_path)).probe()
    assert isinstance(answer, NotDone), answer
    assert "has no hard links" in answer.reason


def test_a_tag_that_is_long_past_is_refused_and_nothing_is_left_of_it(disk: Disk, tmp_path: Path) -> None:
    """A process tries the record it has seen last, and others have replaced it more often than versions are kept."""
    old = tag = disk.create(KEY, b"0")
    assert old is not None
    for number in range(KEPT + 3):
        assert tag is not None
        tag = disk.swap(KEY, tag, str(number).encode())
    assert disk.swap(KEY, old, b"late") is None
    (life,) = (tmp_path / "bucket" / KEY).iterdir()
    assert sorted(int(each.name) for each in life.iterdir()) == list(range(5, 5 + KEPT))


def test_equal_bytes_have_another_tag(disk: Disk) -> None:
    first = disk.create(KEY, b"equal")
    assert first is not None
    second = disk.swap(KEY, first, b"equal")
    assert second not in {None, first}
    assert disk.swap(KEY, first, b"late") is None


def test_an_object_that_ended_and_was_made_anew_shares_no_tag_with_what_it_was(disk: Disk) -> None:
    first = disk.create(KEY, b"equal")
    assert first is not None
    disk.delete((KEY,))
    assert disk.read(KEY) is None
    assert disk.create(KEY, b"equal") not in {None, first}
    assert disk.swap(KEY, first, b"late") is None
    assert [each.key for each in disk.list("")] == [KEY]


def test_a_reader_goes_on_from_a_listing_that_is_old(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a client of a file server may have it: what was made last is not in it."""
    tag = disk.create(KEY, b"0")
    for number in range(1, KEPT + 3):
        assert tag is not None
        tag = disk.swap(KEY, tag, str(number).encode())

    def old(folder: int) -> list[str]:
        names = names_in(folder)
        return sorted(names, key=int)[:3] if all(map(str.isdecimal, names)) else names

    monkeypatch.setattr(versions, "names_in", old)
    found = disk.read(KEY)
    assert found is not None
    assert (found.data, found.tag) == (str(KEPT + 2).encode(), tag)


def test_an_answer_that_was_lost_on_the_way_from_a_file_server_is_no_refusal(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client without an answer asks again, and is told that the name is there, or that there is nothing to rename."""
    link, rename = os.link, os.rename

    def asked_twice(act: Callable[..., None], error: OSError) -> Callable[..., None]:
        def asked(*words: Any, **named: Any) -> None:  # noqa: ANN401  whatever it is called with
            act(*words, **named)
            raise error

        return asked

    monkeypatch.setattr(os, "rename", asked_twice(rename, FileNotFoundError()))
    first = disk.create(KEY, b"first")
    monkeypatch.setattr(os, "rename", rename)
    assert first is not None
    monkeypatch.setattr(os, "link", asked_twice(link, FileExistsError()))
    second = disk.swap(KEY, first, b"second")
    monkeypatch.setattr(os, "link", link)
    found = disk.read(KEY)
    assert found is not None
    assert (found.tag, found.data) == (second, b"second")


# ---- What waits for the disk.


@pytest.mark.parametrize("durable", ["true", "false"])
def test_a_name_is_given_once_the_disk_has_the_bytes_and_answered_once_it_has_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durable: str
) -> None:
    """Seen by the calls: a file is waited for before its name, a folder after the name in it."""
    calls: list[str] = []
    fsync, link, rename = os.fsync, os.link, os.rename

    def waited(descriptor: int) -> None:
        calls.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        fsync(descriptor)

    def linked(*words: Any, **named: Any) -> None:  # noqa: ANN401  whatever it is called with
        calls.append("link")
        link(*words, **named)

    def renamed(*words: Any, **named: Any) -> None:  # noqa: ANN401  likewise
        calls.append("rename")
        rename(*words, **named)

    monkeypatch.setattr(os, "fsync", waited)
    monkeypatch.setattr(os, "link", linked)
    monkeypatch.setattr(os, "rename", renamed)
    disk = Disk(tmp_path / "bucket", {"durable": durable})

    def seen(work: Callable[[], object]) -> list[str]:
        calls.clear()
        work()
        return list(calls)

    name = f"lake/data/{'0' * 32}"
    disk.write(f"lake/data/{'1' * 32}", b"the folders are there")
    tag = disk.create("lake/branches/other", b"as well")
    assert tag is not None
    waits = durable == "true"
    assert seen(lambda: disk.write(name, b"data")) == (["file", "rename", "folder"] if waits else ["rename"])
    assert seen(lambda: disk.create(KEY, b"first")) == (
        ["file", "folder", "folder", "rename", "folder"] if waits else ["rename"]
    )
    assert seen(lambda: disk.swap("lake/branches/other", tag, b"next")) == (
        ["file", "link", "folder"] if waits else ["link"]
    )


# ---- What is not ours.


def strangers_in(folder: Path, outside: Path) -> list[Path]:
    """Put all sorts of things into a bucket that has a branch, a name and files; give their paths."""
    outside.mkdir()
    (outside / ("a" * 32)).write_bytes(b"not ours")
    (outside / "notes.txt").write_bytes(b"not ours")
    made: list[Path] = []

    def file(*names: str) -> None:
        path = folder.joinpath(*names)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"not ours")
        made.append(path)

    def link(to: Path, *names: str) -> None:
        path = folder.joinpath(*names)
        path.symlink_to(to)
        made.append(path)

    file("README")
    file("lake", "branches", ".DS_Store")
    file("lake", "branches", "main", ".nfs0001")
    file("lake", "branches", "other", "notes.txt")
    file("lake", "data", "notes.txt")
    file("lake", "commits", "notes.txt")
    file(".aside", "notes.txt")
    link(outside, "lake", "data", "elsewhere")
    link(outside, "lake", "branches", "elsewhere")
    link(outside / ("a" * 32), "lake", "data", "b" * 32)
    link(outside, ".aside", "c" * 32)
    (life,) = (each for each in (folder / "lake" / "branches" / "main").iterdir() if each.name.startswith("@"))
    file("lake", "branches", "main", life.name, "notes.txt")
    pipe = folder / "lake" / "data" / ("d" * 32)
    os.mkfifo(pipe)
    made.append(pipe)
    return made


def test_what_is_not_ours_is_neither_followed_nor_deleted_and_in_nobodys_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, outside = tmp_path / "bucket", tmp_path / "outside"
    store = BucketHarness(on(folder))
    ref = store.create(MAIN, FIRST)
    strangers = strangers_in(folder, outside)
    attempt = attempt_at(ref, backing=Backing.ATOMIC)
    staged = stage(store, attempt, {"new.txt": b"new"})
    published = done(store.port.publish(plan_for(store, attempt, staged)))
    done(store.port.drop(MAIN, attempt.staging_name))
    monkeypatch.setattr("perago_bucket.folders._AT_WORK", 0.0)
    assert done(store.port.collect_objects("lake", (), 0.0)) >= 0
    assert head_of(store) == published
    assert contents(store.port.read("lake", published)) == {**FIRST, "new.txt": b"new"}
    assert store.branches("lake") == {"main"}
    assert all(each.is_symlink() or each.exists() for each in strangers)
    assert {each.name: each.read_bytes() for each in outside.iterdir()} == dict.fromkeys(
        ("a" * 32, "notes.txt"), b"not ours"
    )
    refused = store.port.create(Target("lake", "other"), {})
    assert isinstance(refused, Unknown), "there is no such branch, and its place is taken"
    assert "'notes.txt', which is not ours" in refused.reason


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    folder, outside = tmp_path / "bucket", tmp_path / "outside"
    outside.mkdir()
    store = BucketHarness(on(folder))
    ref = store.create(MAIN, FIRST)
    name = attempt_at(ref).staging_name
    done(store.port.open_staging(MAIN, name, ref))
    (folder / "lake" / "data" / name).symlink_to(outside)
    assert isinstance(store.port.sink(MAIN, name).put("a.txt", BytesIO(b"data")), Unknown)
    (folder / ".coordination").symlink_to(outside)
    assert isinstance(BucketCoordination(store.connection).create_if_absent("key", "value"), Unknown)
    assert list(outside.iterdir()) == []


def test_a_version_that_is_not_ours_is_no_version(disk: Disk, tmp_path: Path) -> None:
    """Neither a head nor the end of a branch: whoever reads it does not know."""
    assert disk.create(KEY, b"first") is not None
    (life,) = (tmp_path / "bucket" / KEY).iterdir()
    (life / "2").write_bytes(b'{"head": "mine"}')
    with pytest.raises(OSError, match="expected version 2, found something else"):
        disk.read(KEY)
    (life / "2").unlink()
    (life / "2").symlink_to(life / "1")
    with pytest.raises(OSError, match="symbolic links"):
        disk.read(KEY)


@pytest.mark.parametrize("branch", ["..", ".", "a/b c", "\u00e4%2E", "x" * 250, "-", "@0123456789abcdef"])
def test_a_branch_of_any_name_is_a_branch(tmp_path: Path, branch: str) -> None:
    store = BucketHarness(on(tmp_path / "bucket"))
    target = Target("lake", branch)
    if set(branch) <= {"."}:
        assert isinstance(store.port.create(target, {}), NotDone)
    else:
        store.create(target, FIRST)
        assert store.branches("lake") == {branch}
        assert head_of(store, target) is not None
    assert {each.name for each in tmp_path.iterdir()} <= {"bucket"}


def test_a_name_that_no_file_can_have_is_refused(tmp_path: Path) -> None:
    answer = BucketStore(on(tmp_path)).create(Target("lake", "\u00e4" * 50), {})
    assert isinstance(answer, NotDone)
    assert "cannot be the name of a file" in answer.reason


# ---- What killed processes leave.


def test_what_was_left_aside_goes_after_an_hour_and_is_nothing_before(tmp_path: Path) -> None:
    store = BucketHarness(on(tmp_path))
    store.create(MAIN, FIRST)
    aside = tmp_path / ".aside"
    (aside / ("1" * 32)).write_bytes(b"half of it")
    unfinished = aside / ("2" * 32) / "@0123456789abcdef"
    unfinished.mkdir(parents=True)
    (unfinished / "1").write_bytes(b"half of it")
    assert {each.key.split("/")[0] for each in bucket(store.connection).list("")} == {"lake"}
    done(store.port.collect_objects("lake", (), 0.0))
    assert len(list(aside.iterdir())) == 2, "somebody may be at work"
    for each in aside.iterdir():
        os.utime(each, (0, 0))
    done(store.port.collect_objects("lake", (), 0.0))
    assert list(aside.iterdir()) == []


def test_an_end_that_was_not_finished_is_finished_by_who_lists(disk: Disk, tmp_path: Path) -> None:
    first = disk.create(KEY, b"first")
    assert first is not None
    life, _, nonce = first.partition(".")
    (tmp_path / "bucket" / KEY / life / "2").write_text(f"{nonce.split('.')[1]} gone\n")
    assert disk.read(KEY) is None
    assert disk.swap(KEY, first, b"late") is None
    assert list(disk.list("lake")) == []
    assert list((tmp_path / "bucket" / KEY).iterdir()) == []


# ---- How it is named, and what it says of itself.


def test_options_of_other_places_are_refused_without_their_values(tmp_path: Path) -> None:
    with pytest.raises(NotDoneError, match=r"found secret_access_key$"):
        Disk(tmp_path, {"secret_access_key": "hidden"})
    with pytest.raises(NotDoneError, match="durable = true or false"):
        Disk(tmp_path, {"durable": "perhaps"})


def test_an_address_that_names_a_machine_is_refused() -> None:
    with pytest.raises(ValueError, match="found 'file://host/data'"):
        Connection("file://host/data")


def test_a_folder_below_the_project_is_named_from_everywhere_and_hidden_from_bodies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "a project"
    (project / "data").mkdir(parents=True)
    (project / "perago.toml").write_text('[store]\nkind = "bucket"\nurl = "file:data"\ndurable = false\n')
    settings = load(project, environment={})
    assert settings.store.folder == project / "data"
    assert Connection(settings.store.url).folder == project / "data"
    monkeypatch.setattr("perago_worker.bodies.isolation.trouble", lambda: None)
    assert str(project / "data") in (hidden_from_bodies(settings) or ())


MOUNTS = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:40 / /mnt/a\\040share rw,relatime shared:2 - nfs4 server:/x rw,vers=4.2,hard
31 22 0:41 / /mnt/strict rw,relatime - nfs4 server:/y rw,vers=4.2,noac
"""


@pytest.mark.parametrize(
    ("folder", "kind", "said"),
    [
        ("/data/lake", "ext4", "a folder on ext4: for the workers of this machine"),
        ("/mnt/a share/lake", "nfs4", "mount it with noac on all of them"),
        ("/mnt/strict/lake", "nfs4", "proved from this machine alone, and names are not cached (noac)"),
        ("/mnt/strictly", "ext4", "for the workers of this machine"),
    ],
)
def test_a_folder_is_described_by_what_it_is_on(folder: str, kind: str, said: str) -> None:
    found = mount_of(Path(folder), MOUNTS)
    assert found is not None
    assert found.kind == kind
    assert said in described(Path(folder), MOUNTS)


def test_the_doctor_says_what_a_folder_is(tmp_path: Path) -> None:
    answer = BucketStore(on(tmp_path)).caution()
    assert isinstance(answer, Done)
    assert answer.value.startswith("a folder on ")
    assert BucketStore(Connection("memory://lake")).caution() == Done("")
