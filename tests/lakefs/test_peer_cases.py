"""C1 to C11: what the peer does on a real lakeFS, and what we do in the same place."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from perago_conformance.support import done
from perago_core.results import Classification, Completed, Failed, Outcome
from perago_core.values import Backing, Target
from perago_lakefs import LakeFSStore
from tests.lakefs.peer import FailedError, Peer
from tests.lakefs.scene import Scene, doing
from tests.support.servers.faulty_proxy import LOSE_ANSWER, FaultyProxy, Gate, Handling, Request, when

MINE = {"data.txt": b"mine"}
FOREIGN = {"foreign.txt": b"somebody's work"}


def a_peer(scene: Scene) -> Peer:
    return Peer(scene.stranger, scene.target, scene.input)


def refused(outcome: Outcome) -> Classification:
    assert isinstance(outcome.result, Failed), outcome
    return outcome.result.refusal.classification


def is_merge(request: Request) -> bool:
    return "/merge/" in request.path and b"perago_expected_head" in request.body


def test_c1_a_foreign_child_of_the_input_is_not_ours_to_replace(scene: Scene, bare: Scene) -> None:
    foreign = bare.stranger.commits(bare.target, FOREIGN)
    peer = a_peer(bare)
    peer.publish(peer.stage(MINE))
    assert foreign not in bare.history()
    assert bare.file("foreign.txt") is None, "the peer reset the branch over somebody's commit"

    foreign = scene.stranger.commits(scene.target, FOREIGN)
    assert refused(scene.run(scene.attempt(), MINE)) is Classification.HEAD_NOT_REPLACEABLE
    assert scene.history() == [foreign, scene.input]


def merged_by_a_person(scene: Scene) -> str:
    """Make the head a merge of two parents, the first of which is the input."""
    feature = Target(scene.target.repository, "feature")
    scene.stranger.create_branch(feature, scene.input)
    scene.stranger.commits(feature, FOREIGN)
    expected = {"perago_expected_head": scene.input}
    merged = scene.stranger.merges(scene.target, "feature", expected, squash_merge=False)
    assert merged.status == 200, merged
    return str(merged.body["reference"])


def test_c2_a_merge_whose_first_parent_is_the_input_is_no_child_of_it_alone(scene: Scene, bare: Scene) -> None:
    merged_by_a_person(bare)
    peer = a_peer(bare)
    peer.publish(peer.stage(MINE))
    assert bare.file("foreign.txt") is None, "the peer looked at the first parent only"

    merge = merged_by_a_person(scene)
    assert refused(scene.run(scene.attempt(), MINE)) is Classification.HEAD_MERGED
    assert scene.head() == merge


def test_c3_a_task_that_changed_nothing_takes_nothing_off_the_branch(scene: Scene, bare: Scene) -> None:
    bare.stranger.commits(bare.target, FOREIGN)
    assert a_peer(bare).change_nothing() == bare.head() == bare.input

    foreign = scene.stranger.commits(scene.target, FOREIGN)
    assert refused(scene.run(scene.attempt())) is Classification.HEAD_NOT_REPLACEABLE
    assert scene.head() == foreign


def test_c4_a_head_that_moves_before_the_merge_is_refused_by_the_server(scene: Scene, bare: Scene) -> None:
    peer = a_peer(bare)
    staged, seen = peer.stage(MINE), peer.look()
    foreign = bare.stranger.commits(bare.target, FOREIGN)
    published = peer.act(staged, *seen)
    assert bare.history() == [published, foreign, bare.input]
    assert bare.file("foreign.txt") == FOREIGN["foreign.txt"], "what the peer calls its result is a blend of two"

    moved = doing("store.publish.before", lambda: scene.stranger.commits(scene.target, FOREIGN))
    assert refused(scene.run(scene.attempt(), MINE, moved)) is Classification.PUBLISH_REFUSED
    assert scene.file() == b"of the input"
    assert len(scene.history()) == 2


def test_c4_without_the_hook_soft_says_completed_over_the_blend_and_conditional_does_not_start(bare: Scene) -> None:
    """What ``soft`` promises, and that nobody gets ``conditional`` by asking for it only."""
    conditional = bare.run(bare.attempt(task="one"), MINE)
    assert refused(conditional) is Classification.PUBLISH_REFUSED
    assert isinstance(conditional.result, Failed)
    assert "perago init-repo" in str(conditional.result.refusal)
    moved = doing("store.publish.before", lambda: bare.stranger.commits(bare.target, FOREIGN))
    soft = bare.run(bare.attempt(task="two", backing=Backing.SOFT), MINE, moved)
    assert isinstance(soft.result, Completed)
    assert len(bare.history()) == 3


def test_c5_a_relocation_decided_long_ago_does_not_take_later_publications_away(scene: Scene, bare: Scene) -> None:
    """S-06: the name it would act by is gone, and the barrier has ended what was under way."""
    bare.stranger.commits(bare.target, {"data.txt": b"abandoned"})
    peer = a_peer(bare)
    staged, seen = peer.stage(MINE), peer.look()
    downstream = bare.stranger.commits(bare.target, FOREIGN)
    peer.act(staged, *seen)
    assert downstream not in bare.history()
    assert bare.file("foreign.txt") is None, "the peer took a later publication away"

    scene.abandon(scene.attempt(1), {"data.txt": b"abandoned"})
    second = scene.attempt(2)

    def meanwhile() -> None:
        accepted = scene.run(scene.attempt(3), {"data.txt": b"third"})
        assert isinstance(accepted.result, Completed)
        scene.stranger.commits(scene.target, FOREIGN)

    late = scene.run(second, MINE, doing("store.publish.before", meanwhile))
    assert not isinstance(late.result, Completed)
    assert (scene.file(), scene.file("foreign.txt")) == (b"third", FOREIGN["foreign.txt"])
    assert len(scene.history()) == 3


def test_c5_the_residual_that_remains_is_exactly_the_documented_one(scene: Scene) -> None:
    """A stranger's commit between observation and relocation is lost: lakeFS has no condition on a hard reset."""
    scene.abandon(scene.attempt(1), {"data.txt": b"abandoned"})
    moved = doing("store.publish.before", lambda: scene.stranger.commits(scene.target, FOREIGN))
    outcome = scene.run(scene.attempt(2), MINE, moved)
    assert isinstance(outcome.result, Completed)
    assert scene.history() == [outcome.result.ref, scene.input]
    assert scene.file("foreign.txt") is None


