"""The hook, its installation, the probe, names and claims on a real server: what makes ``conditional`` true."""

from __future__ import annotations

from contextlib import suppress

import pytest
from attrs import evolve

from perago_conformance.support import done, refused, unknown
from perago_core import fence
from perago_core.answers import Unknown
from perago_core.garbage import Living, abandoned_names
from perago_core.names import target_prefix, task_id_of
from perago_core.plan import PublishPlan
from perago_core.policy.messages import Capability
from perago_core.results import Completed
from perago_core.values import Attempt, Backing, StagedRef, Target, claim_of
from perago_lakefs import LakeFSStore, hook
from perago_lakefs.install import install
from tests.core.world import CrashError
from tests.lakefs.scene import Scene, crashing, doing
from tests.support.servers.faulty_proxy import LOSE_ANSWER, FaultyProxy, when

OLD = (
    b"name: old\non: {pre-merge: {branches: []}}\nhooks: [{id: old, type: lua, properties: {script: 'local a = 1'}}]\n"
)


def merged(scene: Scene, **metadata: str) -> int:
    """Merge as somebody would who does not know us; give the status."""
    feature = Target(scene.target.repository, "feature")
    if "feature" not in scene.stranger.branches(scene.target.repository):
        scene.stranger.create_branch(feature, scene.input)
        scene.stranger.commits(feature, {"feature.txt": b"new"})
    return scene.stranger.merges(scene.target, "feature", metadata).status


@pytest.mark.parametrize("strict", [False, True])
def test_the_hook_refuses_a_merge_with_a_wrong_expected_head(scene: Scene, *, strict: bool) -> None:
    """F-03, F-04."""
    scene.input = done(install(scene.stranger.connection, scene.target, strict=strict)).head
    assert merged(scene, perago_expected_head="0" * 64) == 412
    assert merged(scene, perago_expected_head=scene.input, perago_staged="0" * 64) == 412
    assert scene.head() == scene.input
    assert merged(scene, perago_expected_head=scene.input) == 200
    assert done(scene.store.probe()) is Capability.CONDITIONAL


def test_a_persons_merge_is_let_through_and_our_own_condition_notices_it(scene: Scene) -> None:
    """Counterexample: a hook that refuses whoever says no expected head keeps everybody from merging anywhere."""
    person = doing("store.publish.before", lambda: merged(scene))
    refused_ours = scene.run(scene.attempt(), {"data.txt": b"mine"}, person)
    assert "somebody moved it" in str(refused_ours.result)
    assert (scene.file("feature.txt"), scene.file()) == (b"new", b"of the input")


def test_a_strict_hook_refuses_a_merge_that_says_no_expected_head_and_stays_until_it_is_made_lenient(
    scene: Scene,
) -> None:
    connection, target = scene.stranger.connection, scene.target
    strict = done(install(connection, target, strict=True))
    assert (strict.changed, strict.strict) == (True, True)
    scene.input = strict.head
    assert merged(scene) == 412
    kept = done(install(connection, target))
    assert (kept.changed, kept.strict) == (False, True)
    lenient = done(install(connection, target, strict=False))
    assert (lenient.changed, lenient.strict) == (True, False)
    assert merged(scene) == 412, "lakeFS takes the hook from what is merged, and that branch still has the strict one"


def test_installing_is_one_commit_that_keeps_everything_and_is_done_once(bare: Scene) -> None:
    connection, target = bare.stranger.connection, bare.target
    assert "perago init-repo" in refused(install(connection, target, check=True))
    first = done(install(connection, target))
    assert first.changed
    assert bare.history() == [first.head, bare.input]
    assert bare.file() == b"of the input"
    again = done(install(connection, target))
    assert (again.head, again.changed, again.protected) == (first.head, False, False)
    assert done(install(connection, target, check=True)) == again
    assert bare.stranger.branches(target.repository) == {"main"}


def test_an_older_hook_is_replaced_and_until_then_nothing_is_published_by_it(bare: Scene) -> None:
    bare.stranger.commits(bare.target, {hook.PATH: OLD})
    bare.input = bare.head()
    assert "another text" in unknown(bare.store.probe())
    failed = bare.run(bare.attempt(), {"data.txt": b"mine"})
    assert "perago init-repo" in str(failed.result)
    assert done(install(bare.stranger.connection, bare.target)).changed
    bare.input = bare.head()
    assert isinstance(bare.run(bare.attempt(task="wf/again"), {"data.txt": b"mine"}).result, Completed)


def test_a_repository_that_is_not_there_is_made_where_its_namespace_is_given(scene: Scene) -> None:
    connection = scene.stranger.connection
    target = Target(f"{scene.target.repository}-more", "trunk")
    assert "namespace" in refused(install(connection, target))
    assert done(install(connection, target, namespace=f"local://perago/{target.repository}")).changed
    assert "nowhere" in refused(install(connection, evolve(target, branch="nowhere")))


def test_installing_says_that_a_branch_is_protected(scene: Scene) -> None:
    """F-08."""
    scene.stranger.protects(scene.target)
    assert done(install(scene.stranger.connection, scene.target)).protected


def test_the_probe_proves_conditional_and_leaves_nothing(scene: Scene) -> None:
    before = scene.head()
    assert done(scene.store.probe()) is Capability.CONDITIONAL
    assert scene.head() == before
    assert scene.stranger.branches(scene.target.repository) == {"main"}
    assert set(scene.stranger.tags(scene.target.repository)) == {"perago-first-commit"}


def test_a_missing_hook_disproves_nothing_and_the_answer_says_what_to_do(bare: Scene) -> None:
    """N-09, T-W1. Counterexample: one worker starts before ``init-repo``, and the cluster is locked for ever."""
    assert "perago init-repo" in unknown(bare.store.probe())
    assert bare.stranger.branches(bare.target.repository) == {"main"}
    done(install(bare.stranger.connection, bare.target))
    assert done(bare.store.probe()) is Capability.CONDITIONAL


