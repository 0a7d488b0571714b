"""What every store promises the core, whatever it is built on."""

from __future__ import annotations

import pickle
from io import BytesIO
from typing import Any

import pytest
from attrs import evolve

from perago_conformance.bodies import BIG
from perago_conformance.harness import StoreHarness
from perago_conformance.support import (
    FIRST,
    MAIN,
    PROCESSES,
    anchor,
    attempt_at,
    claim,
    contents,
    done,
    elsewhere,
    head_of,
    parents_of,
    plan_for,
    race,
    refused,
    stage,
    strongest,
    write,
)
from perago_core import fence
from perago_core.answers import Answer, Done, NotDone, Unknown
from perago_core.names import (
    EVERY,
    commit_message,
    over_in,
    recovery_name,
    revert_message,
    run_branch,
    says_another,
    target_prefix,
)
from perago_core.plan import PlanKind, PublishPlan
from perago_core.ports import RunBranches, Sink, Source, Store, Stored
from perago_core.values import SHARING, Attempt, Backing, Between, Claim, CommitRef, Scope, Target, claim_of

ABSENT = CommitRef("0123456789abcdef0123456789abcdef01234567")

ODD = {
    "räksmörgås/日本語 🙂.txt": "naïve".encode(),
    "with space/and 'quotes' \"too\".csv": b"1,2",
    "a/b/c/d/e/f/g/h.bin": bytes(range(256)),
    "-leading-dash": b"-",
    "percent%20and#hash?query&more=1": b"%",
    "UPPER/lower.TXT": b"case",
    "trailing.dot.": b".",
    "empty": b"",
    "big.bin": BIG,
}

ESCAPES = ["../up", "a/../../up", "/absolute", "", "a//b", "./a", "a/./b", "nul\0byte", "a/.."]


# ---------------------------------------------------------------------------------------------------------------------
# Reading


def test_a_branch_or_repository_that_is_not_there_is_an_answer_and_no_error(store: StoreHarness) -> None:
    store.create(MAIN, FIRST)
    assert done(store.port.head(Target("lake", "nowhere"))) is None
    assert done(store.port.head(Target("nowhere", "main"))) is None
    assert done(store.port.look("lake", ABSENT)) is None


def test_head_and_look_show_the_same_commit(store: StoreHarness) -> None:
    """N-14: the tip, its parents and its tree come from one coherent read."""
    first = store.create(MAIN, FIRST)
    second = store.stranger_commits(MAIN, {"keep.txt": b"changed"})
    head = done(store.port.head(MAIN))
    assert head is not None
    assert (head.commit.ref, head.commit.parents, head.dirty) == (second, (first,), False)
    looked = done(store.port.look("lake", second))
    assert looked is not None
    assert (looked.ref, looked.parents, looked.tree) == (second, (first,), head.commit.tree)


def test_a_commit_reads_back_what_was_written_under_odd_keys(store: StoreHarness) -> None:
    ref = store.create(MAIN, ODD)
    source = store.port.read("lake", ref)
    assert contents(source) == ODD
    listed = done(source.list())
    assert {each.path: each.size for each in listed} == {path: len(data) for path, data in ODD.items()}
    assert len({each.checksum for each in listed}) == len(ODD)


def test_a_listing_is_sorted_and_knows_prefixes(store: StoreHarness) -> None:
    source = store.port.read("lake", store.create(MAIN, FIRST))
    assert [each.path for each in done(source.list())] == sorted(FIRST)
    assert [each.path for each in done(source.list("data/"))] == ["data/a.txt", "data/b.txt"]
    assert done(source.list("no such")) == ()


def test_equal_contents_have_equal_checksums(store: StoreHarness) -> None:
    """A cache keyed by checksum downloads nothing twice."""
    ref = store.create(MAIN, {"one": b"same", "two": b"same", "three": b"other"})
    one, three, two = (each.checksum for each in done(store.port.read("lake", ref).list()))
    assert one == two != three


def test_an_object_that_is_not_there_is_refused(store: StoreHarness) -> None:
    ref = store.create(MAIN, FIRST)
    refused(store.port.read("lake", ref).get("data"))
    refused(store.port.read("lake", ref).get("absent"))
    refused(store.port.read("lake", ABSENT).list())


def test_a_source_is_immutable_and_picklable(store: StoreHarness) -> None:
    source = store.port.read("lake", store.create(MAIN, FIRST))
    store.stranger_commits(MAIN, {"data/a.txt": b"changed", "data/b.txt": None})
    copied: Source = pickle.loads(pickle.dumps(source))  # noqa: S301  our own pickle
    assert contents(source) == contents(copied) == FIRST


# ---------------------------------------------------------------------------------------------------------------------
# Staging


def test_a_staging_name_is_created_once_whoever_made_it(store: StoreHarness) -> None:
    """P-42, S-31."""
    ref = store.create(MAIN, FIRST)
    name = attempt_at(ref).staging_name
    done(store.port.open_staging(MAIN, name, ref))
    refused(store.port.open_staging(MAIN, name, ref))
    refused(store.port.open_staging(MAIN, MAIN.branch, ref))
    assert store.branches("lake") == {"main", name}


