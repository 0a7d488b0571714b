"""Publishing above what nobody has accepted: who may, what the commit says, and who believes it."""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from typing import Any

import pytest
from attrs import evolve

from perago_core.answers import Answer, Done, Unknown
from perago_core.attempt.run import TURN_LONGEST
from perago_core.driver import drive, run
from perago_core.failpoints import Failpoint
from perago_core.fence import Allowed, Case, Refused, decide, verified
from perago_core.machine.codec import dumps, loads
from perago_core.names import over_in, over_message, task_in
from perago_core.plan import PublishPlan
from perago_core.results import Classification, Outcome
from perago_core.revert import revert, unaccepted
from perago_core.sharing import begin_at, between, newest_accepted
from perago_core.values import (
    Attempt,
    Backing,
    Between,
    Claim,
    Commit,
    CommitRef,
    Head,
    Landed,
    Scope,
    StagedRef,
    claim_of,
)
from tests.core.test_sharing import attempt_of, completed, once, refused, sharing, writing
from tests.core.test_sharing import files as files_of
from tests.core.world import INPUT, TARGET, Answering, CrashError, World, ports_with

REPORT = "orchestrator.report.before"


def scope_of(step: str, *reads: str) -> Scope:
    """Declare a folder, and what else is read; it stacks on work that is apart from all of that."""
    scope = Scope(tuple(f"{each}/" for each in reads), (f"{step}/",))
    return evolve(scope, apart=scope.prefixes)


def stacking(
    world: World, step: str, number: int = 1, *reads: str, at: CommitRef = INPUT, backing: Backing = Backing.ATOMIC
) -> Attempt:
    given: dict[str, Any] = {
        "body": writing(step),
        "scope": scope_of(step, *reads),
        "execution": f"run-{step}-{number}",
    }
    attempt = evolve(world.attempt(number, backing, step=step, **given), input=at)
    world.workspace().accept(attempt, writing(step, b"%d" % number))
    return attempt


def die() -> None:
    raise CrashError


def killed(world: World, step: str, *, backing: Backing = Backing.ATOMIC, at: CommitRef = INPUT) -> CommitRef:
    """Publish, and die before the report."""
    with pytest.raises(CrashError):
        drive(stacking(world, step, at=at, backing=backing), world.ports(reached=once(REPORT, die)))
    return world.branch_head()


def ended(world: World, *steps: str) -> None:
    """End the workflows of the first tasks that were handed out, each of which has one of its own."""
    for number, step in enumerate(steps, start=1):
        world.give_up_open_tasks(step)
        world.orchestrator().workflow(f"wf-{number}").running = False


def commit_of(world: World, ref: CommitRef) -> Commit:
    return world.store().repositories[TARGET.repository].commits[ref]


def head_of(world: World) -> Commit:
    return commit_of(world, world.branch_head())


def says(world: World) -> list[tuple[str, ...]]:
    """Give what each commit of the branch says that it lies above, the newest first."""
    return [over_in(commit_of(world, each).message) for each in world.history()]


def published(world: World, step: str, number: int = 1, *reads: str, at: CommitRef = INPUT) -> CommitRef:
    return completed(drive(stacking(world, step, number, *reads, at=at), world.ports()))


def pin(world: World, step: str, *reads: str, store: Any = None) -> Answer[CommitRef]:  # noqa: ANN401  any port
    return run(
        newest_accepted(TARGET, head_of(world), scope_of(step, *reads)),
        ports_with(world, store=store or world.store()),
    )


# ---------------------------------------------------------------------------------------------------------------------
# Who may, and what the commit says


@sharing
def test_who_keeps_apart_publishes_above_a_dead_writers_work_at_once_and_says_so(backing: Backing) -> None:
    world = World()
    dead = killed(world, "right", backing=backing)
    before = world.clock().now()
    ref = completed(drive(stacking(world, "left", backing=backing), world.ports()))
    assert (world.history(), world.clock().now()) == ([ref, dead, INPUT], before)
    assert says(world) == [(dead,), (), ()]
    assert {"left/x", "right/x", "data"} == set(files_of(world))


@sharing
def test_who_touches_it_waits_also_where_an_accepted_commit_lies_above_it(backing: Backing) -> None:
    """What he reads counts as well; and who does not stack waits for everything that is open."""
    world = World()
    dead = killed(world, "right", backing=backing)
    completed(drive(stacking(world, "left", backing=backing), world.ports()))
    for mine in (stacking(world, "reader", 1, "right", backing=backing), _waiting(world, "patient", backing)):
        begun = world.clock().now()
        outcome = drive(mine, world.ports())
        assert refused(outcome) is Classification.UNACCEPTED_IN_THE_WAY
        assert outcome.result is not None
        assert dead in str(outcome.result)
        assert world.clock().now() - begun >= TURN_LONGEST


