"""A repository of ours is an ordinary repository: the git command line reads, checks, packs and collects it."""

from __future__ import annotations

import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path

import pytest

from perago_core.values import claim_of
from tests.conformance.implementations.git import commit_with_git, git
from tests.conformance.support import done, refused
from tests.local.git_victims import victim
from tests.local.git_world import GitWorld, link


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