def test_a_staging_name_starts_at_a_commit_that_exists(store: StoreHarness) -> None:
    name = attempt_at(store.create(MAIN, FIRST)).staging_name
    refused(store.port.open_staging(MAIN, name, ABSENT))
    assert store.branches("lake") == {"main"}


def test_what_is_put_is_not_staged_until_it_is_linked(store: StoreHarness) -> None:
    """The uploads of losers never become part of the staged commit."""
    ref = store.create(MAIN, FIRST)
    attempt = attempt_at(ref)
    done(store.port.open_staging(MAIN, attempt.staging_name, ref))
    sink = store.port.sink(MAIN, attempt.staging_name)
    done(sink.put("lost.txt", BytesIO(b"loser")))
    done(sink.put("data/a.txt", BytesIO(b"loser")))
    winner = done(sink.put("data/a.txt", BytesIO(b"winner")))
    assert (winner.path, winner.size) == ("data/a.txt", 6)
    assert {each.path for each in done(sink.list())} == set(FIRST)
    done(sink.link((winner,)))
    staged = done(store.port.commit(MAIN, attempt.staging_name, "one winner"))
    assert staged is not None
    assert contents(store.port.read("lake", staged.commit)) == {**FIRST, "data/a.txt": b"winner"}


def test_a_link_adds_replaces_and_removes(store: StoreHarness) -> None:
    attempt = attempt_at(store.create(MAIN, FIRST))
    staged = stage(store, attempt, {"data/a.txt": b"new", "more/c.txt": b"c"}, deleted=("keep.txt", "never there"))
    expected = {"data/a.txt": b"new", "data/b.txt": b"beta", "more/c.txt": b"c"}
    assert contents(store.port.read("lake", staged.commit)) == expected
    sink = store.port.sink(MAIN, attempt.staging_name)
    assert [each.path for each in done(sink.list("data/"))] == ["data/a.txt", "data/b.txt"]


def test_odd_keys_survive_staging(store: StoreHarness) -> None:
    staged = stage(store, attempt_at(store.create(MAIN, {"x": b"x"})), ODD, deleted=("x",))
    assert contents(store.port.read("lake", staged.commit)) == ODD


@pytest.mark.parametrize("path", ESCAPES, ids=repr)
def test_a_path_that_leaves_the_repository_is_refused(store: StoreHarness, path: str) -> None:
    ref = store.create(MAIN, FIRST)
    attempt = attempt_at(ref)
    done(store.port.open_staging(MAIN, attempt.staging_name, ref))
    sink = store.port.sink(MAIN, attempt.staging_name)
    refused(sink.put(path, BytesIO(b"escaped")))
    good = done(sink.put("good", BytesIO(b"good")))
    if path:
        refused(sink.link((good, evolve(good, path=path))))
    assert {each.path for each in done(sink.list())} == set(FIRST), "a refused link must link nothing"


def test_a_staged_commit_stands_on_the_input_and_says_what_a_person_wrote(store: StoreHarness) -> None:
    """P-25: repository, name, commit and tree are all a process needs that knows nothing else."""
    ref = store.create(MAIN, FIRST)
    attempt = attempt_at(ref)
    staged = stage(store, attempt, {"data/a.txt": b"new"})
    assert (staged.repository, staged.branch) == ("lake", attempt.staging_name)
    commit = done(store.port.look("lake", staged.commit))
    assert commit is not None
    assert (commit.parents, commit.tree) == ((ref,), staged.tree)
    assert commit.message.strip() == f"staged by {attempt.execution}"
    assert head_of(store) == ref, "staging must not move the target"


def test_a_published_commit_says_of_which_task_it_is(store: StoreHarness) -> None:
    """S-06: where two tasks write the same on one input, nothing else tells whose commit it is."""
    attempt = attempt_at(store.create(MAIN, FIRST), backing=strongest(store))
    done(store.port.open_staging(MAIN, attempt.staging_name, attempt.input))
    write(store.port.sink(MAIN, attempt.staging_name), {"data/a.txt": b"new"})
    message = commit_message(attempt.logical_task, attempt.number, attempt.task_id)
    staged = done(store.port.commit(MAIN, attempt.staging_name, message))
    claim(store, attempt, staged)
    done(store.port.publish(plan_for(store, attempt, staged)))
    head = done(store.port.head(MAIN))
    assert head is not None
    assert not says_another(head.commit.message, attempt.logical_task)
    assert says_another(head.commit.message, f"{attempt.logical_task}-2")


def test_equal_content_is_an_equal_tree_and_other_content_another(store: StoreHarness) -> None:
    """The owner rule compares parent and tree, and takes every record with an equal one for a possible owner.

    A store whose trees are each execution's own (on lakeFS a tree names where its objects are stored) leaves it one.
    """
    ref = store.create(MAIN, FIRST)
    one, two, three = (
        stage(store, attempt_at(ref, number=number), {"data/a.txt": data}).tree
        for number, data in ((1, b"same"), (2, b"same"), (3, b"other"))
    )
    assert (one == two) is store.traits.equal_trees
    assert three not in {one, two}