def test_c6_a_zombie_cannot_overwrite_what_was_accepted_from_its_successor(scene: Scene, bare: Scene) -> None:
    zombie, retry = a_peer(bare), a_peer(bare)
    staged = zombie.stage({"data.txt": b"zombie"})
    retry.publish(retry.stage(MINE))
    zombie.publish(staged)
    assert bare.file() == b"zombie", "the peer's zombie replaced an accepted result"

    for point in ("store.claim.before", "store.staging_names.before", "store.head.before", "store.publish.before"):
        scene.input = scene.head()

        def retried(task: str = f"wf/{point}") -> None:
            accepted = scene.run(scene.attempt(2, task=task), {"data.txt": task.encode()})
            assert isinstance(accepted.result, Completed)

        outcome = scene.run(scene.attempt(1, task=f"wf/{point}"), {"data.txt": b"zombie"}, doing(point, retried))
        assert not isinstance(outcome.result, Completed), (point, outcome)
        assert scene.file() == f"wf/{point}".encode()
        assert len(scene.history()) == 2, point


def test_c7_of_two_deliveries_of_one_attempt_one_publishes(scene: Scene, bare: Scene) -> None:
    """S-17."""
    one, two = a_peer(bare), a_peer(bare)
    first, second = one.stage({"data.txt": b"one"}), two.stage({"data.txt": b"two"})
    one.publish(first)
    two.publish(second)
    assert bare.file() == b"two", "the peer's second delivery replaced the first, which had been reported"

    delivered = scene.attempt(1)
    again = scene.attempt(1)
    assert delivered.execution != again.execution
    outcomes: list[Outcome] = []
    other = doing("store.claim.before", lambda: outcomes.append(scene.run(again, {"data.txt": b"two"})))
    outcomes.append(scene.run(delivered, {"data.txt": b"one"}, other))
    assert [isinstance(each.result, Completed) for each in outcomes] == [True, False]
    assert outcomes[1].result is None, "who lost the claim stays silent"
    assert scene.file() == b"two"
    assert len(scene.history()) == 2


def test_c8_a_merge_whose_answer_is_lost_is_looked_for_and_never_sent_again(scene: Scene, bare: Scene) -> None:
    with FaultyProxy(bare.stranger.connection.url) as proxy:
        outcome = bare.run(bare.attempt(backing=Backing.SOFT), MINE, store=_losing(bare, proxy))
        assert refused(outcome) is Classification.PUBLISH_UNKNOWN
        assert bare.file() == MINE["data.txt"], "soft, as the peer, reports FAILED although it is published"

    with FaultyProxy(scene.stranger.connection.url) as proxy:
        outcome = scene.run(scene.attempt(), MINE, store=_losing(scene, proxy))
        assert isinstance(outcome.result, Completed), outcome
        assert sum(map(is_merge, proxy.seen)) == 1
    assert scene.history() == [outcome.result.ref, scene.input]