def _waiting(world: World, step: str, backing: Backing) -> Attempt:
    given: dict[str, Any] = {"body": writing(step), "scope": Scope((), (f"{step}/",)), "execution": f"run-{step}"}
    return world.attempt(1, backing, step=step, **given)


@sharing
def test_who_waits_goes_on_once_what_an_accepted_commit_names_is_accepted(backing: Backing) -> None:
    world = World()
    dead = killed(world, "right", backing=backing)
    above = completed(drive(stacking(world, "left", backing=backing), world.ports()))
    ours: list[Outcome] = []

    def finish() -> None:
        ours.append(drive(stacking(world, "right", 2, backing=backing), world.ports()))

    # The body of one that reads it begins below it, as nobody has accepted it yet.
    mine = _waiting(world, "patient", backing)
    ref = completed(drive(mine, world.ports(reached=once("store.since.before", finish, at=2))))
    assert (completed(ours[0]), ours[0].adopted) == (dead, True)
    assert world.history() == [ref, above, dead, INPUT]
    assert says(world)[0] == ()


def test_the_newest_one_names_all_that_is_open_below_it_and_nothing_that_is_not() -> None:
    world = World()
    dead = [killed(world, "one"), killed(world, "two")]
    published(world, "left")
    assert says(world)[:3] == [tuple(reversed(dead)), (dead[0],), ()]
    assert completed(drive(stacking(world, "one", 2), world.ports())) == dead[0]
    published(world, "right")
    assert says(world)[0] == (dead[1],)
    assert completed(drive(stacking(world, "two", 2), world.ports())) == dead[1]
    published(world, "third")
    assert says(world)[0] == ()


def test_the_cost_does_not_grow_with_those_who_have_stacked_above_it() -> None:
    """One publication is asked about, and one that it names; however many lie between."""

    def calls(others: int) -> int:
        world = World()
        killed(world, "dead")
        for number in range(others):
            published(world, f"s{number}")
        asked: list[Failpoint] = []
        drive(stacking(world, "left"), world.ports(reached=asked.append))
        return len(asked)

    assert calls(1) == calls(12)


def test_where_nobody_stacks_nothing_more_is_asked() -> None:
    """The counts are those of a task with a scope before there was such a thing."""
    world = World()
    completed(drive(attempt_of(world, "right"), world.ports()))
    mine, asked = attempt_of(world, "left"), Counter[str]()
    completed(drive(mine, world.ports(reached=lambda point: asked.update((str(point),)))))
    counted = {each: asked[f"{each}.before"] for each in ("store.since", "store.look", "store.claims")}
    assert counted == {"store.since": 1, "store.look": 2, "store.claims": 3}
    assert asked["orchestrator.reload.before"] == 4


def test_it_begins_above_it_as_well_and_says_so_of_its_own_input() -> None:
    """Two steps of one workflow: the second begins at what the first has published, and nothing came between."""
    world = World()
    dead = killed(world, "dead")
    first = published(world, "left")
    second = published(world, "right", 1, "left", at=first)
    assert world.history() == [second, first, dead, INPUT]
    assert says(world)[:2] == [(dead,), (dead,)]
    assert len(commit_of(world, second).parents) == 2, "staged on the head, and still joined: it has something to say"


def test_a_store_that_leaves_it_out_is_noticed() -> None:
    world = World()
    dead = killed(world, "right")

    class Silent:
        def __getattr__(self, name: str) -> Any:  # noqa: ANN401  any method
            return getattr(world.store(), name)

        def publish(self, plan: PublishPlan) -> Answer[CommitRef]:
            assert plan.over == (dead,)
            answer: Answer[CommitRef] = world.store().publish(evolve(plan, over=()))
            return answer

    outcome = drive(stacking(world, "left"), ports_with(world, store=Silent()))
    assert refused(outcome) is Classification.PUBLISHED_ELSEWHERE