def test_nothing_linked_is_nothing_to_commit(store: StoreHarness) -> None:
    """S-12."""
    ref = store.create(MAIN, FIRST)
    attempt = attempt_at(ref)
    done(store.port.open_staging(MAIN, attempt.staging_name, ref))
    assert done(store.port.commit(MAIN, attempt.staging_name, "nothing")) is None


def test_the_same_bytes_again_are_nothing_to_commit(store: StoreHarness) -> None:
    """S-12."""
    ref = store.create(MAIN, FIRST)
    attempt = attempt_at(ref)
    done(store.port.open_staging(MAIN, attempt.staging_name, ref))
    write(store.port.sink(MAIN, attempt.staging_name), {"data/a.txt": FIRST["data/a.txt"]}, deleted=("never there",))
    assert done(store.port.commit(MAIN, attempt.staging_name, "nothing")) is None


def test_a_name_that_is_gone_is_neither_linked_nor_committed(store: StoreHarness) -> None:
    ref = store.create(MAIN, FIRST)
    attempt = attempt_at(ref)
    done(store.port.open_staging(MAIN, attempt.staging_name, ref))
    sink = store.port.sink(MAIN, attempt.staging_name)
    stored = done(sink.put("late.txt", BytesIO(b"late")))
    done(store.port.drop(MAIN, attempt.staging_name))
    refused(sink.link((stored,)))
    refused(store.port.commit(MAIN, attempt.staging_name, "late"))
    assert store.branches("lake") == {"main"}


def put_far_away(sink: Sink, source: Source, path: str) -> Stored:
    """Do what an executor does on another machine: read the input, write the output."""
    return done(sink.put(path, BytesIO(contents(source)["data/a.txt"] + b" from far away")))


def test_a_sink_and_a_source_work_in_another_process(store: StoreHarness) -> None:
    """P-25: what was put elsewhere is linked here."""
    ref = store.create(MAIN, FIRST)
    attempt = attempt_at(ref)
    done(store.port.open_staging(MAIN, attempt.staging_name, ref))
    sink = store.port.sink(MAIN, attempt.staging_name)
    source = store.port.read("lake", ref)
    stored = [elsewhere(store.recipe, put_far_away, sink, source, f"far-{number}.txt") for number in (1, 2)]
    done(sink.link(tuple(stored)))
    staged = done(store.port.commit(MAIN, attempt.staging_name, "far"))
    assert staged is not None
    assert store.read_file("lake", staged.commit, "far-2.txt") == b"alpha from far away"
    copied: Sink = pickle.loads(pickle.dumps(sink))  # noqa: S301  our own pickle
    assert done(copied.list("far-")) == done(sink.list("far-"))


def test_a_seal_hides_nothing_and_adds_no_data(store: StoreHarness) -> None:
    ref = store.create(MAIN, FIRST)
    attempt = attempt_at(ref)
    done(store.port.open_staging(MAIN, attempt.staging_name, ref))
    sink = store.port.sink(MAIN, attempt.staging_name)
    done(sink.seal("data/_perago_manifest.json", b"{}"))
    read = [each.path for each in done(sink.list()) if not each.path.rpartition("/")[2].startswith(("_", "."))]
    assert read == sorted(FIRST)


def test_dropping_is_idempotent(store: StoreHarness) -> None:
    """N-02, S-32."""
    ref = store.create(MAIN, FIRST)
    name = attempt_at(ref).staging_name
    done(store.port.drop(MAIN, name))
    done(store.port.open_staging(MAIN, name, ref))
    done(store.port.drop(MAIN, name))
    done(store.port.drop(MAIN, name))
    assert store.branches("lake") == {"main"}


def test_only_publishing_moves_or_removes_a_target(store: StoreHarness) -> None:
    """S-11."""
    ref = store.create(MAIN, FIRST)
    refused(store.port.drop(MAIN, MAIN.branch))
    sink = store.port.sink(MAIN, MAIN.branch)
    stored = sink.put("sneaky.txt", BytesIO(b"sneaky"))
    if isinstance(stored, Done):
        refused(sink.link((stored.value,)))
    refused(store.port.commit(MAIN, MAIN.branch, "sneaky"))
    head = done(store.port.head(MAIN))
    assert head is not None
    assert (head.commit.ref, head.dirty) == (ref, False)


# ---------------------------------------------------------------------------------------------------------------------
# Claims


def some_claim(number: int = 1, execution: str = "run", task: str = "wf/step") -> Claim:
    return claim_of(attempt_at(ABSENT, number=number, execution=execution, task=task), None)


def test_the_first_claim_of_an_attempt_stands(store: StoreHarness) -> None:
    store.create(MAIN, FIRST)
    first = evolve(some_claim(execution="first"), tree="tree-1")
    assert done(store.port.read_claim(first)) is None
    assert done(store.port.claim(first)) == first
    assert done(store.port.claim(first)) == first, "asked again by its owner, it still stands"
    second = some_claim(execution="second")
    assert done(store.port.claim(second)) == first
    assert done(store.port.read_claim(second)) == first


