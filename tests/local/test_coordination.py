"""The coordination store on SQLite, where the suite does not reach: time, three answers, several processes, deaths."""

from __future__ import annotations

import os
import resource
import signal
import sqlite3
import stat
import time
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from threading import Event
from typing import TypeAlias

import pytest

from perago_clock import MachineClock, boot
from perago_core.answers import Done, NotDone, Unknown
from perago_core.ports import Entry
from perago_local.coordination import SqliteCoordination
from perago_local.database import DatabaseError
from tests.local.coordinating import (
    PROCESSES,
    Pipe,
    Recipe,
    count_up,
    done,
    race_to_create,
    resolve_policy,
    take_over,
    together,
)
from tests.local.crashing import Countdown, integrity, run_in_child, watch_statements
from tests.local.orchestrating import HandClock

LOCK = Entry("lock", "mine")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "c.db"


# ---- time


def test_a_lease_ends_by_the_machines_time_and_never_by_the_wall_clock(path: Path) -> None:
    clock = HandClock()
    with closing(SqliteCoordination(path, clock=clock)) as port:
        lease = done(port.grant(10))
        assert port.create_if_absent("lock", "mine", lease) == Done(LOCK)
        clock.milliseconds += 10**11
        assert port.get("lock") == Done(LOCK)
        clock.sleep(9.9)
        assert port.keep_alive(lease) == Done(value=True)
        clock.sleep(9.9)
        assert port.list("") == Done((LOCK,))
        clock.milliseconds -= 10**12
        clock.sleep(0.1)
        assert port.get("lock") == Done(None)
        assert port.list("") == Done(())
        assert port.keep_alive(lease) == Done(value=False)
        assert port.create_if_absent("lock", "yours") == Done(Entry("lock", "yours"))


def test_a_lease_that_has_ended_is_not_revived_by_a_holder_that_waited_for_the_file(path: Path) -> None:
    """Time is read under the write lock. The holder asks in time, and gets the lock when its lease is over."""
    with closing(SqliteCoordination(path, busy_timeout=60.0)) as port, ThreadPoolExecutor(1) as pool:
        with stopped_in_a_change(path, first=lambda: done(port.grant(1.0))) as lease:
            renewal = pool.submit(port.keep_alive, lease)
            time.sleep(1.2)
        assert renewal.result() == Done(value=False)


def test_a_restart_of_the_machine_ends_every_lease_and_keeps_every_other_key(path: Path) -> None:
    clock = HandClock(seconds=50_000.0)
    with closing(SqliteCoordination(path, clock=clock, boot="one")) as port:
        lease = done(port.grant(10))
        port.create_if_absent("lock", "mine", lease)
        port.create_if_absent("decision", "stays")
    clock.seconds = 3.0  # the machine's clock begins again: by it alone the lease would live for another 14 hours
    with closing(SqliteCoordination(path, clock=clock, boot="two")) as port:
        assert port.list("") == Done((Entry("decision", "stays"),))
        assert port.keep_alive(lease) == Done(value=False)


def test_the_machines_clock_is_the_same_for_all_processes_and_its_run_has_a_name() -> None:
    ours, theirs = PROCESSES.Pipe(duplex=False)
    before = MachineClock().now()
    process = PROCESSES.Process(target=_send_time, args=(theirs,))
    process.start()
    told, name = ours.recv()
    process.join()
    assert before <= told <= MachineClock().now()
    assert name == boot()
    assert name


def _send_time(pipe: Pipe) -> None:
    pipe.send((MachineClock().now(), boot()))


# ---- three answers


def test_while_the_file_is_locked_a_change_is_not_done_and_a_read_goes_on(path: Path) -> None:
    """The lock is held by a process that was stopped in the middle of a change."""
    with closing(SqliteCoordination(path, busy_timeout=0.2)) as port:
        lease = done(port.grant(1000))
        port.create_if_absent("lock", "mine", lease)
        with stopped_in_a_change(path):
            for answer in (
                port.swap("k", None, "v"),
                port.create_if_absent("k", "v"),
                port.grant(1),
                port.revoke(lease),
            ):
                assert isinstance(answer, NotDone)
                assert "locked" in answer.reason
            assert isinstance(port.keep_alive(lease), Unknown), "not done would tell the holder that the lease is gone"
            with pytest.raises(DatabaseError, match="Another process holds it"):
                SqliteCoordination(path, busy_timeout=0.2)
            assert port.get("lock") == Done(LOCK)
            assert port.list("") == Done((LOCK,))
        assert port.swap("k", None, "v") == Done(value=True)
        assert port.get("stopped") == Done(Entry("stopped", "landed")), "who was stopped goes on and is not lost"