def test_the_plan_says_above_what_and_only_of_who_stacks() -> None:
    world = World()
    mine = stacking(world, "left")
    staged = StagedRef(TARGET.repository, mine.staging_name, CommitRef("s"), "t")
    head = Head(Commit(CommitRef("u"), (INPUT,), "x"))
    found = Between((Landed(head.commit),), over=(CommitRef("u"),))
    allowed = decide(Case(mine, staged, head, between=found))
    assert isinstance(allowed, Allowed)
    assert allowed.plan.over == ("u",)
    said = Commit(CommitRef("m"), (head.commit.ref, staged.commit), "y", over_message("x", ("u",)))
    assert verified(allowed.plan, said)
    assert not verified(allowed.plan, evolve(said, message="x"))
    waits = evolve(mine, scope=Scope((), ("left/",)))
    plain = decide(Case(waits, staged, head, between=found))
    assert isinstance(plain, Allowed)
    assert plain.plan.over == ()
    unasked = decide(Case(mine, staged, Head(Commit(INPUT, (), "x"))))
    assert isinstance(unasked, Refused), "nobody has said whether what lies below its input is accepted"


def test_a_message_says_above_what_its_commit_lies_and_one_without_says_nothing() -> None:
    message = over_message("wf.load.0 attempt 2 (task-7)", ("a", "b"))
    assert (task_in(message), over_in(message)) == ("wf.load.0", ("a", "b"))
    assert over_message("x\n", ()) == "x\n"
    assert over_in("Perago-Over: a") == (), "the first line is whose it is"


def test_an_older_release_cannot_read_the_claim_of_who_stacks_and_stays_away() -> None:
    world = World()
    claim = claim_of(stacking(world, "left"), None)
    assert loads(dumps(claim), Claim).stacks
    waits = claim_of(_waiting(world, "patient", Backing.ATOMIC), None)
    assert json.loads(dumps(claim)).keys() - json.loads(dumps(waits)).keys() == {"stacks"}


def test_an_attempt_of_a_store_that_shares_nothing_does_not_stack() -> None:
    world = World()
    assert stacking(world, "left").stacks
    assert not stacking(world, "other", backing=Backing.LOCKED).stacks
    assert Scope((), ("a/",), ("a/b/", "c/")).kept_apart == ("a/", "c/")


# ---------------------------------------------------------------------------------------------------------------------
# What becomes of it


def test_it_is_adopted_below_those_who_have_stacked_on_it() -> None:
    world = World()
    dead = killed(world, "right")
    above = published(world, "left")
    outcome = drive(stacking(world, "right", 2), world.ports())
    assert (completed(outcome), outcome.adopted, world.history()) == (dead, True, [above, dead, INPUT])


def reverted(world: World, ref: CommitRef, **ports: object) -> Answer[CommitRef]:
    commit = commit_of(world, ref)
    task = task_in(commit.message)
    assert task is not None
    return run(revert(TARGET, commit, task, f"recovery-{ref}"), ports_with(world, **ports))


def test_it_is_reverted_below_them_and_the_revert_says_what_else_is_open() -> None:
    """Somebody may begin at the revert, which is above the other dead writer's work."""
    world = World()
    dead = [killed(world, "one"), killed(world, "two")]
    above = published(world, "left")
    ended(world, "one", "two")
    found = run(unaccepted(TARGET), world.ports())
    assert isinstance(found, Done)
    assert [(each.commit.ref, each.stays) for each in found.value] == [(dead[1], ""), (dead[0], "")]
    undone = reverted(world, dead[0])
    assert undone == Done(world.branch_head())
    assert world.history()[1:] == [above, dead[1], dead[0], INPUT]
    assert says(world)[0] == (dead[1],)
    assert set(files_of(world)) == {"data", "left/x", "two/x"}
    assert pin(world, "left") == Done(world.branch_head()), "it says itself what is open below it"
    again = published(world, "after", 1, "left", at=world.branch_head())
    assert (world.history()[0], says(world)[0]) == (again, (dead[1],))
    assert reverted(world, dead[1]) == Done(world.branch_head())
    assert (says(world)[0], set(files_of(world))) == ((), {"data", "left/x", "after/x"})


def test_what_else_is_open_must_be_known_before_anything_is_reverted() -> None:
    world = World()
    dead = [killed(world, "one"), killed(world, "two")]
    ended(world, "one", "two")
    head, reads = world.branch_head(), list[object]()

    def silent(_given: object, _repository: object, ref: CommitRef) -> object:
        # Asked for the staged commit of the newest one, once everything about the lower one is known.
        reads.append(ref)
        return Unknown("no answer")

    store = Answering(world.store(), "look", silent)
    assert reverted(world, dead[0], store=store) == Unknown("no answer")
    assert (world.branch_head(), len(reads)) == (head, 1)