def test_claims_are_listed_for_their_own_task_only(store: StoreHarness) -> None:
    """``a.b`` and ``a-b`` share their readable letters, and nothing else."""
    store.create(MAIN, FIRST)
    other = Target("lake", "other")
    store.create(other, FIRST)
    mine = [done(store.port.claim(some_claim(number, f"run-{number}", "a.b"))) for number in (1, 2)]
    alike = done(store.port.claim(some_claim(1, "alike", "a-b")))
    done(store.port.claim(evolve(some_claim(1, "elsewhere", "a.b"), target=other)))
    listed = done(store.port.claims(MAIN, "a.b"))
    assert sorted(listed, key=lambda each: each.number) == mine
    assert done(store.port.claims(MAIN, "a-b")) == (alike,)
    assert done(store.port.claims(MAIN, "a")) == ()


def claim_once(port: Store, number: int, racer: int) -> tuple[str, str]:
    mine = some_claim(execution=f"run-{number}-{racer}", task=f"race/{number}")
    return mine.execution, done(port.claim(mine)).execution


def test_one_execution_wins_the_claim_in_every_race(store: StoreHarness) -> None:
    """S-17."""
    store.create(MAIN, FIRST)
    for results in race(store.port, store.recipe, claim_once):
        winners = {stands for _, stands in results}
        assert len(winners) == 1
        assert winners <= {mine for mine, _ in results}
        assert sum(mine == stands for mine, stands in results) == 1


def test_a_claim_is_raised_strictly_upward_where_the_store_knows_claims(store: StoreHarness) -> None:
    """An older attempt that comes late is told of the newer one; elsewhere each attempt has its own record."""
    store.create(MAIN, FIRST)
    newer = done(store.port.claim(some_claim(2, "newer")))
    older = some_claim(1, "older")
    stands = done(store.port.claim(older))
    assert stands == (newer if store.traits.raises_claims else older)
    highest = some_claim(3, "highest")
    assert done(store.port.claim(highest)) == highest


# ---------------------------------------------------------------------------------------------------------------------
# Revocation and barrier


def test_the_names_of_one_target_can_be_listed_and_dropped_one_by_one(store: StoreHarness) -> None:
    """S-01, S-30, S-32: whatever task they are of, and nobody else's; who of them may not act is the core's to say."""
    ref = store.create(MAIN, FIRST)
    beside = Target("lake", "beside")
    names = {
        "older": attempt_at(ref, number=1, task="a.b").staging_name,
        "old": attempt_at(ref, number=2, task="a.b").staging_name,
        "mine": attempt_at(ref, number=10, task="a.b").staging_name,
        "newer": attempt_at(ref, number=11, task="a.b").staging_name,
        "alike": attempt_at(ref, number=1, task="a-b").staging_name,
        "recovery": recovery_name(MAIN, "a.b", 1, "task", "0b5e"),
    }
    others = {"perago-not-a-name-of-ours", evolve(attempt_at(ref), target=beside).staging_name}
    for name in {*names.values(), *others}:
        done(store.port.open_staging(MAIN, name, ref))
    listed = done(store.port.staging_names("lake", target_prefix(MAIN)))
    assert sorted(listed) == sorted(names.values())
    done(store.port.drop(MAIN, names["older"]))
    assert store.branches("lake") == {"main", *names.values(), *others} - {names["older"]}
    left = done(store.port.staging_names("lake", target_prefix(MAIN)))
    assert set(left) == set(names.values()) - {names["older"]}
    assert done(store.port.staging_names("lake", target_prefix(Target("lake", "elsewhere")))) == ()


def test_a_barrier_passes_on_a_clean_target_and_moves_nothing(store: StoreHarness) -> None:
    ref = store.create(MAIN, FIRST)
    done(store.port.barrier(MAIN))
    done(store.port.barrier(MAIN))
    assert head_of(store) == ref
    assert store.branches("lake") == {"main"}
    refused(store.port.barrier(Target("lake", "nowhere")))


# ---------------------------------------------------------------------------------------------------------------------
# Publication


def test_a_merge_publishes_the_staged_content_directly_on_the_input(store: StoreHarness) -> None:
    """S-04: one commit, one parent, the staged tree."""
    ref = store.create(MAIN, FIRST)
    attempt = attempt_at(ref, backing=strongest(store))
    staged = stage(store, attempt, {"data/a.txt": b"published"}, deleted=("keep.txt",))
    plan = plan_for(store, attempt, staged)
    assert plan.kind is PlanKind.MERGE
    published = done(store.port.publish(plan))
    commit = done(store.port.look("lake", published))
    assert commit is not None
    assert head_of(store) == published
    assert fence.verified(plan, commit)
    assert (commit.parents, commit.tree) == ((ref,), staged.tree)
    assert contents(store.port.read("lake", published)) == {"data/a.txt": b"published", "data/b.txt": b"beta"}


