"""What a store promises that moves several branches in one step, and that one refuses it that cannot."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from attrs import evolve

from perago_conformance.harness import StoreHarness
from perago_conformance.support import FIRST, MAIN, attempt_at, done, head_of, plan_for, refused, stage, strongest
from perago_core import fence
from perago_core.answers import Answer, Done
from perago_core.plan import Along, PublishPlan
from perago_core.ports import SeveralTargets
from perago_core.values import (
    Attempt,
    Backing,
    Beside,
    CommitRef,
    OnAbandoned,
    StagedBeside,
    Target,
    claim_of,
)

OTHER = Target("lake", "other")
THIRD = Target("lake", "third")
SEVERAL = (MAIN, OTHER, THIRD)


def joint_attempt(store: StoreHarness, number: int = 1) -> Attempt:
    """Make an attempt at all targets, from where they are."""
    first = attempt_at(head_of(store), number=number, backing=Backing.ATOMIC)
    beside = tuple(Beside(each, head_of(store, each)) for each in SEVERAL[1:])
    return evolve(first, on_abandoned=OnAbandoned.ADOPT, beside=beside)


def joint_plan(store: StoreHarness, attempt: Attempt) -> PublishPlan:
    """Stage for the first two targets, claim, and let the fence plan that all of them move; the third stays."""
    staged = stage(store, evolve(attempt, beside=()), {"new.txt": attempt.execution.encode()})
    other, third = attempt.parts[1:]
    done(store.port.open_staging(other.target, other.staging_name, other.input))
    done(store.port.open_staging(third.target, third.staging_name, third.input))
    sink = store.port.sink(other.target, other.staging_name)
    done(sink.seal("_beside", attempt.execution.encode()))
    further = done(store.port.commit(other.target, other.staging_name, "staged beside"))
    assert further is not None
    whole = evolve(staged, beside=(StagedBeside(OTHER, further.commit, further.tree),))
    heads = tuple(done(store.port.head(each.target)) for each in attempt.parts)
    decision = fence.decide(fence.Case(attempt, whole, heads[0], beside=heads[1:]))
    assert isinstance(decision, fence.Allowed), decision
    return decision.plan


def _created(store: StoreHarness) -> SeveralTargets | None:
    """Make the targets; ``None``: the store moves one branch at a time."""
    for each in SEVERAL:
        store.create(each, FIRST)
    port: object = store.port
    return port if isinstance(port, SeveralTargets) else None


def _heads(store: StoreHarness) -> tuple[CommitRef, ...]:
    return tuple(head_of(store, each) for each in SEVERAL)


def test_several_targets_move_in_one_step_or_are_refused(store: StoreHarness) -> None:
    several = _created(store)
    before = _heads(store)
    if several is None:
        attempt = attempt_at(head_of(store), backing=strongest(store))
        plan = plan_for(store, attempt, stage(store, attempt, {"new.txt": b"new"}))
        along = Along(OTHER, before[1], before[1], attempt.staging_name)
        assert "one" in refused(store.port.publish(evolve(plan, along=(along,))))
        assert _heads(store) == before
        return
    done(several.moves_together(SEVERAL))
    plan = joint_plan(store, joint_attempt(store))
    assert done(store.port.publish(plan)) == plan.commit
    assert _heads(store) == (plan.commit, plan.along[0].commit, before[2])
    assert store.read_file("lake", head_of(store, OTHER), "_beside") == b"run-1"


@pytest.mark.parametrize("where", SEVERAL, ids=lambda target: target.branch)
@pytest.mark.parametrize("meanwhile", ["moved", "revoked", "overtaken"])
def test_what_does_not_hold_for_one_target_keeps_all_of_them_where_they_are(
    store: StoreHarness, where: Target, meanwhile: str
) -> None:
    if _created(store) is None:
        return
    attempt = joint_attempt(store)
    plan = joint_plan(store, attempt)
    assert plan.claim is not None
    before = _heads(store)
    match meanwhile:
        case "moved":
            moved = store.stranger_commits(where, {"stranger.txt": b"1"})
            before = tuple(moved if each == where else head for each, head in zip(SEVERAL, before, strict=True))
        case "revoked":
            name = next(part.staging_name for part in attempt.parts if part.target == where)
            done(store.port.drop(where, name))
        case _:
            newer = evolve(attempt, number=2, task_id="task-2", execution="newer")
            done(store.port.claim(claim_of(newer, None)))
    refused(store.port.publish(plan))
    assert _heads(store) == before


def test_targets_that_moved_together_go_back_together(store: StoreHarness) -> None:
    if _created(store) is None:
        return
    before = _heads(store)
    plan = joint_plan(store, joint_attempt(store))
    done(store.port.publish(plan))
    back: list[PublishPlan] = []
    for each, parent in zip(SEVERAL[:2], before, strict=False):
        anchored = attempt_at(parent, number=9, task="anchor", target=each).staging_name
        done(store.port.open_staging(each, anchored, parent))
        head = done(store.port.head(each))
        assert head is not None
        back.append(fence.compensate(each, parent, head, anchored))
    done(store.port.publish(fence.together(back)))
    assert _heads(store) == before


def test_of_many_who_move_the_same_targets_one_does_and_nobody_sees_half_of_it(store: StoreHarness) -> None:
    """Whoever sees the first target moved, and looks at the second after that, sees that moved too."""
    if _created(store) is None:
        return
    before = _heads(store)
    plans = [
        joint_plan(store, evolve(joint_attempt(store, number), logical_task=f"wf/step-{number}"))
        for number in range(1, 7)
    ]
    together = {plan.commit: plan.along[0].commit for plan in plans}
    half: list[str] = []
    over = threading.Event()

    def read() -> None:
        while not over.is_set():
            first = head_of(store)
            second = head_of(store, OTHER)
            if first != before[0] and second != together[first]:
                half.append(f"{first} with {second}")

    with ThreadPoolExecutor(len(plans) + 1) as pool:
        reader = pool.submit(read)
        answers: list[Answer[CommitRef]] = list(pool.map(store.port.publish, plans))
        over.set()
        reader.result()
    assert half == []
    winners = [answer.value for answer in answers if isinstance(answer, Done)]
    assert len(winners) == 1, answers
    assert _heads(store) == (winners[0], together[winners[0]], before[2])