# ---------------------------------------------------------------------------------------------------------------------
# Where a run begins


def test_the_next_run_of_a_pipeline_begins_above_a_dead_writers_work_where_the_last_one_ended() -> None:
    """Below it, it would be refused for ever: what it reads was changed since, by its own pipeline."""
    world = World()
    dead = killed(world, "right")
    last = published(world, "left")
    assert pin(world, "left") == Done(last)
    assert pin(world, "reader", "right") == Done(INPUT)
    assert run(newest_accepted(TARGET, head_of(world)), world.ports()) == Done(INPUT)
    begun = run(begin_at(TARGET, INPUT, scope_of("left"), "wf/next"), world.ports())
    assert begun == Done(last)
    assert dead in world.history()


def test_a_run_begins_at_a_commit_that_says_what_is_open_below_it() -> None:
    """A stranger's does not: whoever began there would take all of it for accepted."""
    world = World()
    killed(world, "right")
    last = published(world, "left")
    world.stranger(TARGET).commit({"person": b"p"})
    assert pin(world, "left") == Done(last)


def test_a_run_begins_below_what_is_open_at_the_head_and_above_what_lies_apart() -> None:
    """An unaccepted commit is nothing to begin at, however far apart."""
    world = World()
    dead = killed(world, "right")
    last = published(world, "left")
    newest = killed(world, "third")
    assert says(world)[0] == (dead,)
    assert pin(world, "left") == Done(last)
    assert pin(world, "left", "third") == Done(last)
    assert pin(world, "x", "right") == Done(INPUT)
    assert newest == world.branch_head()


@pytest.mark.parametrize("answer", [Unknown("no answer"), Done(None)])
def test_where_to_begin_is_unknown_if_what_lies_below_cannot_be_read(answer: Answer[None]) -> None:
    world = World()
    killed(world, "right")
    last = published(world, "left")
    killed(world, "third")

    def silent(given: object, _repository: object, ref: CommitRef) -> object:
        return answer if ref == last else given

    found = pin(world, "left", store=Answering(world.store(), "look", silent))
    assert isinstance(found, Unknown)


@pytest.mark.parametrize("method", ["since", "look", "claims"])
@pytest.mark.parametrize("answered", range(6))
def test_whether_it_hinders_is_unknown_if_it_cannot_be_read(method: str, answered: int) -> None:
    """From some call on the store is silent: what was asked before that is known, and nothing is made of the rest."""
    world = World()
    killed(world, "right")
    published(world, "left")
    for talk in (
        newest_accepted(TARGET, head_of(world), scope_of("other")),
        between(TARGET, INPUT, head_of(world), scope_of("other"), "wf/x"),
    ):
        answers: list[bool] = []
        silence = partial(_silent, answers, answered)
        found = run(talk, ports_with(world, store=Answering(world.store(), method, silence)))
        assert isinstance(found, Done) is all(answers)


def _silent(answers: list[bool], answered: int, given: object, *_words: object) -> object:
    answers.append(len(answers) < answered)
    return given if answers[-1] else Unknown("no answer")


def test_what_a_commit_names_and_nobody_can_read_is_not_taken_for_accepted() -> None:
    world = World()
    dead = killed(world, "right")
    published(world, "left")

    def gone(given: object, _repository: object, ref: CommitRef) -> object:
        return Done(None) if ref == dead else given

    store = Answering(world.store(), "look", gone)
    found = run(newest_accepted(TARGET, head_of(world), scope_of("other")), ports_with(world, store=store))
    assert isinstance(found, Unknown)
    assert dead in found.reason


@pytest.mark.parametrize("answer", [Unknown("no answer"), Done(None)])
def test_an_input_that_cannot_be_read_is_not_taken_for_one_with_nothing_open_below(answer: Answer[None]) -> None:
    """Above it is a stranger's commit only, so that it would say what is open; the head was read, the input is not."""
    world = World()
    killed(world, "right")
    last = published(world, "left")
    world.stranger(TARGET).commit({"person": b"p"})

    def silent(given: object, _repository: object, ref: CommitRef) -> object:
        return answer if ref == last else given

    store = Answering(world.store(), "look", silent)
    talk = between(TARGET, last, head_of(world), scope_of("left"), "wf/x")
    found = run(talk, ports_with(world, store=store))
    assert isinstance(found, Unknown)