def published_and_abandoned(store: StoreHarness, backing: Backing) -> tuple[CommitRef, CommitRef]:
    """Let a first attempt publish and die; give the input and the abandoned head."""
    ref = store.create(MAIN, FIRST)
    first = attempt_at(ref, backing=backing)
    staged = stage(store, first, {"data/a.txt": b"abandoned"})
    return ref, done(store.port.publish(plan_for(store, first, staged)))


def test_a_replacement_leaves_no_trace_of_what_it_replaced(store: StoreHarness) -> None:
    """S-03: history A -> C, never A -> H -> C."""
    backing = strongest(store)
    ref, _ = published_and_abandoned(store, backing)
    second = attempt_at(ref, number=2, backing=backing)
    staged = stage(store, second, {"data/b.txt": b"second"})
    plan = plan_for(store, second, staged)
    assert plan.kind is PlanKind.REPLACE
    published = done(store.port.publish(plan))
    assert head_of(store) == published
    assert parents_of(store, published) == (ref,)
    assert contents(store.port.read("lake", published)) == {**FIRST, "data/b.txt": b"second"}


def revert_of(store: StoreHarness, dead: Attempt, published: CommitRef, turn: int) -> tuple[Claim, str]:
    """Stage and claim what reverts a publication."""
    name = recovery_name(MAIN, dead.logical_task, dead.number, dead.task_id, f"recovery{turn}")
    done(store.port.open_staging(MAIN, name, published))
    message = revert_message(published, dead.logical_task, dead.number, dead.task_id)
    staged = done(store.port.revert(MAIN, name, message))
    assert staged is not None
    claim = evolve(
        claim_of(dead, staged),
        execution=f"recovery-{turn}",
        parent=published,
        result=None,
        reverts=published,
        turn=turn,
    )
    assert done(store.port.claim(claim)) == claim
    return claim, name


def test_work_joins_what_others_have_published_and_the_staged_commit_shows_in_it(store: StoreHarness) -> None:
    """Merged three ways onto a head above its input, conditioned on that head; known by its second parent."""
    backing = strongest(store)
    if backing not in SHARING:
        pytest.skip("this store does not check the head in its own update")
    ref = store.create(MAIN, FIRST)
    mine = evolve(attempt_at(ref, backing=backing), scope=Scope(("data/",), ("data/",)))
    others = evolve(attempt_at(ref, backing=backing, task="wf/other", execution="run-o"), scope=Scope((), ("other/",)))
    staged, theirs = stage(store, mine, {"data/a.txt": b"mine"}), stage(store, others, {"other/o.txt": b"theirs"})
    early = plan_for(store, mine, staged)
    below = done(store.port.publish(plan_for(store, others, theirs)))
    refused(store.port.publish(early))
    seen = done(store.port.since("lake", ref, below, ("data/",)))
    assert seen is not None
    head = done(store.port.head(MAIN))
    decision = fence.decide(fence.Case(mine, staged, head, between=Between(seen)))
    assert isinstance(decision, fence.Allowed)
    published = done(store.port.publish(decision.plan))
    commit = done(store.port.look("lake", published))
    assert commit is not None
    assert commit.parents == (below, staged.commit)
    assert fence.verified(decision.plan, commit)
    assert contents(store.port.read("lake", published)) == {**FIRST, "data/a.txt": b"mine", "other/o.txt": b"theirs"}


def test_work_above_unaccepted_work_says_so_in_its_commit_also_on_what_it_was_staged_on(store: StoreHarness) -> None:
    """Who reads the branch asks about the newest publication and those that it names, and takes all else on trust."""
    backing = strongest(store)
    if backing not in SHARING:
        pytest.skip("this store does not check the head in its own update")
    ref = store.create(MAIN, FIRST)
    dead = evolve(attempt_at(ref, backing=backing), scope=Scope((), ("data/",)))
    published = done(store.port.publish(plan_for(store, dead, stage(store, dead, {"data/a.txt": b"dead"}))))
    for task, base in (("a", ref), ("b", None)):
        head = done(store.port.head(MAIN))
        assert head is not None
        mine = evolve(
            attempt_at(base or head.commit.ref, backing=backing, task=f"wf/{task}", execution=f"run-{task}"),
            scope=Scope((), (f"{task}/",), (f"{task}/",)),
        )
        staged = stage(store, mine, {f"{task}/x.txt": b"mine"})
        above = done(store.port.since("lake", mine.input, head.commit.ref, (f"{task}/",)))
        assert above is not None
        found = Between(above, over=(published,))
        decision = fence.decide(fence.Case(mine, staged, head, between=found))
        assert isinstance(decision, fence.Allowed)
        commit = done(store.port.look("lake", done(store.port.publish(decision.plan))))
        assert commit is not None
        assert commit.parents == (head.commit.ref, staged.commit)
        assert over_in(commit.message) == (published,)
        assert fence.verified(decision.plan, commit)
        seen = done(store.port.head(MAIN))
        assert seen is not None
        assert over_in(seen.commit.message) == (published,)
    there = {**FIRST, "data/a.txt": b"dead", "a/x.txt": b"mine", "b/x.txt": b"mine"}
    assert contents(store.port.read("lake", head_of(store))) == there


