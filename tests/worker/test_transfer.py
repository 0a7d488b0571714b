"""Moving the contents of a folder: in as few requests as the sink can, and with progress that is right."""

from __future__ import annotations

import io
from pathlib import Path
from typing import BinaryIO

from attrs import define, field

from perago_core.answers import Answer, Done
from perago_core.ports import Stored
from perago_core.values import CommitRef
from perago_worker.folders.cache import Cache
from perago_worker.folders.folder import Folder, Origin
from perago_worker.folders.sandboxes import Sandboxes
from perago_worker.folders.transfer import Direct
from perago_worker.folders.transfer_progress import Moved, MovedListener, Tally, Watched, nobody, paced
from tests.worker.test_files import Contents, Uploads

FILES = {"a": b"1" * 70_000, "b": b"2" * 3, "same as b": b"2" * 3, "empty": b""}


@define
class DirectUploads(Uploads):
    """A sink that puts and links in one request, and needs two for what is large."""

    written: dict[str, bytes] = field(factory=dict[str, bytes])

    def write(self, path: str, data: BinaryIO) -> Answer[Stored]:
        content = self.written[path] = data.read()
        return Done(Stored(path, f"at {path}", "", len(content)), operations=2 if len(content) > 10 else 1)


def made(at: Path, moved: MovedListener = nobody) -> Folder:
    room = Sandboxes(at / "rooms").enter("run")
    origin = Origin(Contents(FILES), "lake", CommitRef("A"), "", read_only=False)
    cache = Cache(at / "cache", 1 << 30)
    return Folder.make(room, origin, cache, width=4, trusts_times=False, moved=moved)


def test_a_sink_that_can_do_both_at_once_is_asked_for_nothing_else(tmp_path: Path) -> None:
    folder, sink = made(tmp_path), DirectUploads()
    assert isinstance(sink, Direct)
    assert not isinstance(Uploads(), Direct)
    (folder.sandbox.work / "a").write_bytes(b"edited, and long")
    (folder.sandbox.work / "new").write_bytes(b"new")
    assert folder.upload(folder.changes(), sink, width=4) == 3
    assert sink.written == {"a": b"edited, and long", "new": b"new"}
    assert (sink.puts, sink.links) == ({}, [])


def test_deletions_are_linked_also_where_nothing_is_put(tmp_path: Path) -> None:
    folder, sink = made(tmp_path), DirectUploads()
    (folder.sandbox.work / "b").unlink()
    assert folder.upload(folder.changes(), sink, width=4) == 1
    assert sink.links == [((), ("b",))]


def test_progress_counts_each_content_once_and_ends_at_its_total(tmp_path: Path) -> None:
    told: list[Moved] = []
    made(tmp_path, told.append)
    assert {(each.of_files, each.of_bytes) for each in told} == {(3, 70_003)}
    assert told[-1] == Moved(3, 70_003, 3, 70_003)
    assert [each.bytes for each in told] == sorted(each.bytes for each in told)


def test_what_is_read_again_is_taken_back_and_a_look_at_the_size_counts_nothing() -> None:
    told: list[Moved] = []
    data = Watched(io.BytesIO(b"0123456789"), Tally([10], told.append))
    assert data.seek(0, io.SEEK_END) == 10
    data.seek(0)
    assert told == []
    assert (data.read(6), data.read()) == (b"012345", b"6789")
    data.seek(0)
    assert data.read(4) == b"0123"
    assert [each.bytes for each in told] == [6, 10, 4]


def test_whoever_watches_is_told_now_and_then_and_always_of_the_end() -> None:
    told: list[Moved] = []
    tally = Tally([10] * 100, paced(told.append, pause=3600.0))
    for _ in range(100):
        tally.add(9)
        tally.add(1, files=1)
    assert [(each.files, each.bytes) for each in told] == [(0, 9), (100, 1000)]
    assert told[0].fraction < 0.01
    assert told[-1].fraction == Moved(0, 0, 0, 0).fraction + 1 == 1.0
