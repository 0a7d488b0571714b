"""``perago gc`` on the embedded stack: removes what nobody may act by any more, and nothing else."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from perago_core.answers import Done, NotDone, Unknown
from perago_core.driver import run
from perago_core.names import staging_name
from perago_core.recovery import Mode, sweep
from perago_core.results import Completed
from perago_core.values import Claim
from perago_worker.config.load import load
from perago_worker.config.settings import targets_of
from perago_worker.ops import retention
from perago_worker.ops.collector import Collector
from perago_worker.ops.gc import Collected, CollectError, collect, collect_claims
from perago_worker.ops.retention import ClaimCollector
from perago_worker.runtime.assembly import assemble
from perago_worker.stack import Stack, StackError, head_of
from tests.worker.embedded import Died, Embedded, Faulty, always, embedded
from tests.worker.projects import MAIN


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Embedded]:
    with embedded(tmp_path / "collected") as made:
        yield made


def abandon(worker: Embedded, after: str = "publish") -> str:
    """Let a worker be gone after its publication, which leaves a staging name, a claim and an open intent."""

    def die(call: Callable[[object], object], given: object) -> None:
        call(given)
        raise Died

    workflow = worker.start("write", worker.head())
    with pytest.raises(Died):
        worker.run(store=Faulty(worker.stack.store, **{after: die}))
    assert len(worker.names()) == 1
    return workflow


def end_after_claim(worker: Embedded) -> str:
    """Let a worker be gone after its claim and the workflow be given up: a name and a claim are left, and no intent."""
    workflow = abandon(worker, "claim")
    worker.words.stop(workflow, "given up")
    return workflow


def collected(
    worker: Embedded,
    stack: Stack | None = None,
    *,
    older_than: float = 0.0,
    unknown: bool = False,
    dry_run: bool = False,
) -> Collected:
    return collect(stack or worker.stack, worker.words, MAIN, older_than=older_than, unknown=unknown, dry_run=dry_run)


def claims(worker: Embedded) -> tuple[Claim, ...]:
    store: Any = worker.stack.store
    found: tuple[Claim, ...] = store.all_claims(MAIN.repository).value
    return found


def settle(worker: Embedded) -> None:
    """Decide that what was published stays; the name is revoked before anything is written down."""
    swept = run(sweep(MAIN, Mode.KEEP, "tester", "it is fine"), worker.stack.ports())
    assert isinstance(swept, Done)
    assert not swept.value.unresolved


def with_store(worker: Embedded, **calls: Any) -> Stack:  # noqa: ANN401  calls that go wrong
    store: Any = Faulty(worker.stack.store, **calls)
    return evolve(worker.stack, store=store)


def test_the_name_of_a_live_attempt_is_kept(worker: Embedded) -> None:
    abandon(worker)
    found = collected(worker)
    assert (found.names, found.claims) == ((), ())
    assert found.kept == tuple(worker.names())


def test_what_an_open_intent_names_is_kept_although_its_attempt_has_ended(worker: Embedded) -> None:
    """Whoever settles the intent may need to see what became of it."""
    workflow = abandon(worker)
    worker.words.stop(workflow, "given up")
    assert collected(worker).names == ()
    assert len(claims(worker)) == 1
    settle(worker)
    found = collected(worker)
    assert found.names == ()
    assert found.claims == (f"{workflow}/write",)
    assert (worker.names(), claims(worker)) == ([], ())


# ---- what is not ours to judge


def foreign(worker: Embedded) -> str:
    """Let an attempt of another orchestrator work in the same repository."""
    name = staging_name(MAIN, "other-workflow/write", 1, 0, "f" * 32, "0123456789abcdef")
    assert isinstance(worker.stack.store.open_staging(MAIN, name, worker.first), Done)
    return name


def test_a_name_the_orchestrator_has_never_heard_of_is_kept_and_told(worker: Embedded) -> None:
    """Two orchestrators, or a mistyped address, on one repository: not open here does not mean ended."""
    name = foreign(worker)
    found = collected(worker)
    assert (found.names, found.kept, found.unknown) == ((), (), (name,))
    assert worker.names() == [name]
    assert collected(worker, unknown=True).names == (name,)
    assert worker.names() == []


def test_the_claims_of_a_workflow_that_is_not_here_stay_until_somebody_says_that_nobody_else_has_it(
    worker: Embedded, tmp_path: Path
) -> None:
    workflow = abandon(worker)
    with embedded(tmp_path / "elsewhere") as other:
        assert collect(worker.stack, other.words, MAIN, older_than=0.0).unknown == tuple(worker.names())
        named = collect(worker.stack, other.words, MAIN, older_than=0.0, unknown=True)
        assert (named.names, named.claims) == ((), ()), "an open intent speaks of it"
        worker.words.stop(workflow, "given up")
        settle(worker)
        gone = collect(worker.stack, other.words, MAIN, older_than=0.0, unknown=True)
    assert (len(gone.names), len(gone.claims)) == (0, 1)


def test_a_worker_that_starts_drops_the_names_of_ended_attempts_and_no_other(worker: Embedded) -> None:
    """Issue 5, item 5: who was killed leaves a name, and nobody has to remember ``perago gc``."""
    end_after_claim(worker)
    settings = load(worker.project.folder, {}, {})
    assert targets_of(settings) == (MAIN,)
    name = foreign(worker)
    with assemble(settings, worker.stack, worker.tasks):
        assert worker.names() == [name]
    assert len(claims(worker)) == 1


def test_what_cannot_be_swept_does_not_keep_a_worker_from_working(
    worker: Embedded, caplog: pytest.LogCaptureFixture
) -> None:
    stack = with_store(worker, staging_names=always(Unknown("no answer")))
    with assemble(load(worker.project.folder, {}, {}), stack, worker.tasks):
        pass
    assert "staging names of ended attempts stay in lake: staging names could not be read: no answer" in caplog.text


def test_a_dry_run_says_what_would_go_and_removes_nothing(worker: Embedded) -> None:
    end_after_claim(worker)
    would = collected(worker, dry_run=True)
    assert (len(would.names), len(would.claims)) == (1, 1)
    assert len(worker.names()) == 1
    assert len(claims(worker)) == 1
    assert collected(worker) == would


def test_claims_wait_until_their_workflow_is_long_over(worker: Embedded) -> None:
    """A claim that goes too early lets a paused duplicate make a fresh one."""
    worker.start("write", worker.head())
    worker.run()
    assert collected(worker, older_than=3600.0).claims == ()
    assert len(collected(worker).claims) == 1


def test_claims_go_only_after_a_barrier_has_answered(worker: Embedded) -> None:
    end_after_claim(worker)
    blocked = collected(worker, with_store(worker, barrier=always(NotDone("a request is under way"))))
    assert (len(blocked.names), blocked.claims) == (1, ())
    assert len(claims(worker)) == 1
    assert len(collected(worker).claims) == 1


def test_claims_stay_while_a_name_of_theirs_could_not_be_removed(worker: Embedded) -> None:
    end_after_claim(worker)
    stuck = collected(worker, with_store(worker, drop=always(Unknown("no answer"))))
    assert (stuck.names, stuck.claims, len(stuck.kept)) == ((), (), 1)
    assert len(claims(worker)) == 1


@pytest.mark.parametrize("call", ["staging_names", "all_claims"])
def test_what_cannot_be_read_stops_everything_and_says_what(worker: Embedded, call: str) -> None:
    end_after_claim(worker)
    with pytest.raises(CollectError, match=r"could not be read: no answer\. Nothing was removed"):
        collected(worker, with_store(worker, **{call: always(Unknown("no answer"))}))
    assert len(worker.names()) == 1


def test_intents_that_cannot_be_read_stop_everything(worker: Embedded) -> None:
    worker.words.stop(abandon(worker), "given up")
    coordination: Any = Faulty(worker.stack.coordination, list=always(Unknown("no answer")))
    with pytest.raises(CollectError, match=r"intents could not be read: no answer\. Nothing was removed"):
        collected(worker, evolve(worker.stack, coordination=coordination))
    assert len(worker.names()) == 1


def test_an_intent_whose_worker_died_before_anybody_could_find_it_goes_with_its_workflow(worker: Embedded) -> None:
    """S-21: record first, pointer after; the effect comes after both, so such a record says nothing of any branch."""

    def die(create: Callable[..., object], key: str, *words: object) -> object:
        if key.startswith("open/"):
            raise Died
        return create(key, *words)

    workflow = worker.start("write", worker.head())
    with pytest.raises(Died):
        worker.run(coordination=Faulty(worker.stack.coordination, create_if_absent=die))
    settle(worker)
    assert collected(worker).intents == ()
    worker.words.stop(workflow, "given up")
    assert len(collected(worker, dry_run=True).intents) == 1
    assert len(collected(worker).intents) == 1
    assert collected(worker).intents == ()


# ---- where the next workflow starts


def test_a_start_takes_the_names_of_the_ended_before_it_takes_the_head(worker: Embedded) -> None:
    """L-02: else a late publication of the workflow before is a stranger's for every attempt of the next."""
    workflow = abandon(worker)
    assert head_of(worker.stack, MAIN) == worker.head()
    assert len(worker.names()) == 1, "its task is open: it is not ours to end"
    worker.words.stop(workflow, "given up")
    assert head_of(worker.stack, MAIN) == worker.head()
    assert worker.names() == []


