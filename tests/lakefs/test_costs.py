"""Requests are counted between us and a real server, call by call; ``specs/cost.md`` is made of the same numbers."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from attrs import evolve

from perago_conformance.harness import Stack
from perago_conformance.suites.stack import ports as ports_of
from perago_conformance.support import attempt_of, done
from perago_core import drive
from perago_core.names import staging_name
from perago_core.results import Completed
from perago_core.values import Attempt, Backing, CommitRef, Scope, Target
from perago_lakefs import LakeFSStore
from tests.conformance.implementations.embedded import stack_on
from tests.conformance.implementations.files import workspace_on
from tests.conformance.implementations.lakefs import FENCED, LakeFSHarness
from tests.lakefs.scene import Scene
from tests.specs.costs import REQUESTS, lakefs_calls, shared_on_lakefs
from tests.support.servers.faulty_proxy import FaultyProxy
from tests.support.servers.lakefs import LakeFS

BACKINGS = (Backing.SOFT, Backing.CONDITIONAL)


def spent(scene: Scene, proxy: FaultyProxy, store: LakeFSStore, number: int, backing: Backing) -> Counter[str]:
    """Publish once and count the requests of each call of the store."""
    counted, count = proxy.per_call()
    scene.input = scene.head()
    attempt = scene.attempt(1, backing, task=f"cost/{number}")
    outcome = scene.run(attempt, {"data.txt": b"%d" % number}, count, store)
    assert isinstance(outcome.result, Completed), outcome
    return +counted


def expected(backing: Backing) -> Counter[str]:
    """Give what the table says of a first publish that edits one file, without the listing of its input."""
    calls = lakefs_calls("first publish of a task that replaces", backing)
    return +Counter({call: count for call, count in calls.items() if count})


def deepen(scene: Scene, to: int) -> None:
    """Let a stranger commit until the history is so deep."""
    while len(scene.stranger.log(scene.target)) < min(to, 1000):
        for _ in range(25):
            body = {"message": "deeper", "allow_empty": True}
            scene.stranger.get("POST", f"/repositories/{scene.target.repository}/branches/main/commits", body=body)


def test_a_publication_costs_the_same_at_any_depth_and_among_any_number_of_branches(scene: Scene) -> None:
    """H-05, P-14: equal to the cost table at depth 1, 100 and 1,000, and with 1 and 500 branches."""
    with FaultyProxy(scene.stranger.connection.url) as proxy:
        store = scene.through(proxy.url)
        done(store.barrier(scene.target))  # a process pays once for the first commit
        number = 0
        for depth, branches in ((1, 1), (100, 1), (100, 500), (1000, 500)):
            deepen(scene, depth)
            crowd(scene, branches)
            for backing in BACKINGS:
                number += 1
                found = spent(scene, proxy, store, number, backing)
                found.pop("workspace.upload")
                wanted = expected(backing)
                wanted.pop("workspace.upload")
                wanted.pop("workspace.prepare")
                assert found == wanted, (depth, branches, backing)


def test_onto_what_others_have_published_it_costs_the_same_however_many_they_are(scene: Scene) -> None:
    """Equal to the cost table with 1 and 66 commits of others between: as many calls, and one more page of the log."""
    with FaultyProxy(scene.stranger.connection.url) as proxy:
        store = scene.through(proxy.url)
        done(store.barrier(scene.target))
        first = scene.input
        for number, others in enumerate((0, 1, 66)):
            scene.input = first = scene.head()
            for other in range(others):
                published = scene.run(_declaring(scene, f"other{number}x{other}"), {f"other{number}x{other}/f": b"o"})
                assert isinstance(published.result, Completed), published
                scene.input = scene.head()  # or each of them would read all of those before it
            scene.input = first
            counted, count = proxy.per_call()
            mine = f"mine{number}"
            outcome = scene.run(_declaring(scene, mine), {f"{mine}/f": b"m"}, count, store)
            assert isinstance(outcome.result, Completed), outcome
            found = +counted
            found.pop("workspace.upload")
            wanted = Counter(shared_on_lakefs(others))
            wanted.pop("workspace.upload")
            wanted.pop("workspace.prepare")
            assert found == +wanted, others


def _declaring(scene: Scene, task: str) -> Attempt:
    return evolve(scene.attempt(1, task=task), scope=Scope((), (f"{task}/",)))


def crowd(scene: Scene, to: int) -> None:
    """Make other branches, half of them named as staging names of other targets are."""
    repository = scene.target.repository
    missing = to - len(scene.stranger.branches(repository))
    elsewhere = Target(repository, "elsewhere")
    names = [
        staging_name(elsewhere, f"other/{number}", 1, 0, "t", "x" * 16) if number % 2 else f"other-{number}"
        for number in range(missing)
    ]
    with ThreadPoolExecutor(8) as pool:
        for name in names:
            pool.submit(scene.stranger.create_branch, Target(repository, name), scene.input)
    assert len(scene.stranger.branches(repository)) == to


@pytest.mark.parametrize(("backing", "warm", "cold"), [(Backing.SOFT, 12, 265), (Backing.CONDITIONAL, 18, 271)])
def test_250_objects_of_which_one_is_edited_cost_what_the_table_says(
    lakefs_server: LakeFS, tmp_path_factory: pytest.TempPathFactory, backing: Backing, warm: int, cold: int
) -> None:
    """The peer needs 1,012 requests for this. Listing included, and everything from poll to clean-up."""
    scene = Scene.on(lakefs_server)
    files = {f"d/{number:05}": b"%d" % number for number in range(248)}
    with FaultyProxy(lakefs_server.url) as proxy:
        harness = LakeFSHarness(scene.stranger, scene.through(proxy.url), FENCED)
        folder = tmp_path_factory.mktemp("costs")
        with stack_on(workspace_on(harness, folder), folder) as stack:
            at = scene.stranger.commits(scene.target, {**files, "data/a.txt": b"alpha", "data.txt": b"x"})
            table = sum(lakefs_calls("first publish", backing).values())
            first = publication(stack, scene.target, at, backing, proxy)
            # The input has 251 objects: these 250 and ``keep.txt``. A process pays once for the first commit.
            assert first == table + 251 + (2 if backing is Backing.CONDITIONAL else 0)
            assert scene.stranger.resets(scene.target, at).status == 204
            second = publication(stack, scene.target, at, backing, proxy)
            assert second == table
            assert second <= warm
            assert first <= cold


def publication(stack: Stack, target: Target, at: CommitRef, backing: Backing, proxy: FaultyProxy) -> int:
    """Run one attempt as a worker does and count every request."""
    stack.orchestrator.start(("clean",), target, at)
    (assignment,) = done(stack.orchestrator.port.poll("worker-1", ("clean",), 1))
    attempt = attempt_of(assignment, f"run-{assignment.snapshot.task_id}", backing)
    stack.workspace.accept(attempt, "edit")
    proxy.forget()
    outcome = drive(attempt, ports_of(stack))
    assert isinstance(outcome.result, Completed), outcome
    return len(proxy.seen)


def test_the_table_names_every_call_of_a_publication() -> None:
    """A call without a number would cost nothing on paper."""
    named = {call.partition(".")[2] for backing in BACKINGS for call in lakefs_calls("first publish", backing)}
    assert named - {"prepare", "upload"} <= set(REQUESTS)
