"""Several workflows on one branch: what is gathered about it, what follows, and where a task begins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from attrs import define, evolve, field

from perago_core.answers import Answer, Done, NotDone, Unknown
from perago_core.attempt.messages import AttemptLost
from perago_core.attempt.run import OWN_TURN_LONGEST, TURN_LONGEST
from perago_core.driver import drive, run
from perago_core.failpoints import Failpoint
from perago_core.landed import above, landed
from perago_core.names import commit_message, task_in
from perago_core.ports import FARTHEST
from perago_core.results import Classification, Completed, Failed, FailedTerminally, Outcome
from perago_core.sharing import begin_at, newest_accepted
from perago_core.values import Attempt, Backing, Commit, CommitRef, Landed, OnConflict, Scope, Target
from perago_simulation.ports import Body
from tests.core.world import INPUT, TARGET, Answering, CrashError, World, changes_nothing, ports_with

SCOPES = {
    "left": Scope(("left/",), ("left/",)),
    "right": Scope((), ("right/",)),
    "reader": Scope(("right/",), ("reader/",)),
}
sharing = pytest.mark.parametrize("backing", [Backing.ATOMIC, Backing.CONDITIONAL], ids=lambda each: each.value)


def writing(step: str, data: bytes = b"1") -> Body:
    """Give a body that writes a file in the folder of its step."""

    def body(files: Any) -> None:  # noqa: ANN401  a mapping from paths to bytes
        files[f"{step}/x"] = data

    return body


def attempt_of(world: World, step: str, number: int = 1, *, backing: Backing = Backing.ATOMIC, **more: Any) -> Attempt:  # noqa: ANN401  fields of an attempt
    given: dict[str, Any] = {"body": writing(step), "scope": SCOPES[step], "execution": f"run-{step}-{number}", **more}
    return world.attempt(number, backing, step=step, **given)


def once(where: str, act: Callable[[], object], at: int = 1) -> Callable[[Failpoint], None]:
    """Let something happen when a failpoint is reached for the so-manieth time."""
    seen: list[Failpoint] = []

    def reached(point: Failpoint) -> None:
        if str(point) == where:
            seen.append(point)
            if len(seen) == at:
                act()

    return reached


def completed(outcome: Outcome) -> CommitRef:
    assert isinstance(outcome.result, Completed), outcome
    return outcome.result.ref


def refused(outcome: Outcome) -> Classification:
    assert isinstance(outcome.result, Failed | FailedTerminally), outcome
    return outcome.result.refusal.classification


def files(world: World) -> dict[str, bytes]:
    repository = world.store().repositories[TARGET.repository]
    return {path: repository.blobs[at] for path, at in repository.tree(world.branch_head()).items()}


def killed(world: World, step: str, backing: Backing = Backing.ATOMIC) -> CommitRef:
    """Publish, and die before the report."""

    def die() -> None:
        raise CrashError

    with pytest.raises(CrashError):
        drive(attempt_of(world, step, backing=backing), world.ports(reached=once("orchestrator.report.before", die)))
    return world.branch_head()


@sharing
def test_disjoint_work_is_published_onto_what_came_first_and_no_body_runs_twice(backing: Backing) -> None:
    world = World()
    mine, others = (attempt_of(world, step, backing=backing) for step in ("left", "right"))
    between = once("store.publish.before", lambda: completed(drive(others, world.ports())))
    ref = completed(drive(mine, world.ports(reached=between)))
    assert world.history()[0] == ref
    assert len(world.history()) == 3
    assert {"left/x", "right/x", "data"} == set(files(world))


@sharing
@pytest.mark.clause("S-42")
@pytest.mark.parametrize("on_conflict", OnConflict, ids=lambda each: each.value)
def test_what_was_read_counts_and_a_task_says_whether_it_tries_again(backing: Backing, on_conflict: OnConflict) -> None:
    """Write skew: their writes are disjoint, and no order of the two gives both results."""
    world = World()
    mine = attempt_of(world, "reader", backing=backing, on_conflict=on_conflict)
    others = attempt_of(world, "right", backing=backing)
    between = once("store.claim.before", lambda: completed(drive(others, world.ports())))
    outcome = drive(mine, world.ports(reached=between))
    assert isinstance(outcome.result, FailedTerminally if on_conflict is OnConflict.FAIL else Failed)
    assert refused(outcome) is Classification.CONFLICT
    assert "reader/x" not in files(world)


@sharing
def test_an_unaccepted_publication_is_waited_for_and_no_longer_than_that(backing: Backing) -> None:
    world = World()
    mine = attempt_of(world, "left", backing=backing)
    killed(world, "right", backing)
    before = world.clock().now()
    outcome = drive(mine, world.ports())
    assert refused(outcome) is Classification.UNACCEPTED_IN_THE_WAY
    assert world.clock().now() - before >= TURN_LONGEST
    assert "left/x" not in files(world)


@sharing
def test_who_waits_goes_on_when_the_publication_is_adopted_and_accepted(backing: Backing) -> None:
    world = World()
    mine = attempt_of(world, "left", backing=backing)
    published = killed(world, "right", backing)
    ours: list[Outcome] = []

    def finish() -> None:
        ours.append(drive(attempt_of(world, "right", 2, backing=backing), world.ports()))

    ref = completed(drive(mine, world.ports(reached=once("store.since.before", finish, at=3))))
    assert (completed(ours[0]), ours[0].adopted) == (published, True)
    assert world.history()[:2] == [ref, published]


def test_who_waits_stops_when_its_attempt_is_lost_or_out_of_time() -> None:
    world = World()
    mine = attempt_of(world, "left")
    killed(world, "right")
    looks: list[Failpoint] = []

    def interrupts(_state: object) -> AttemptLost | None:
        return AttemptLost("taken over") if len(looks) > 2 else None

    def look(point: Failpoint) -> None:
        if str(point) == "store.since.before":
            looks.append(point)

    silent = drive(mine, world.ports(reached=look), interrupts=interrupts)
    assert silent.result is None
    world = World()
    mine = attempt_of(world, "left")
    killed(world, "right")
    until = world.clock().now() + 1.0
    assert refused(drive(mine, world.ports(), attempt_until=lambda: until)) is Classification.UNACCEPTED_IN_THE_WAY


@define
class Turns:
    """Turns of one process; ``others``: how often somebody else has it when it is tried for."""

    others: int = 0
    told: list[str] = field(factory=list[str])

    def take(self, target: Target) -> bool:
        assert target == TARGET
        self.others -= 1
        self.told.append("waits" if self.others >= 0 else "takes")
        return self.others < 0

    def give_back(self, target: Target) -> None:
        assert target == TARGET
        self.told.append("gives back")

    def reached(self, point: Failpoint) -> None:
        if str(point) in {"store.head.before", "store.publish.before", "orchestrator.report.after"}:
            self.told.append(str(point))


@sharing
def test_writers_of_one_process_publish_in_turn_and_the_turn_ends_with_the_report(backing: Backing) -> None:
    world, turns = World(), Turns(others=2)
    mine = attempt_of(world, "left", backing=backing)
    outcome = drive(mine, world.ports(reached=turns.reached), turns=turns)
    completed(outcome)
    looked = turns.told.index("waits")
    sent = ["store.head.before", "store.publish.before", "orchestrator.report.after", "gives back"]
    assert turns.told[looked:] == ["waits", "waits", "takes", *sent]


def test_a_turn_that_does_not_come_is_not_waited_for_and_was_nobodys_to_give_back() -> None:
    world, turns = World(), Turns(others=10**6)
    mine = attempt_of(world, "left")
    before = world.clock().now()
    completed(drive(mine, world.ports(), turns=turns))
    assert OWN_TURN_LONGEST <= world.clock().now() - before < 2 * OWN_TURN_LONGEST
    assert "gives back" not in turns.told


def test_the_turn_is_left_to_others_while_an_unaccepted_publication_is_waited_for() -> None:
    """The attempt that is going to adopt it may be of this very process, and need the turn."""
    world, turns = World(), Turns()
    mine = attempt_of(world, "left")
    killed(world, "right")
    ours: list[Outcome] = []

    def finish() -> None:
        assert turns.told[-2:] == ["gives back", "takes"]
        ours.append(drive(attempt_of(world, "right", 2), world.ports()))

    completed(drive(mine, world.ports(reached=once("store.since.before", finish, at=3)), turns=turns))
    assert ours[0].adopted
    assert turns.told.count("takes") == turns.told.count("gives back") > 2


def test_a_process_that_loses_its_attempt_or_dies_gives_the_turn_back() -> None:
    world, turns = World(), Turns()

    def die() -> None:
        raise CrashError

    mine = attempt_of(world, "left")
    with pytest.raises(CrashError):
        drive(mine, world.ports(reached=once("store.publish.after", die)), turns=turns)
    assert turns.told == ["takes", "gives back"]


def test_a_refusal_that_is_not_about_the_head_is_not_tried_for_ever() -> None:
    world = World()
    mine = attempt_of(world, "left")
    never = Instead(world.store(), "publish", lambda *_: NotDone("no permission"))
    assert refused(drive(mine, ports_with(world, store=never))) is Classification.PUBLISH_REFUSED


class Instead:
    """A port of which one method is answered without being called."""

    def __init__(self, port: object, method: str, answer: Callable[..., object]) -> None:
        self._port = port
        self._calls = {method: answer}

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  any method
        return self._calls.get(name) or getattr(self._port, name)


@sharing
def test_a_publication_without_an_answer_is_found_below_those_that_came_since(backing: Backing) -> None:
    world = World()
    mine = attempt_of(world, "left", backing=backing)
    store = world.store()

    def lost(given: Answer[CommitRef], *_plan: object) -> Answer[CommitRef]:
        assert isinstance(given, Done)
        world.stranger(TARGET).commit({"person": b"p"})
        return Unknown("no answer")

    ref = completed(drive(mine, ports_with(world, store=Answering(store, "publish", lost))))
    assert world.history()[1] == ref


@pytest.mark.parametrize("method", ["since", "look", "head"])
def test_what_cannot_be_read_is_not_taken_for_nothing(method: str) -> None:
    world = World()
    mine = attempt_of(world, "left")
    completed(drive(attempt_of(world, "right"), world.ports()))
    store = Answering(world.store(), method, lambda *_: NotDone("no answer"))
    outcome = drive(mine, ports_with(world, store=store))
    assert refused(outcome) is Classification.TARGET_UNREADABLE


def test_an_input_that_is_not_below_the_head_is_refused() -> None:
    world = World()
    stranger = world.stranger(TARGET)
    gone = stranger.commit({"gone": b"g"})
    mine = evolve(attempt_of(world, "left"), input=gone)
    world.workspace().accept(mine, writing("left"))
    stranger.reset(INPUT)
    assert refused(drive(mine, world.ports())) is Classification.HEAD_ELSEWHERE


def test_a_no_op_is_its_input_wherever_the_head_is() -> None:
    world = World()
    mine = attempt_of(world, "left", body=changes_nothing)
    completed(drive(attempt_of(world, "right"), world.ports()))
    assert completed(drive(mine, world.ports())) == INPUT


def test_a_no_op_of_the_own_task_is_adopted() -> None:
    world = World()
    with pytest.raises(CrashError):
        drive(
            attempt_of(world, "left", body=changes_nothing),
            world.ports(reached=once("orchestrator.report.before", _die)),
        )
    outcome = drive(attempt_of(world, "left", 2), world.ports())
    assert (completed(outcome), outcome.adopted) == (INPUT, True)


# ---------------------------------------------------------------------------------------------------------------------
# Where a task begins


def begins(world: World, step: str, own_task: str = "wf/other", store: Any = None) -> Answer[CommitRef]:  # noqa: ANN401  as above
    return run(begin_at(TARGET, INPUT, SCOPES[step], own_task), ports_with(world, store=store or world.store()))


def test_a_task_begins_as_told_while_nothing_it_declares_was_changed() -> None:
    world = World()
    assert begins(world, "reader") == Done(INPUT)
    completed(drive(attempt_of(world, "left"), world.ports()))
    assert begins(world, "reader") == Done(INPUT)


@pytest.mark.clause("S-43")
def test_a_task_begins_at_the_newest_accepted_commit_where_something_was() -> None:
    """What nobody has accepted yet is left below, and so are commits of strangers on top of it."""
    world = World()
    accepted = completed(drive(attempt_of(world, "right"), world.ports()))
    above_it = world.stranger(TARGET).commit({"person": b"p"})
    assert begins(world, "reader") == Done(above_it)
    killed(world, "left")
    world.stranger(TARGET).commit({"person": b"q"})
    assert begins(world, "reader") == Done(above_it)
    assert world.history()[3] == accepted


def test_a_task_begins_as_told_where_the_change_is_its_own_publication() -> None:
    world = World()
    mine = attempt_of(world, "left")
    with pytest.raises(CrashError):
        drive(mine, world.ports(reached=once("orchestrator.report.before", _die)))
    assert begins(world, "left", mine.logical_task) == Done(INPUT)
    assert begins(world, "left", "wf/other") == Done(INPUT), "it is not accepted, and what is below it is the input"


def _die() -> None:
    raise CrashError


def test_a_task_whose_input_was_taken_off_begins_at_what_is_there() -> None:
    world = World()
    gone = world.stranger(TARGET).commit({"gone": b"g"})
    world.stranger(TARGET).reset(INPUT)
    there = world.stranger(TARGET).commit({"there": b"t"})
    found = run(begin_at(TARGET, gone, SCOPES["left"], "wf/x"), world.ports())
    assert found == Done(there)


@pytest.mark.parametrize("method", ["head", "since", "look", "claims"])
def test_where_to_begin_is_unknown_if_it_cannot_be_read(method: str) -> None:
    world = World()
    completed(drive(attempt_of(world, "left"), world.ports()))
    completed(drive(attempt_of(world, "right"), world.ports()))
    store = Answering(world.store(), method, lambda *_: Unknown("no answer"))
    assert begins(world, "reader", store=store) == Unknown("no answer")


def test_where_to_begin_is_unknown_if_the_orchestrator_does_not_answer() -> None:
    world = World()
    completed(drive(attempt_of(world, "right"), world.ports()))
    asked = ports_with(world, orchestrator=Answering(world.orchestrator(), "reload", lambda *_: Unknown("no answer")))
    assert run(begin_at(TARGET, INPUT, SCOPES["reader"], "wf/x"), asked) == Unknown("no answer")


def test_a_publication_of_a_task_nobody_has_heard_of_is_a_strangers() -> None:
    """Claims and tasks of settled workflows are collected; what they left must not keep a branch for ever."""
    world = World()
    published = killed(world, "right")
    asked = ports_with(world, orchestrator=Answering(world.orchestrator(), "reload", lambda *_: Done(None)))
    head = world.store().repositories[TARGET.repository].commits[published]
    assert run(newest_accepted(TARGET, head), asked) == Done(published)
    assert run(newest_accepted(TARGET, head), world.ports()) == Done(INPUT)


@pytest.mark.parametrize("answer", [Done(None), Unknown("no answer")])
def test_a_walk_down_that_finds_nothing_more_stops(answer: Answer[None]) -> None:
    world = World()
    ref = world.stranger(TARGET).commit({"person": b"p"})
    head = world.store().repositories[TARGET.repository].commits[ref]
    store = Answering(world.store(), "look", lambda *_: answer)
    found = run(newest_accepted(TARGET, head), ports_with(world, store=store))
    assert found == (Done(ref) if isinstance(answer, Done) else answer)


# ---------------------------------------------------------------------------------------------------------------------
# What is declared, and what lies between


def test_a_scope_knows_what_it_may_write_and_whom_it_meets() -> None:
    scope = Scope(("a/", "a/b/"), ("c/",))
    assert scope.prefixes == ("a/", "c/")
    assert scope.allows("c/x")
    assert not scope.allows("a/x")
    assert scope.meets(Scope((), ("a/b/",))) == "a/b/"
    assert scope.meets(Scope(("c/d/",), ())) == "c/d/"
    assert scope.meets(Scope(("a/",), ("d/",))) is None, "what both only read is no conflict"


def test_a_scope_takes_effect_where_the_store_checks_the_head_and_there_without_a_ledger() -> None:
    world = World()
    assert attempt_of(world, "left").shares
    assert not attempt_of(world, "left", 2, backing=Backing.SOFT).shares
    assert attempt_of(world, "left", 3, backing=Backing.LOCKED, ledger=True).ledger
    with pytest.raises(ValueError, match="needs ledger=False"):
        attempt_of(world, "left", 4, ledger=True)


def test_a_message_says_of_which_task_a_commit_is_and_a_persons_says_nothing() -> None:
    message = commit_message("wf.load.0", 2, "task-7")
    assert task_in(f"{message}\n\nPerago-Execution: x") == "wf.load.0"
    assert task_in("a person's attempt to mend it") is None


def commit(ref: str, *parents: str) -> Commit:
    return Commit(CommitRef(ref), tuple(map(CommitRef, parents)), f"tree-{ref}")


def test_the_walk_down_is_bounded() -> None:
    chain = {f"c{n}": commit(f"c{n}", f"c{n - 1}") for n in range(1, FARTHEST + 2)}
    assert above(CommitRef("c1"), CommitRef(f"c{FARTHEST + 1}"), chain.__getitem__) is not None
    assert above(CommitRef("c0"), CommitRef(f"c{FARTHEST + 1}"), chain.__getitem__) is None


def test_a_difference_never_goes_unseen() -> None:
    """What no single comparison explains, because it saw only part of the paths, is put down to the newest commit."""
    chain = (commit("c2", "c1"), commit("c1", "c0"))
    paths = {("c0", "c2"): {"a", "b"}, ("c1", "c2"): set[str](), ("c0", "c1"): {"a"}}
    found = landed(chain, CommitRef("c0"), lambda one, other: paths[one, other])
    assert found == (Landed(chain[0], ("b",)), Landed(chain[1], ("a",)))
    assert landed((), CommitRef("c0"), lambda _one, _other: ()) == ()


def test_an_attempt_that_claimed_and_never_published_is_passed_over() -> None:
    world = World()
    with pytest.raises(CrashError):
        drive(attempt_of(world, "left"), world.ports(reached=once("store.publish.before", _die)))
    with pytest.raises(CrashError):
        drive(attempt_of(world, "left", 2), world.ports(reached=once("orchestrator.report.before", _die)))
    published = world.branch_head()
    person = world.stranger(TARGET).commit({"person": b"p"})
    third = drive(attempt_of(world, "left", 3), world.ports())
    assert (completed(third), third.adopted, world.history()) == (published, True, [person, published, INPUT])


def test_what_was_to_be_adopted_and_is_gone_is_not_reported() -> None:
    world = World()
    killed(world, "left")
    gone = once("store.claim.before", lambda: world.stranger(TARGET).reset(INPUT))
    assert refused(drive(attempt_of(world, "left", 2), world.ports(reached=gone))) is Classification.ADOPTED_GONE


def test_where_to_begin_is_unknown_if_the_own_claims_or_those_of_others_are() -> None:
    world = World()
    completed(drive(attempt_of(world, "right"), world.ports()))

    def of_ours(given: object, _target: object, task: str) -> object:
        return Unknown("no answer") if task == "wf/mine" else given

    silent = Answering(world.store(), "claims", of_ours)
    assert begins(world, "reader", "wf/mine", silent) == Unknown("no answer")
    gone = world.stranger(TARGET).commit({"gone": b"g"})
    world.stranger(TARGET).reset(INPUT)
    killed(world, "left")
    none = Answering(world.store(), "claims", lambda *_: Unknown("no answer"))
    found = run(begin_at(TARGET, gone, SCOPES["right"], "wf/mine"), ports_with(world, store=none))
    assert found == Unknown("no answer")


def test_strangers_are_not_walked_down_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perago_core.sharing.FARTHEST", 1)
    world = World()
    killed(world, "left")
    ref = [world.stranger(TARGET).commit({"person": data}) for data in (b"p", b"q")][-1]
    head = world.store().repositories[TARGET.repository].commits[ref]
    assert run(newest_accepted(TARGET, head), world.ports()) == Done(ref)
