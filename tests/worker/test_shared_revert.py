"""A dead writer on a shared branch: what nobody accepted is reverted, by a person or by a worker, and others go on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Semaphore, Thread
from typing import Any

import pytest
from attrs import evolve

from perago_core.answers import NotDone, Unknown
from perago_core.results import Completed, Failed, Outcome
from perago_core.values import CommitRef
from perago_core.verification import Kind
from perago_worker.config.load import load
from perago_worker.ops.revert import TRIES, Looked, Reverter, look, revert_unaccepted, shared_targets
from perago_worker.ops.verify import verify
from perago_worker.stack import Stack
from tests.worker.embedded import Died, Embedded, Faulty, always, embedded
from tests.worker.isolated import files
from tests.worker.projects import MAIN
from tests.worker.sharing import PIPELINES, TASKS


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Embedded]:
    with embedded(tmp_path / "project", TASKS, PIPELINES) as made:
        yield made


def _killed(worker: Embedded, text: str = "killed") -> tuple[str, CommitRef]:
    """Let a worker publish and die before it has reported; give the workflow and what it has published."""
    workflow = worker.start("left", text=text)
    mine = worker.poll(("left",))

    def die(*_words: object) -> object:
        raise Died

    with pytest.raises(Died):
        worker.run(mine, orchestrator=Faulty(worker.orchestrator, report=die))
    return workflow, worker.head()


def _left_behind(worker: Embedded, text: str = "killed") -> tuple[str, CommitRef]:
    """Let its workflow end as well."""
    workflow, published = _killed(worker, text)
    assert worker.project.perago("cancel", workflow).code == 0
    return workflow, published


def _reverted(stack: Stack) -> Looked:
    """Revert the only publication that nobody accepted."""
    (looked,) = revert_unaccepted(stack, MAIN)
    return looked


def _text(worker: Embedded, path: str) -> bytes | None:
    return files(worker.stack, worker.head()).get(path)


def _completed(outcome: Outcome) -> Completed:
    assert isinstance(outcome.result, Completed), outcome
    return outcome.result


def test_perago_recover_says_what_a_dead_writer_left_and_reverts_it(worker: Embedded) -> None:
    _, published = _left_behind(worker)
    told = worker.project.perago("recover", "lake/main", width=200)
    assert (told.code, worker.head()) == (0, published)
    assert f"{published}: left behind" in told.out
    assert "--roll-back` reverts it" in told.out
    marked = worker.project.perago("history", "lake/main", "--json").data[0]
    assert (marked["ref"], marked["never_accepted"]) == (published, True)
    done = worker.project.perago("recover", "lake/main", "--roll-back", width=200)
    assert (done.code, worker.head() != published) == (0, True)
    assert f"{published}: reverted" in done.out
    assert worker.head() in done.out
    assert _text(worker, "left/l.txt") is None
    assert worker.project.perago("recover", "lake/main", "--roll-back", "--json").data == []
    worker.start("right", text="r")
    result = _completed(worker.run(worker.poll(("right",))))
    assert (result.ref, _text(worker, "right/r.txt")) == (worker.head(), b"r")


def test_who_looks_later_knows_that_it_was_reverted(worker: Embedded) -> None:
    workflow, published = _left_behind(worker)
    (task,) = next(view for view in worker.words.everything() if view.workflow_id == workflow).attempts
    assert _reverted(worker.stack).by == (by := worker.head())
    shown = worker.project.perago("history", "lake/main", "--json").data
    assert [each["reverted_by"] for each in shown[:2]] == [None, by]
    assert f"reverted by {by[:12]}" in worker.project.perago("history", "lake/main", width=200).out
    explained = worker.project.perago("explain", task.task_id, width=400).out
    assert f"{published[:12]}, which its task has published, was reverted by {by[:12]}" in explained
    assert f"a recovery claimed the right to revert {published[:12]}" in explained
    verdict = verify(worker.stack, worker.words, MAIN)
    assert [each.kind for each in verdict.findings[:2]] == [Kind.REVERT, Kind.REVERTED]
    assert verdict.broken == ()
    assert "reverted" in worker.project.perago("verify", "lake/main", width=200).out


def test_the_run_can_be_tried_again_before_and_after(worker: Embedded) -> None:
    """Before, its retry adopts what it has published; after, it runs the body and publishes anew."""
    workflow, published = _left_behind(worker)
    adopted = worker.project.perago("retry", workflow)
    assert (adopted.code, worker.head()) == (0, published), adopted.err
    assert look(worker.stack, MAIN) == ()
    workflow, _ = _left_behind(worker, "again")
    assert _reverted(worker.stack).by == worker.head()
    assert _text(worker, "left/l.txt") == b"killed"
    again = worker.project.perago("retry", workflow)
    assert (again.code, _text(worker, "left/l.txt")) == (0, b"again"), again.err
    assert worker.project.perago("verify", "lake/main").code == 0


def test_an_attempt_that_waits_goes_on_when_a_worker_has_reverted_and_loses_no_retry(worker: Embedded) -> None:
    workflow, published = _killed(worker)
    worker.start("right", text="r")
    mine = worker.poll(("right",))
    looked, outcomes = Semaphore(0), list[Outcome]()

    def counted(real: Callable[..., Any], *words: object) -> object:
        looked.release()
        return real(*words)

    waiting = Thread(target=lambda: outcomes.append(worker.run(mine, store=Faulty(worker.stack.store, since=counted))))
    waiting.start()
    for _ in range(4):
        assert looked.acquire(timeout=60)
    reverter = Reverter(worker.stack, (MAIN,))
    reverter.collect_now_and_then()
    assert worker.head() == published, "its run goes on, and may adopt it"
    assert worker.project.perago("cancel", workflow).code == 0
    Reverter(worker.stack, (MAIN,)).collect_now_and_then()
    waiting.join(60)
    assert _completed(outcomes[0]).ref == worker.head()
    assert mine.snapshot.retry_count == 0
    assert (_text(worker, "left/l.txt"), _text(worker, "right/r.txt")) == (None, b"r")


def test_a_worker_reverts_by_itself_before_it_takes_a_task(tmp_path: Path) -> None:
    with embedded(tmp_path / "project", TASKS, PIPELINES) as worker:
        _left_behind(worker)
        ran = worker.project.process("run", "rights", "--param", "text=b")
        assert ran.returncode == 0, ran.stderr
        assert (_text(worker, "left/l.txt"), _text(worker, "right/r.txt")) == (None, b"b")


def test_who_wants_failed_runs_kept_has_them_kept(tmp_path: Path) -> None:
    kept = PIPELINES.replace("[pipelines.rights]", "[pipelines.rights]\nroll_back_failed = false", 1)
    with embedded(tmp_path / "project", TASKS, kept) as worker:
        assert shared_targets(load(worker.project.folder, {}, {}), worker.tasks) == ()
    with embedded(tmp_path / "other", TASKS, PIPELINES) as worker:
        assert shared_targets(load(worker.project.folder, {}, {}), worker.tasks) == (MAIN,)


def test_what_was_accepted_meanwhile_stays(worker: Embedded) -> None:
    workflow, published = _left_behind(worker)
    assert worker.project.perago("retry", workflow).code == 0
    done = worker.project.perago("recover", "lake/main", "--roll-back")
    assert (done.code, worker.head()) == (0, published)


def test_a_revert_that_is_refused_is_tried_again_and_then_told(worker: Embedded) -> None:
    """Whoever begins to publish drops the recovery's name. A few times is bad luck, more a person should know of."""
    _, published = _left_behind(worker)
    tried: list[object] = []

    def refused(real: Callable[..., Any], *words: object) -> object:
        tried.append(words)
        return real(*words) if len(tried) > most else NotDone("somebody was faster")

    stack, most = evolve(worker.stack, store=Faulty(worker.stack.store, publish=refused)), TRIES
    given_up = _reverted(stack)
    assert (given_up.by, given_up.trouble, given_up.blocks) == (None, "somebody was faster", True)
    assert worker.head() == published
    tried.clear()
    most = 2
    assert _reverted(stack).by == worker.head()
    silent = evolve(worker.stack, store=Faulty(worker.stack.store, head=always(Unknown("no answer"))))
    assert "unknown: no answer" in look(silent, MAIN)[0].trouble


def test_a_blocked_task_is_told_what_to_do(worker: Embedded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perago_core.attempt.run.TURN_LONGEST", 0.2)
    _killed(worker)
    worker.start("right", text="r")
    blocked = worker.run(worker.poll(("right",))).result
    assert isinstance(blocked, Failed)
    assert "`perago recover`" in blocked.refusal.next_action
