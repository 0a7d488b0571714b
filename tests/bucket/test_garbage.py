"""``perago gc`` on a bucket: what nothing reaches goes, and nothing goes that a record can come to name."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest
from attrs import evolve

from perago_bucket import BucketCoordination, BucketStore, Connection
from perago_bucket.client import bucket
from perago_bucket.disk import Disk
from perago_bucket.objects import Objects
from perago_conformance.suites.store import prepared
from perago_conformance.support import (
    FIRST,
    MAIN,
    attempt_at,
    claim,
    contents,
    done,
    head_of,
    plan_for,
    stage,
)
from perago_core.answers import Done
from perago_core.plan import PlanKind
from perago_core.values import Backing, CommitRef, Target
from tests.support.bucket.harness import BucketHarness, connection_to
from tests.support.servers.buckets import VersityGW


def objects(connection: Connection) -> set[str]:
    return {each.key for each in bucket(connection).list("")}


def collected(store: BucketHarness, kept: frozenset[CommitRef] = frozenset()) -> int:
    return done(store.port.collect_objects("lake", kept, older_than=0.0))


def test_what_a_replaced_attempt_left_goes_and_everything_else_is_read_as_before(here: BucketHarness) -> None:
    plan = prepared(here, PlanKind.REPLACE, Backing.ATOMIC)
    abandoned = head_of(here)
    published = done(here.port.publish(plan))
    for name in done(here.port.staging_names("lake", "")):
        done(here.port.drop(MAIN, name))
    before = objects(here.connection)
    assert done(here.port.collect_objects("lake", (), 3600.0)) == 0, "younger than the grace period"
    would = done(here.port.collect_objects("lake", (), 0.0, dry_run=True))
    assert objects(here.connection) == before
    # The commit of the abandoned publication, its manifest, and the one file it had changed.
    assert collected(here) == would == 3
    assert collected(here) == 0
    fresh = BucketHarness(evolve(here.connection, timeout=2.0))
    assert done(fresh.port.look("lake", abandoned)) is None
    assert contents(fresh.port.read("lake", published)) == {**FIRST, "data/b.txt": b"mine"}
    assert [each.ref for each in done(fresh.port.history(MAIN))] == [published, plan.claim.parent if plan.claim else ""]


def test_a_commit_an_open_intent_speaks_of_stays(here: BucketHarness) -> None:
    plan = prepared(here, PlanKind.REPLACE, Backing.ATOMIC)
    abandoned = head_of(here)
    done(here.port.publish(plan))
    for name in done(here.port.staging_names("lake", "")):
        done(here.port.drop(MAIN, name))
    assert collected(here, frozenset({abandoned})) == 0


def test_a_commit_a_live_claim_stands_on_stays_until_the_claim_goes(here: BucketHarness) -> None:
    plan = prepared(here, PlanKind.REPLACE, Backing.ATOMIC)
    assert plan.claim is not None
    abandoned = head_of(here)
    done(here.port.claim(evolve(plan.claim, logical_task="other/0", task_id="other", parent=abandoned)))
    done(here.port.publish(plan))
    for name in done(here.port.staging_names("lake", "")):
        done(here.port.drop(MAIN, name))
    assert collected(here) == 0
    done(here.port.remove_claims(MAIN, "other/0"))
    # What the abandoned publication had, as above, and the claim itself.
    assert collected(here) == 4


def test_what_was_put_under_a_name_that_stands_stays_and_goes_with_it(here: BucketHarness) -> None:
    """A body may upload for days before it links: its name is what keeps its bytes, not their age."""
    ref = here.create(MAIN, FIRST)
    attempt = attempt_at(ref)
    done(here.port.open_staging(MAIN, attempt.staging_name, ref))
    sink = here.port.sink(MAIN, attempt.staging_name)
    early = done(sink.put("early.txt", BytesIO(b"early")))
    assert collected(here) == 0
    done(sink.link((early,)))
    staged = done(here.port.commit(MAIN, attempt.staging_name, "late"))
    assert staged is not None
    assert collected(here) <= 1, "at most the manifest before the link"
    assert contents(here.port.read("lake", staged.commit))["early.txt"] == b"early"
    done(here.port.drop(MAIN, attempt.staging_name))
    assert collected(here) >= 3
    assert contents(BucketStore(evolve(here.connection, timeout=2.0)).read("lake", ref)) == FIRST


def test_a_collector_that_knows_only_the_repository_drops_the_names_of_every_branch(here: BucketHarness) -> None:
    """As ``perago gc`` does: it lists the names of a repository, and is about one target of it."""
    ref = here.create(MAIN, FIRST)
    beside = Target("lake", "beside")
    here.create(beside, FIRST)
    name = evolve(attempt_at(ref), target=MAIN).staging_name
    done(here.port.open_staging(MAIN, name, ref))
    done(here.port.drop(beside, name))
    assert here.branches("lake") == {"main", "beside"}


def test_the_ranges_and_values_a_ledger_left_go_and_its_keys_stay(here: BucketHarness) -> None:
    here.create(MAIN, FIRST)
    keys = BucketCoordination(here.connection)
    for number in range(100):
        done(keys.create_if_absent(f"k/{number:03}", str(number)))
    for number in range(0, 100, 2):
        done(keys.swap(f"k/{number:03}", str(number), None))
    listed = done(keys.list(""))
    assert collected(here) > 100
    assert done(BucketCoordination(evolve(here.connection, timeout=2.0)).list("")) == listed
    assert len(listed) == 50


@pytest.mark.parametrize("moment", ["linking", "committing", "claiming"])
def test_what_is_written_but_not_entered_when_the_collector_comes_is_written_again(
    here: BucketHarness, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer stops between its objects and the swap that names them. The collector passes; the writer wakes."""
    ref = here.create(MAIN, FIRST)
    attempt = attempt_at(ref, backing=Backing.ATOMIC)
    name = attempt.staging_name
    port = here.port
    done(port.open_staging(MAIN, name, ref))
    stored = done(port.sink(MAIN, name).put("new.txt", BytesIO(b"new")))
    kind: type[Objects | Disk] = Disk if here.connection.folder else Objects
    swap, disturbed = kind.swap, threading.Event()

    def interrupted(self: Any, key: str, tag: str, data: bytes) -> str | None:  # noqa: ANN401  of either kind
        if self is bucket(here.connection) and not disturbed.is_set():
            disturbed.set()
            other = BucketStore(evolve(here.connection, timeout=2.0))
            assert done(other.collect_objects("lake", (), 0.0)) > 0, "there was something to lose"
        return swap(self, key, tag, data)

    def watched(at: str) -> None:
        if at == moment:
            monkeypatch.setattr(kind, "swap", interrupted)

    watched("linking")
    done(port.sink(MAIN, name).link((stored,)))
    watched("committing")
    staged = done(port.commit(MAIN, name, "disturbed"))
    assert staged is not None
    watched("claiming")
    claim(here, attempt, staged)
    published = done(port.publish(plan_for(here, attempt, staged)))
    assert disturbed.is_set()
    fresh = BucketHarness(evolve(here.connection, timeout=3.0))
    assert contents(fresh.port.read("lake", published)) == {**FIRST, "new.txt": b"new"}
    assert len(done(fresh.port.claims(MAIN, attempt.logical_task))) == 1


