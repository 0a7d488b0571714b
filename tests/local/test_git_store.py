"""What the store on git promises beyond the suite that all stores pass."""

from __future__ import annotations

import os
import threading
from io import BytesIO
from pathlib import Path

import pygit2
import pytest
from attrs import evolve

from perago_core.answers import Answer, Done, NotDone, Unknown
from perago_core.names import target_prefix
from perago_core.plan import Condition, PublishPlan
from perago_core.policy.messages import Capability
from perago_core.values import Backing, CommitRef, Target, claim_of
from perago_local.git import GitStore
from perago_local.git.answers import Uncertain
from perago_local.git.probe import probe
from tests.conformance.implementations.git import commit_with_git, git
from tests.conformance.support import attempt_at, contents, done, plan_for, refused
from tests.local.git_world import FILES, GitWorld


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


@pytest.mark.parametrize("problem", [OSError("no space left on the device"), Uncertain("half of it was done")])
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
    for name in (".probe-old", ".making-old"):
        os.utime(tmp_path / name, (0, 0))
    done(store.probe())
    assert sorted(each.name for each in tmp_path.iterdir() if each.is_dir()) == [".probe-new", "lake.git"]


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
