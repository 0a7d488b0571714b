"""Writers of one folder: killed or stopped at any step they spoil nothing, say what is true, and hold nobody up."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from secrets import token_hex

import pytest

from perago_bucket import versions
from perago_bucket.disk import Disk
from perago_bucket.versions import KEPT
from tests.local.git_victims import Victim, victim

KEY = "lake/branches/main"
NEVER = 0
#: So many that everything a sleeper has seen is removed.
MANY = KEPT + 3
#: Fewer steps than this, and the hook does not see what it should.
FEWEST = {"swap": 12, "create": 12, "delete": 20, "write": 6}
UNKNOWN = "unknown"


class World:
    """One object in a folder of its own for each case, and a rival that is never stopped."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / token_hex(4)
        self.disk = Disk(self.folder, {"durable": "false"})

    def current(self) -> bytes | None:
        found = self.disk.read(KEY)
        return None if found is None else found.data

    def created(self) -> World:
        assert self.disk.create(KEY, b"first") is not None
        return self

    def rival(self, times: int) -> bytes | None:
        """Replace what is there so many times, as a process does that was never stopped; give what is there then."""
        for _ in range(times):
            found = self.disk.read(KEY)
            assert found is not None
            assert self.disk.swap(KEY, found.tag, token_hex(8).encode()) is not None, "nobody else is at work"
        return self.current()

    def check(self) -> None:
        """See that what is there is all there is, and that the next writer finds nothing in its way."""
        there = self.current()
        assert [each.key for each in self.disk.list("lake")] == ([] if there is None else [KEY])
        if there is None:
            assert self.disk.create(KEY, b"next") is not None
        self.rival(1)
        lives = list((self.folder / KEY).iterdir())
        assert len(lives) == 1
        assert len(list(lives[0].iterdir())) <= KEPT


def said(work: Callable[[], object]) -> object:
    """Do it, and say what it answered; an exception is *unknown*."""
    try:
        return work()
    except OSError as error:
        return UNKNOWN, str(error)


def acting(world: World, action: str) -> Callable[[], object]:
    """Return what the victim does, with what it has seen before."""
    disk = Disk(world.folder, {"durable": "false"})
    found = disk.read(KEY)
    tag = "" if found is None else found.tag
    work: dict[str, Callable[[], object]] = {
        "swap": partial(disk.swap, KEY, tag, b"mine"),
        "create": partial(disk.create, KEY, b"mine"),
        "delete": partial(disk.delete, (KEY,)),
        "write": partial(disk.write, f"lake/data/name/{token_hex(16)}", b"mine"),
    }
    return partial(said, work[action])


def each_step(folder: Path, action: str, by: signal.Signals) -> Iterator[tuple[World, Victim]]:
    """Begin the action anew for each of its steps, until one survives because it has no such step."""
    step = 0
    while True:
        step += 1
        world = World(folder) if action == "create" else World(folder).created()
        if action == "swap":
            world.rival(KEPT)  # so that it removes one as well
        child = victim(acting(world, action), step, by)
        if child.wait() == "survived":
            assert child.answer() != UNKNOWN
            break
        yield world, child
    assert step > FEWEST[action], f"only {step} steps seen: is the audit hook blind?"


@pytest.mark.parametrize("action", FEWEST)
def test_whoever_comes_after_a_killed_writer_finds_the_old_or_the_new(tmp_path: Path, action: str) -> None:
    seen: set[bytes | None] = set()
    for world, _dead in each_step(tmp_path, action, signal.SIGKILL):
        there = world.current()
        seen.add(there if there in {None, b"mine", b"first"} else b"old")
        if action == "write":
            assert {each.size for each in world.disk.list("lake/data")} <= {4}, "all of it, or nothing"
            world.disk.delete([each.key for each in world.disk.list("lake/data")])
        world.check()
    assert seen == {"swap": {b"old", b"mine"}, "create": {None, b"mine"}, "delete": {b"first", None}}.get(
        action, {b"first"}
    )


@pytest.mark.parametrize("passing", [1, MANY])
def test_a_writer_that_was_stopped_says_what_it_did_and_does_nothing_to_what_others_did_since(
    tmp_path: Path, passing: int
) -> None:
    """Stopped before each step; one rival passes, or so many that what it had seen is long removed; it wakes."""
    answers: set[str] = set()
    for world, stopped in each_step(tmp_path, "swap", signal.SIGSTOP):
        landed = world.current() == b"mine"
        latest = world.rival(passing)
        answer = stopped.resume()
        assert world.current() == latest, "it has slept through what others did, and changes nothing of it"
        kind = "done" if isinstance(answer, str) else "not done" if answer is None else UNKNOWN
        answers.add(kind)
        assert kind != ("not done" if landed else "done"), f"it landed: {landed}; it says {answer}"
        if passing == 1:
            assert kind != UNKNOWN, "what it replaced is still there, so it can tell"
        world.check()
    assert answers == ({"done", "not done"} if passing == 1 else {"done", "not done", UNKNOWN})


@pytest.mark.parametrize("action", ["swap", "delete"])
def test_an_object_that_was_made_anew_is_not_touched_by_who_slept_through_its_end(tmp_path: Path, action: str) -> None:
    """Whoever deletes and has not yet looked what there is deletes what there is then: that is no matter of sleep."""
    for world, stopped in each_step(tmp_path, action, signal.SIGSTOP):
        landed = world.current() in {b"mine", None}
        world.disk.delete((KEY,))
        assert world.disk.create(KEY, b"anew") is not None
        answer = stopped.resume()
        if action == "swap" or landed:
            assert world.current() == b"anew"
        assert action == "delete" or landed or answer is None or answer[0] == UNKNOWN
        world.check()