def test_a_revert_undoes_one_publication_below_others_and_nothing_that_was_changed_since(store: StoreHarness) -> None:
    """Staged on the publication with the content before it, and joined onto the head; conditioned on that head."""
    backing = strongest(store)
    if backing not in SHARING:
        pytest.skip("this store does not check the head in its own update")
    ref = store.create(MAIN, FIRST)
    dead = evolve(attempt_at(ref, backing=backing), scope=Scope((), ("data/",)))
    staged = stage(store, dead, {"data/a.txt": b"dead", "data/new.txt": b"dead"})
    published = done(store.port.publish(plan_for(store, dead, staged)))
    others = evolve(
        attempt_at(published, backing=backing, task="wf/other", execution="run-o"), scope=Scope((), ("o/",))
    )
    above = done(store.port.publish(plan_for(store, others, stage(store, others, {"o/o.txt": b"theirs"}))))
    claim, name = revert_of(store, dead, published, 1)
    head = done(store.port.head(MAIN))
    assert head is not None
    plan = fence.revert(claim, head, name)
    reverted = done(store.port.publish(plan))
    assert parents_of(store, reverted) == (above, claim.staged)
    assert contents(store.port.read("lake", reverted)) == {**FIRST, "o/o.txt": b"theirs"}
    refused(store.port.publish(evolve(plan, expected=above)))


def test_a_revert_of_what_somebody_has_changed_since_is_refused(store: StoreHarness) -> None:
    backing = strongest(store)
    if backing not in SHARING:
        pytest.skip("this store does not check the head in its own update")
    ref = store.create(MAIN, FIRST)
    dead = evolve(attempt_at(ref, backing=backing), scope=Scope((), ("data/",)))
    published = done(store.port.publish(plan_for(store, dead, stage(store, dead, {"data/a.txt": b"dead"}))))
    others = evolve(attempt_at(published, backing=backing, task="wf/other", execution="run-o"), scope=dead.scope)
    above = done(store.port.publish(plan_for(store, others, stage(store, others, {"data/a.txt": b"theirs"}))))
    claim, name = revert_of(store, dead, published, 1)
    head = done(store.port.head(MAIN))
    assert head is not None
    refused(store.port.publish(fence.revert(claim, head, name)))
    assert head_of(store) == above


def test_a_recoverys_claim_is_above_its_attempt_and_below_the_next(store: StoreHarness) -> None:
    """Each recovery of a task has a record of its own, and each is above those before it."""
    store.create(MAIN, FIRST)
    attempt = done(store.port.claim(some_claim(1, "attempt")))
    first, second = (
        evolve(attempt, execution=f"recovery-{turn}", reverts=attempt.parent, turn=turn) for turn in (1, 2)
    )
    assert done(store.port.claim(first)) == first
    assert done(store.port.claim(evolve(first, execution="another"))) == first
    assert done(store.port.claim(second)) == second
    stands = done(store.port.claim(evolve(some_claim(1, "late"), task_id="late")))
    assert (stands == second) is store.traits.raises_claims
    following = some_claim(2, "next")
    assert done(store.port.claim(following)) == following
    listed = done(store.port.claims(MAIN, attempt.logical_task))
    assert {attempt, first, second, following} <= set(listed)


def test_a_name_that_is_not_there_reverts_nothing(store: StoreHarness) -> None:
    ref = store.create(MAIN, FIRST)
    attempt = attempt_at(ref, backing=Backing.ATOMIC)
    refused(store.port.revert(MAIN, attempt.staging_name, "Revert"))


def test_what_lies_between_two_commits_is_listed_with_who_changed_what(store: StoreHarness) -> None:
    first = store.create(MAIN, FIRST)
    second = store.stranger_commits(MAIN, {"data/a.txt": b"2", "x/1.txt": b"2"})
    third = store.stranger_commits(MAIN, {"data/sub/c.txt": b"3", "y.txt": b"3"})

    def touched(base: CommitRef, *prefixes: str) -> list[tuple[CommitRef, tuple[str, ...]]] | None:
        found = done(store.port.since("lake", base, third, prefixes))
        return None if found is None else [(each.commit.ref, each.touched) for each in found]

    assert touched(first, "data/") == [(third, ("data/sub/c.txt",)), (second, ("data/a.txt",))]
    assert touched(first, "data/sub/", "x/") == [(third, ("data/sub/c.txt",)), (second, ("x/1.txt",))]
    assert touched(second, "data/a", "x/") == [(third, ())]
    assert touched(first, "data-2/") == [(third, ()), (second, ())]
    assert touched(third, "data/") == []
    assert done(store.port.since("lake", third, first, ("data/",))) is None, "it is not below"


def test_history_goes_down_by_first_parent_from_the_head_or_from_a_commit(store: StoreHarness) -> None:
    port: Any = store.port
    if not hasattr(port, "history"):
        pytest.skip("no port asks for the history of a branch, and this store does not list it")
    first = store.create(MAIN, FIRST)
    second, third = (store.stranger_commits(MAIN, {f"{number}.txt": b"more"}) for number in (2, 3))

    def refs(*words: object) -> list[CommitRef]:
        return [each.ref for each in done(port.history(MAIN, *words))]

    assert refs()[:3] == [third, second, first]
    assert refs(2) == [third, second]
    assert refs(2, second) == [second, first]
    assert refs(1, third) == [third]
    assert not isinstance(port.history(MAIN, 1, ABSENT), Done)