@contextmanager
def stopped_in_a_change(path: Path, first: Callable[[], str] = str) -> Generator[str]:
    """Stop a process while it holds the write lock; just before it takes the lock, do what is to be done first."""
    ours, theirs = PROCESSES.Pipe()
    process = PROCESSES.Process(target=_stop_in_a_change, args=(path, theirs))
    process.start()
    assert process.pid is not None
    try:
        ours.recv()
        given = first()
        ours.send("go on")
        _await_stop(process.pid)
        yield given
        os.kill(process.pid, signal.SIGCONT)
        process.join()
        assert process.exitcode == 0
    finally:
        process.kill()
        process.join()


def _await_stop(pid: int) -> None:
    """Wait until a process, which need not be our child, is stopped."""
    while Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "T":
        time.sleep(0.01)


def _stop_in_a_change(path: Path, pipe: Pipe) -> None:
    going = Event()

    def stop_before_commit(statement: str) -> None:
        if going.is_set() and statement == "COMMIT":
            os.kill(os.getpid(), signal.SIGSTOP)

    watch_statements(stop_before_commit)
    with closing(SqliteCoordination(path)) as port:
        pipe.send("ready")
        pipe.recv()
        going.set()
        done(port.create_if_absent("stopped", "landed"))


def test_a_commit_that_was_not_confirmed_is_unknown(path: Path) -> None:
    """The disk takes no more in the middle of the commit; here by a limit on the size of files."""
    ours, theirs = PROCESSES.Pipe(duplex=False)
    process = PROCESSES.Process(target=_commit_on_a_full_disk, args=(path, theirs))
    process.start()
    assert isinstance(ours.recv(), Unknown)
    process.join()
    with closing(SqliteCoordination(path)) as port:
        assert port.get("small") == Done(Entry("small", "fits"))
        assert port.swap("small", "fits", "still works") == Done(value=True)


def _commit_on_a_full_disk(path: Path, pipe: Pipe) -> None:
    with closing(SqliteCoordination(path)) as port:
        done(port.create_if_absent("small", "fits"))
        limit = path.with_name(f"{path.name}-wal").stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        pipe.send(port.create_if_absent("large", "x" * 100_000))