def test_nothing_starts_where_nobody_knows_who_may_still_act(worker: Embedded) -> None:
    stack = with_store(worker, barrier=always(Unknown("no answer")))
    with pytest.raises(StackError, match=r"after everybody who has ended: no answer\. Nothing was started"):
        head_of(stack, MAIN)


def publish(worker: Embedded, *collectors: Collector) -> None:
    worker.start("write", worker.head())
    assert isinstance(worker.run(collectors=collectors).result, Completed)


def test_a_worker_removes_the_claims_of_runs_that_are_long_over_between_two_tasks(
    worker: Embedded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody has to: 168 tags stood on lakeFS after 64 workflows, until somebody ran ``perago gc``."""
    publish(worker)
    publish(worker, ClaimCollector(worker.stack, [MAIN]))
    assert len(claims(worker)) == 2, "a day has not passed"
    monkeypatch.setattr(retention, "DAY", 0.0)
    collector = ClaimCollector(worker.stack, [MAIN])
    publish(worker, collector)
    assert claims(worker) == ()
    publish(worker, collector)
    assert len(claims(worker)) == 1, "not again before its time"


def test_a_worker_looks_at_so_many_tasks_at_a_time(worker: Embedded) -> None:
    for _ in range(3):
        publish(worker)
    assert len(collect_claims(worker.stack, worker.words, MAIN, 0.0, most=2)) == 2
    assert len(claims(worker)) == 1
    assert len(collect_claims(worker.stack, worker.words, MAIN, 0.0, most=2)) == 1


def test_a_worker_keeps_the_claims_of_an_attempt_that_may_still_act(worker: Embedded) -> None:
    abandon(worker)
    assert collect_claims(worker.stack, worker.words, MAIN, 0.0, most=2) == ()
    assert (len(claims(worker)), len(worker.names())) == (1, 1)


def test_claims_that_cannot_be_removed_are_no_trouble_of_the_task(
    worker: Embedded, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(retention, "DAY", 0.0)
    publish(worker)
    for call in ("all_claims", "remove_claims"):
        deaf = with_store(worker, **{call: always(Unknown("silence"))})
        with caplog.at_level(logging.WARNING):
            publish(worker, ClaimCollector(deaf, [MAIN]))
        assert "claims of runs that are over stay in lake for now: " in caplog.messages[-1]
        assert "silence" in caplog.messages[-1]