def _losing(scene: Scene, proxy: FaultyProxy) -> LakeFSStore:
    proxy.script = when(is_merge, LOSE_ANSWER, times=1)
    return scene.through(proxy.url)


def test_c8_a_hard_reset_whose_answer_is_lost_is_sent_once(scene: Scene) -> None:
    """The client library alone would send it four times."""
    scene.abandon(scene.attempt(1), {"data.txt": b"abandoned"})
    with FaultyProxy(scene.stranger.connection.url) as proxy:
        proxy.script = when(lambda request: request.path.endswith("/hard_reset"), LOSE_ANSWER)
        outcome = scene.run(scene.attempt(2), MINE, store=scene.through(proxy.url))
        assert sum(request.path.endswith("/hard_reset") for request in proxy.seen) == 1
    assert isinstance(outcome.result, Completed), outcome
    assert scene.history() == [outcome.result.ref, scene.input]


def test_c9_a_merge_still_on_its_way_when_the_retry_reads_the_head_lands_nowhere(scene: Scene, bare: Scene) -> None:
    late, retry = a_peer(bare), a_peer(bare)
    staged, seen = late.stage({"late.txt": b"late"}), late.look()
    retry.publish(retry.stage(MINE))
    late.act(staged, *seen)
    assert len(bare.history()) == 3, "both merges of the peer landed"

    gate = Gate()
    with FaultyProxy(scene.stranger.connection.url) as proxy, ThreadPoolExecutor(1) as pool:
        proxy.script = when(is_merge, Handling(before=gate), times=1)
        held = pool.submit(scene.run, scene.attempt(1), {"late.txt": b"late"}, None, scene.through(proxy.url))
        gate.await_reached()
        outcome = scene.run(scene.attempt(2), MINE)
        gate.open()
        assert not isinstance(held.result().result, Completed)
    assert isinstance(outcome.result, Completed)
    assert scene.history() == [outcome.result.ref, scene.input]
    assert scene.file("late.txt") is None


def test_c10_a_protected_target_takes_merges_and_refuses_replacement_with_what_to_do(scene: Scene) -> None:
    """F-08. The peer meets the same refusal and says nothing of it."""
    scene.abandon(scene.attempt(1), {"data.txt": b"abandoned"})
    scene.stranger.protects(scene.target)
    peer = a_peer(scene)
    with pytest.raises(FailedError, match="protected"):
        peer.publish(peer.stage({"data.txt": b"peer"}))

    abandoned = scene.head()
    outcome = scene.run(scene.attempt(2), MINE)
    assert refused(outcome) is Classification.PUBLISH_REFUSED
    assert isinstance(outcome.result, Failed)
    assert "branch protection rules" in str(outcome.result.refusal)
    assert scene.head() == abandoned

    scene.input = abandoned
    first = scene.run(scene.attempt(1, task="next"), {"data.txt": b"next"})
    assert isinstance(first.result, Completed)


@pytest.mark.parametrize("backing", [Backing.SOFT, Backing.CONDITIONAL], ids=lambda each: each.value)
def test_c11_a_branch_that_has_diverged_is_refused_with_what_to_do_and_nothing_is_left(
    scene: Scene, backing: Backing
) -> None:
    scene.stranger.commits(scene.target, FOREIGN)
    head = scene.stranger.commits(scene.target, {"more.txt": b"more"})
    outcome = scene.run(scene.attempt(backing=backing), MINE)
    assert refused(outcome) is Classification.HEAD_ELSEWHERE
    assert isinstance(outcome.result, Failed)
    assert "new workflow" in str(outcome.result.refusal)
    assert scene.head() == head
    assert scene.stranger.branches(scene.target.repository) == {"main"}


def test_an_uncommitted_object_on_the_target_stops_everything(scene: Scene) -> None:
    """F-07: a hard reset would keep it and mix it into the result."""
    scene.abandon(scene.attempt(1), {"data.txt": b"abandoned"})
    abandoned = scene.head()
    scene.stranger.writes(scene.target, "stray.txt", b"uncommitted")
    assert refused(scene.run(scene.attempt(2), MINE)) is Classification.BARRIER_FAILED
    soft = scene.run(scene.attempt(3, Backing.SOFT), MINE)
    assert refused(soft) is Classification.TARGET_DIRTY
    assert scene.head() == abandoned
    head = done(scene.store.head(scene.target))
    assert head is not None
    assert head.dirty