def staged_by(scene: Scene, attempt: Attempt, *, hooked: bool = True) -> StagedRef:
    """Stage one file, and take the hook out of what is staged if asked to."""
    place = Target(scene.target.repository, attempt.staging_name)
    done(scene.store.open_staging(scene.target, place.branch, scene.input))
    scene.stranger.writes(place, "data.txt", attempt.execution.encode())
    if not hooked:
        scene.stranger.deletes(place, hook.PATH)
    staged = done(scene.store.commit(scene.target, place.branch, "staged"))
    assert staged is not None
    return staged


def planned(scene: Scene, attempt: Attempt, staged: StagedRef, token: int | None = None) -> PublishPlan:
    head = done(scene.store.head(scene.target))
    decision = fence.decide(fence.Case(attempt, staged, head, (claim_of(attempt, staged),), token=token))
    assert isinstance(decision, fence.Allowed)
    return decision.plan


def test_the_probe_proves_nothing_where_there_is_nothing_to_try_it_in(scene: Scene) -> None:
    """T-W1: a cluster must not settle for less because somebody misspelt a repository."""
    probed = LakeFSStore(scene.stranger.connection, ("not-there",)).probe()
    assert isinstance(probed, Unknown)
    assert "not-there" in probed.reason


def test_a_staged_commit_that_lost_the_hook_is_not_published_by_conditional(scene: Scene) -> None:
    """F-05: lakeFS would merge it onto any head, and take the hook away from everybody."""
    attempt = scene.attempt()
    staged = staged_by(scene, attempt, hooked=False)
    assert "found none" in refused(scene.store.publish(planned(scene, attempt, staged)))
    assert scene.head() == scene.input


def test_under_a_lease_a_repository_without_the_hook_is_published_to(bare: Scene) -> None:
    """``locked`` does not rest on the hook."""
    attempt = bare.attempt(backing=Backing.LOCKED)
    staged = staged_by(bare, attempt)
    published = done(bare.store.publish(planned(bare, attempt, staged, token=7)))
    assert bare.history() == [published, bare.input]


@pytest.mark.parametrize("kind", ["conditional", "soft"])
def test_a_name_that_moved_after_it_was_staged_is_not_merged(scene: Scene, kind: str) -> None:
    """What was decided on is what is published: the source of a merge is looked up by the server, by name."""
    attempt = scene.attempt(backing=Backing(kind))
    staged = staged_by(scene, attempt)
    plan = planned(scene, attempt, staged)
    moved = scene.stranger.commits(Target(scene.target.repository, attempt.staging_name), {"more.txt": b"late"})
    assert moved in refused(scene.store.publish(plan))
    assert scene.head() == scene.input


def test_staging_names_are_hidden_and_say_whose_they_are(scene: Scene) -> None:
    """P-41: and what a crash left is found by its name, without reading anything."""
    attempt = scene.attempt()
    with suppress(CrashError):
        scene.run(attempt, {"data.txt": b"mine"}, crashing("store.claim.before"))
    listed = scene.stranger.get("GET", f"/repositories/{scene.target.repository}/branches", {"amount": 100})
    assert [each["id"] for each in listed["results"]] == ["main"]
    (left,) = done(scene.store.staging_names(scene.target.repository, target_prefix(scene.target)))
    assert left == attempt.staging_name
    assert attempt.execution in left
    assert task_id_of(left) == attempt.task_id.replace("/", "-"), "but for what a name cannot hold"
    assert abandoned_names([left], [attempt.logical_task], [Living(attempt.logical_task, 1)]) == ()
    assert abandoned_names([left], [attempt.logical_task], []) == (left,)


def test_a_claim_whose_answer_is_lost_is_read_back_by_its_nonce(scene: Scene) -> None:
    attempt = scene.attempt()
    with FaultyProxy(scene.stranger.connection.url) as proxy:
        proxy.script = when(lambda request: request.method == "POST" and request.path.endswith("/tags"), LOSE_ANSWER)
        outcome = scene.run(attempt, {"data.txt": b"mine"}, store=scene.through(proxy.url))
    assert isinstance(outcome.result, Completed), outcome
    (claim,) = done(scene.store.all_claims(scene.target.repository))
    assert claim.execution == attempt.execution


def test_a_claim_can_be_read_by_a_person_and_is_removed_with_its_task(scene: Scene) -> None:
    attempt = scene.attempt()
    scene.run(attempt, {"data.txt": b"mine"})
    (tag,) = [name for name in scene.stranger.tags(scene.target.repository) if name != "perago-first-commit"]
    at = scene.stranger.tags(scene.target.repository)[tag]
    record = scene.stranger.get("GET", f"/repositories/{scene.target.repository}/commits/{at}")
    assert attempt.execution in record["message"]
    assert attempt.logical_task in record["message"]
    (gone,) = done(scene.store.remove_claims(scene.target, attempt.logical_task))
    assert gone.execution == attempt.execution
    assert done(scene.store.all_claims(scene.target.repository)) == ()


def test_a_first_commit_that_is_none_is_refused(scene: Scene) -> None:
    """The barrier's source must be an ancestor of every head: anything else would really be merged."""
    repository = scene.target.repository
    scene.stranger.get("DELETE", f"/repositories/{repository}/tags/perago-first-commit")
    scene.stranger.get(
        "POST", f"/repositories/{repository}/tags", body={"id": "perago-first-commit", "ref": scene.input}
    )
    assert "perago-first-commit" in refused(scene.store.barrier(scene.target))