def test_a_file_that_is_gone_is_an_answer_and_no_exception(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    port = SqliteCoordination(folder / "c.db")
    port.close()
    (folder / "c.db").unlink()
    folder.rmdir()
    assert isinstance(port.get("k"), Unknown)
    assert isinstance(port.swap("k", None, "v"), NotDone)


# ---- files


def test_its_files_are_readable_by_their_owner_only(path: Path) -> None:
    with closing(SqliteCoordination(path)) as port:
        port.create_if_absent("k", "v")
        assert len(list(path.parent.iterdir())) == 3
        for each in path.parent.iterdir():
            assert stat.S_IMODE(each.stat().st_mode) == 0o600, each.name


def test_a_path_that_cannot_be_used_says_what_was_expected_and_what_to_do(tmp_path: Path) -> None:
    foreign = tmp_path / "foreign"
    foreign.write_text("this is no database, and it is long enough to be looked at" * 20, encoding="ascii")
    with pytest.raises(DatabaseError, match="expected a SQLite file"):
        SqliteCoordination(foreign)
    with pytest.raises(DatabaseError, match="Create the folder"):
        SqliteCoordination(tmp_path / "missing" / "c.db")
    with pytest.raises(DatabaseError, match="give another path"):
        SqliteCoordination(tmp_path)


def test_tables_of_another_version_are_left_alone(path: Path) -> None:
    SqliteCoordination(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE part SET version = 99")
        connection.commit()
    with pytest.raises(DatabaseError, match="expected version 1 of the coordination tables, found 99"):
        SqliteCoordination(path)


def test_text_that_no_utf8_can_hold_is_kept_and_a_blank_key_is_refused(path: Path) -> None:
    with closing(SqliteCoordination(path)) as port:
        odd = Entry("key \ud800", "half a pair: \udfff, and none: \0")
        assert port.create_if_absent(odd.key, odd.value) == Done(odd)
        assert port.list("key") == Done((odd,))
        for answer in (port.create_if_absent(" ", "v"), port.swap("", None, "v"), port.get("")):
            assert isinstance(answer, NotDone)
        assert port.list("") == Done((odd,))


def test_a_forked_child_opens_its_own_connection_and_leaves_its_parents_alone(path: Path) -> None:
    with closing(SqliteCoordination(path)) as port:
        port.create_if_absent("parent", "wrote")
        assert run_in_child(lambda: done(port.create_if_absent("child", "wrote"))) == 0
        assert [entry.key for entry in done(port.list(""))] == ["child", "parent"]
        assert port.swap("parent", "wrote", "writes on") == Done(value=True)


# ---- Several processes on one coordination file: one winner, no lost update, one decision, one holder; and they die.


TTL = 3.0
MARGIN = 0.5
WAIT = 1.0


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    """Nobody has opened the file yet: all processes are its first openers."""
    return partial(SqliteCoordination, tmp_path / "c.db", busy_timeout=30.0)


def test_twenty_processes_create_one_key_and_one_wins_each_of_fifty_rounds(recipe: Recipe) -> None:
    """CO-1."""
    rounds = list(zip(*together(20, race_to_create, recipe, 50), strict=True))
    assert len(rounds) == 50
    for each in rounds:
        assert sum(won for won, _ in each) == 1
        assert len({standing for _, standing in each}) == 1


def test_no_update_is_lost_when_four_processes_swap(recipe: Recipe) -> None:
    """CO-2."""
    refused = together(4, count_up, recipe, 50)
    with closing(recipe()) as coordination:
        entry = done(coordination.get("counter"))
    assert entry is not None
    assert entry.value == "200", f"refused swaps: {refused}"


def test_no_update_is_lost_of_a_process_that_opened_the_file_twice(recipe: Recipe) -> None:
    """CO-2: the second opening may not give back the locks of the first, else whoever leaves deletes its log."""
    with closing(recipe()) as twice, closing(recipe()):
        together(1, count_up, recipe, 1)
        assert done(twice.swap("counter", "1", "2"))
        together(1, count_up, recipe, 1)
        entry = done(twice.get("counter"))
    assert entry is not None
    assert entry.value == "3"


def test_eight_nodes_that_start_at_once_and_see_different_stores_follow_one_decision(recipe: Recipe) -> None:
    """W-08, S-27."""
    found = together(8, resolve_policy, recipe)
    assert len({(each.decision, each.backing, each.epoch) for each in found}) == 1
    assert sum(each.own for each in found) == 1
    with closing(recipe()) as coordination:
        assert len(done(coordination.list("decision/"))) == 1


@pytest.mark.parametrize("fatal", [signal.SIGKILL, signal.SIGSTOP])
def test_a_lock_is_taken_over_only_after_its_holder_has_stopped_acting(
    recipe: Recipe,
    fatal: signal.Signals,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """CO-3, W-22: the heir's lock begins after the holder's own deadline, and it knows of the unclean end."""
    found = take_over(recipe, TTL, MARGIN, WAIT, fatal)
    assert found.taken_at > found.deadline
    assert not found.clean
    assert found.token == 2
    with capsys.disabled():
        print(f"\nsqlite: {fatal.name} of the holder: {found} (TTL {TTL:g} + wait {WAIT:g} s)")  # noqa: T201  asked for


# ---- Processes die inside transactions of the coordination store: all of a change is there or none.


#: More than any call runs.
STATEMENTS_MAX = 20
BEFORE = {"lock": "held", "token": "1"}

Change: TypeAlias = Callable[[SqliteCoordination, str], object]

#: Each change, and what is there after it.
CHANGES: Mapping[str, tuple[Change, dict[str, str]]] = {
    "create": (lambda port, lease: port.create_if_absent("bound", "new", lease), {**BEFORE, "bound": "new"}),
    "swap": (lambda port, _lease: port.swap("token", "1", "2"), {**BEFORE, "token": "2"}),
    "delete": (lambda port, _lease: port.swap("token", "1", None), {"lock": "held"}),
    "revoke": (lambda port, lease: port.revoke(lease), {"token": "1"}),
    "keep alive": (lambda port, lease: port.keep_alive(lease), BEFORE),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_process_that_dies_before_any_statement_of_a_change_leaves_all_of_it_or_nothing(
    tmp_path: Path,
    name: str,
) -> None:
    """Nothing between the two states can be seen, and the next process finds neither a lock nor damage."""
    change, after = CHANGES[name]
    for statements in range(1, STATEMENTS_MAX):
        path = tmp_path / f"{statements}.db"
        with closing(SqliteCoordination(path)) as port:
            lease = done(port.grant(1000))
            done(port.create_if_absent("lock", "held", lease))
            done(port.create_if_absent("token", "1"))
        ended = run_in_child(partial(_die_at, path, change, lease, statements))
        assert integrity(path) == "ok"
        with closing(SqliteCoordination(path, busy_timeout=0.0)) as port:
            seen = {entry.key: entry.value for entry in done(port.list(""))}
            assert seen == (after if ended == 0 else BEFORE)
            assert done(port.swap("next", None, "goes on"))
        if ended == 0:
            assert statements > 2, "the call was not seen to die"
            return
        assert ended == -signal.SIGKILL
    pytest.fail(f"the call needs more than {STATEMENTS_MAX} statements: raise the bound")


def _die_at(path: Path, change: Change, lease: str, statements: int) -> None:
    countdown = Countdown(signal.SIGKILL)
    with closing(SqliteCoordination(path)) as port:
        countdown.set(statements)
        change(port, lease)
        countdown.set(0)