def test_a_no_op_returns_the_target_to_the_input(store: StoreHarness) -> None:
    backing = strongest(store)
    ref, abandoned = published_and_abandoned(store, backing)
    second = attempt_at(ref, number=2, backing=backing)
    anchor(store, second)
    plan = plan_for(store, second, None)
    assert (plan.kind, plan.expected) == (PlanKind.RETURN, abandoned)
    assert done(store.port.publish(plan)) == ref
    assert head_of(store) == ref


def prepared(store: StoreHarness, kind: PlanKind, backing: Backing) -> PublishPlan:
    """Return a plan of this kind whose moment has not come yet."""
    if kind is PlanKind.MERGE:
        attempt = attempt_at(store.create(MAIN, FIRST), backing=backing)
        return plan_for(store, attempt, stage(store, attempt, {"data/a.txt": b"mine"}))
    ref, _ = published_and_abandoned(store, backing)
    attempt = attempt_at(ref, number=2, backing=backing)
    if kind is PlanKind.REPLACE:
        return plan_for(store, attempt, stage(store, attempt, {"data/b.txt": b"mine"}))
    anchor(store, attempt)
    return plan_for(store, attempt, None)


@pytest.mark.parametrize("kind", PlanKind, ids=lambda kind: kind.value)
def test_a_head_that_has_moved_is_refused_where_the_store_checks_it(store: StoreHarness, kind: PlanKind) -> None:
    plan = prepared(store, kind, strongest(store))
    moved = store.stranger_commits(MAIN, {"stranger.txt": b"mine too"})
    answer = store.port.publish(plan)
    if kind in store.traits.checks_head:
        assert moved in refused(answer), "the refusal must name the head it found"
        assert head_of(store) == moved
    else:
        assert head_of(store) == done(answer) != moved


@pytest.mark.parametrize("kind", PlanKind, ids=lambda kind: kind.value)
def test_a_plan_that_names_a_deleted_name_is_refused_where_names_revoke(store: StoreHarness, kind: PlanKind) -> None:
    named = [each for each in (Backing.CONDITIONAL, Backing.LOCKED) if each in store.traits.backings]
    backing = named[0] if named else strongest(store)
    plan = prepared(store, kind, backing)
    before = head_of(store)
    if plan.name is not None:
        done(store.port.drop(MAIN, plan.name))
    answer = store.port.publish(plan)
    if store.traits.revocable and plan.name is not None:
        refused(answer)
        assert head_of(store) == before
    else:
        assert head_of(store) == done(answer)


@pytest.mark.parametrize("kind", PlanKind, ids=lambda kind: kind.value)
def test_an_overtaken_claim_is_refused_where_the_store_knows_claims(store: StoreHarness, kind: PlanKind) -> None:
    """A compare-and-swap of the head alone is not enough: it does not say that I may."""
    backing = strongest(store)
    plan = prepared(store, kind, backing)
    before = head_of(store)
    later = attempt_at(plan.expected, number=9, backing=backing)
    done(store.port.claim(claim_of(later, None)))
    answer = store.port.publish(plan)
    if store.traits.raises_claims:
        refused(answer)
        assert head_of(store) == before
    else:
        assert head_of(store) == done(answer) != before


def test_a_target_that_is_missing_is_refused(store: StoreHarness) -> None:
    plan = prepared(store, PlanKind.MERGE, strongest(store))
    refused(store.port.publish(evolve(plan, target=Target("lake", "nowhere"))))
    refused(store.port.publish(evolve(plan, commit=ABSENT)))
    assert "nowhere" not in store.branches("lake")


def test_a_publication_touches_its_own_target_only(store: StoreHarness) -> None:
    others = [Target("lake", "other"), Target("pond", "main")]
    before = [store.create(target, FIRST) for target in others]
    done(store.port.publish(prepared(store, PlanKind.MERGE, strongest(store))))
    assert [head_of(store, target) for target in others] == before


def test_uncommitted_objects_show_and_stop_a_merge_and_the_barrier(store: StoreHarness) -> None:
    """N-08, F-07: dirty means refuse. A store that knows no uncommitted objects never shows any."""
    plan = prepared(store, PlanKind.MERGE, strongest(store))
    if store.traits.uncommitted:
        store.stranger_leaves_uncommitted(MAIN)
    head = done(store.port.head(MAIN))
    assert head is not None
    assert head.dirty is store.traits.uncommitted
    if head.dirty:
        refused(store.port.barrier(MAIN))
        refused(store.port.publish(plan))
        assert head_of(store) == plan.expected


class PublishMine:
    """A racer that publishes the plan made for it; picklable, so that processes can race too."""

    def __init__(self, plans: list[PublishPlan]) -> None:
        self.plans = plans

    def __call__(self, port: Store, number: int, racer: int) -> Answer[CommitRef]:
        return port.publish(self.plans[number * PROCESSES + racer])