def test_of_two_who_make_one_object_one_does_wherever_the_other_was_stopped(tmp_path: Path) -> None:
    for world, stopped in each_step(tmp_path, "create", signal.SIGSTOP):
        rival = world.disk.create(KEY, b"rival")
        answer = stopped.resume()
        assert (rival is None) == isinstance(answer, str)
        assert world.current() == (b"mine" if rival is None else b"rival")
        world.check()


def test_what_was_made_in_vain_is_no_proof_for_another_who_slept(tmp_path: Path) -> None:
    """One has read 1, the other 2; both are about to link, and sleep. Each finds its number free when they wake.

    The first makes a 2 that is not the 2 the second has read. If any 2 would do, the second would say that it is done.
    """
    probing = World(tmp_path).created()
    step = 1
    while True:  # the step before which the link is not there, and after which it is
        child = victim(acting(probing, "swap"), step, signal.SIGKILL)
        assert child.wait() == "killed"
        if probing.current() == b"mine":
            break
        step += 1
    world = World(tmp_path).created()
    first = victim(acting(world, "swap"), step - 1, signal.SIGSTOP)
    assert first.wait() == "stopped"
    world.rival(1)
    second = victim(acting(world, "swap"), step - 1, signal.SIGSTOP)
    assert second.wait() == "stopped"
    latest = world.rival(MANY)
    answers = [first.resume(), second.resume()]
    assert [each[0] for each in answers] == [UNKNOWN, UNKNOWN]
    assert world.current() == latest
    world.check()


def leave_all(_here: int, _number: int) -> None:
    """Remove nothing, as if everybody had been killed before."""


def test_versions_are_removed_in_order_also_where_the_dead_have_left_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has read 1 takes it, if it is there, for a proof that 2 was never made: so no 2 goes before its 1."""
    removes = versions.remove_old
    fewest = MANY
    for step in range(1, 100):
        world = World(tmp_path).created()
        monkeypatch.setattr(versions, "remove_old", leave_all)
        world.rival(MANY)
        monkeypatch.setattr(versions, "remove_old", removes)
        child = victim(acting(world, "swap"), step, signal.SIGKILL)
        (life,) = (world.folder / KEY).iterdir()
        ended = child.wait()
        left = sorted(int(each.name) for each in life.iterdir())
        assert left == list(range(left[0], left[-1] + 1)), "none is missing in between"
        fewest = min(fewest, len(left))
        if ended == "survived":
            break
    assert fewest == KEPT


# ---- Several processes at once.

WRITERS, TURNS = 6, 25


def append(folder: Path, writer: int) -> list[str]:
    """Add lines to the object, each once; give those that were added, by what the answers say."""
    disk = Disk(folder, {"durable": "false"})
    added: list[str] = []
    for turn in range(TURNS):
        line = f"{writer}.{turn}"
        while True:
            found = disk.read(KEY)
            assert found is not None
            lines = json.loads(found.data)
            answer = said(partial(disk.swap, KEY, found.tag, json.dumps([*lines, line]).encode()))
            if answer is None:
                continue
            if isinstance(answer, str) or line in json.loads((disk.read(KEY) or found).data):
                added.append(line)
                break
    return added


def is_at_work(child: Victim) -> bool:
    return os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None


def test_no_update_of_several_processes_is_lost_and_each_is_there_once(tmp_path: Path) -> None:
    world = World(tmp_path)
    assert world.disk.create(KEY, b"[]") is not None
    writers = [victim(partial(append, world.folder, each), NEVER, signal.SIGKILL) for each in range(WRITERS)]
    read: list[int] = []
    while any(map(is_at_work, writers)):
        found = world.current()
        assert found is not None, "there is always one"
        read.append(len(json.loads(found)))
    assert read == sorted(read), "no reader sees an older one after a newer one"
    assert [each.wait() for each in writers] == ["survived"] * WRITERS
    lines = json.loads(world.current() or b"")
    assert sorted(lines) == sorted(line for each in writers for line in each.answer())
    assert len(set(lines)) == len(lines) == WRITERS * TURNS
    world.check()


def make_and_end(folder: Path, writer: int) -> int:
    """Make the object and end it again and again; give how often it was made."""
    disk = Disk(folder, {"durable": "false"})
    made = 0
    for _ in range(TURNS):
        if disk.create(KEY, str(writer).encode()) is not None:
            made += 1
            found = disk.read(KEY)
            assert found is not None, "only who made it ends it"
            assert found.data == str(writer).encode(), "and only one has made it"
            disk.delete((KEY,))
    return made


def test_of_several_processes_that_make_and_end_one_object_one_has_it_at_a_time(tmp_path: Path) -> None:
    world = World(tmp_path)
    writers = [victim(partial(make_and_end, world.folder, each), NEVER, signal.SIGKILL) for each in range(WRITERS)]
    assert [each.wait() for each in writers] == ["survived"] * WRITERS
    assert sum(each.answer() for each in writers) >= TURNS
    assert list(world.disk.list("lake")) == []
    assert list((world.folder / ".aside").iterdir()) == []
    world.check()