@pytest.mark.servers
def test_a_collector_that_never_rests_takes_nothing_from_those_who_publish(server: VersityGW) -> None:
    collected_while_publishing(BucketHarness(connection_to(server, token_hex(8))))


def test_a_collector_that_never_rests_takes_nothing_from_those_who_publish_in_a_folder(tmp_path: Path) -> None:
    collected_while_publishing(BucketHarness(Connection(f"file://{tmp_path}/bucket", (("durable", "false"),))))


def collected_while_publishing(store: BucketHarness) -> None:
    """Publish two of three attempts while a collector without any patience works beside them."""
    ref = store.create(MAIN, FIRST)
    collector = BucketStore(evolve(store.connection, timeout=31.0))
    ended, came = threading.Event(), threading.Event()

    def collect() -> None:
        while not ended.is_set():
            answer = collector.collect_objects("lake", (), 0.0)
            # Who publishes may overtake a sleeping collector by more versions than a folder keeps: nobody knows then.
            if isinstance(answer, Done) and answer.value:
                came.set()

    published: dict[str, bytes] = {}
    with ThreadPoolExecutor(1) as pool:
        collecting = pool.submit(collect)
        try:
            for number in range(200):
                attempt = attempt_at(ref, backing=Backing.ATOMIC, task=f"wf/{number}", execution=f"run-{number}")
                staged = stage(store, attempt, {f"{number}.txt": b"%d" % number})
                if number % 3:
                    ref = done(store.port.publish(plan_for(store, attempt, staged)))
                    published[f"{number}.txt"] = b"%d" % number
                done(store.port.drop(MAIN, attempt.staging_name))
                if number >= 11 and came.is_set():
                    break
        finally:
            ended.set()
        collecting.result()
    assert came.is_set(), "there was a collector"
    assert contents(BucketStore(evolve(store.connection, timeout=32.0)).read("lake", ref)) == {**FIRST, **published}