def test_one_of_several_equal_merges_wins_where_the_head_is_checked(store: StoreHarness) -> None:
    """Tasks of different workflows at the same input: whoever lands second has not seen this head."""
    backing, rounds = strongest(store), 3
    plans: list[PublishPlan] = []
    for number in range(2 * rounds):
        target = Target("lake", f"race-{number}")
        ref = store.create(target, FIRST)
        for racer in range(PROCESSES):
            task, run = f"wf-{racer}/step", f"run-{number}-{racer}"
            attempt = attempt_at(ref, task=task, execution=run, backing=backing, target=target)
            plans.append(plan_for(store, attempt, stage(store, attempt, {f"{racer}.txt": b"mine"})))
    raced = race(store.port, store.recipe, PublishMine(plans), rounds=rounds, threads=PROCESSES)
    for number, answers in enumerate(raced):
        target = Target("lake", f"race-{number}")
        won = [answer.value for answer in answers if isinstance(answer, Done)]
        assert len(won) + sum(isinstance(answer, NotDone) for answer in answers) == PROCESSES
        assert len(won) == (1 if PlanKind.MERGE in store.traits.checks_head else PROCESSES)
        assert head_of(store, target) in won


# ---------------------------------------------------------------------------------------------------------------------
# Branches of runs


def _runs(store: StoreHarness) -> RunBranches | None:
    port: object = store.port
    assert isinstance(port, RunBranches) is store.traits.holds_runs
    return port if isinstance(port, RunBranches) else None


def test_the_branch_of_a_run_is_made_once_at_a_commit_listed_and_removed(store: StoreHarness) -> None:
    runs, own = _runs(store), Target("lake", run_branch("wf-1"))
    if runs is None:
        return
    first = store.create(MAIN, FIRST)
    store.stranger_commits(MAIN, {"later.txt": b"later"})
    assert done(runs.run_branches("lake")) == ()
    done(runs.branch_off(own, first))
    assert head_of(store, own) == first
    refused(runs.branch_off(own, head_of(store)))
    assert head_of(store, own) == first
    assert done(runs.run_branches("lake")) == (own.branch,)
    assert done(store.port.staging_names("lake", EVERY)) == ()
    for _ in range(2):
        done(runs.remove_branch(own))
        assert done(store.port.head(own)) is None
    assert done(runs.run_branches("lake")) == ()
    assert store.branches("lake") == {"main"}


def test_what_a_run_published_is_linked_to_its_target_or_the_store_shows_that_it_is_not(store: StoreHarness) -> None:
    runs, own = _runs(store), Target("lake", run_branch("wf-1"))
    if runs is None:
        return
    first = store.create(MAIN, FIRST)
    done(runs.branch_off(own, first))
    step = attempt_at(first, target=own)
    published = done(store.port.publish(plan_for(store, step, stage(store, step, {"new.txt": b"new"}, ("keep.txt",)))))
    after = {each.path: each for each in done(store.port.read("lake", published).list())}
    promotion = attempt_at(first, task="wf-1/promote")
    done(store.port.open_staging(MAIN, promotion.staging_name, first))
    sink = store.port.sink(MAIN, promotion.staging_name)
    done(sink.link((after["new.txt"],), ("keep.txt",)))
    if {each.path: each.address for each in done(sink.list())}["new.txt"] != after["new.txt"].address:
        write(sink, {"new.txt": b"new"}, ())  # it is not what was asked for, so the bytes are sent
    staged = done(store.port.commit(MAIN, promotion.staging_name, "promote"))
    assert staged is not None
    promoted = done(store.port.publish(plan_for(store, promotion, staged)))
    assert head_of(store) == promoted
    done(runs.remove_branch(own))
    assert store.read_file("lake", promoted, "new.txt") == b"new"
    assert store.read_file("lake", promoted, "keep.txt") is None


def test_no_branch_but_a_runs_is_made_or_removed(store: StoreHarness) -> None:
    runs = _runs(store)
    if runs is None:
        return
    first = store.create(MAIN, FIRST)
    refused(runs.branch_off(Target("lake", "mine"), first))
    refused(runs.remove_branch(MAIN))
    assert head_of(store) == first
    assert store.branches("lake") == {"main"}


# ---------------------------------------------------------------------------------------------------------------------
# Probe


def test_a_probe_finds_what_the_store_claims_and_leaves_nothing(store: StoreHarness) -> None:
    """N-09: proved by behaviour; a disproof is an answer too, and what can be installed is none."""
    ref = store.create(MAIN, FIRST)
    for _ in range(2):
        answer = store.port.probe()
        if store.traits.probe is None:
            assert isinstance(answer, Unknown if store.traits.installable else NotDone)
        else:
            assert done(answer) is store.traits.probe
    assert store.branches("lake") == {"main"}
    assert head_of(store) == ref


def test_a_store_that_proves_a_capability_supports_its_backing(store: StoreHarness) -> None:
    """A policy that trusts the probe must be able to run on what it chose."""
    proved = store.traits.probe
    assert proved is None or Backing(proved.value) in store.traits.backings
