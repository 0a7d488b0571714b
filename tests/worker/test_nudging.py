"""Signs of life on a coordination that loses an answer: they go on, so that nudges are left for when they stop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from attrs import define, field

from perago_core.answers import Answer, Done, Unknown
from perago_core.ports import Coordination
from perago_core.results import Completed
from perago_core.values import Attempt, Backing, CommitRef, Target, TaskSnapshot, TaskStatus
from perago_worker.runtime.liveness import SIGNS, Lookout, Sign
from perago_worker.runtime.telemetry import Silence
from tests.worker.clocks import Wall
from tests.worker.embedded import Faulty, always, embedded

PATIENCE = 10.0
ATTEMPT = Attempt("w", "t", 0, "w/t", 1, "run", Target("lake", "main"), CommitRef("A"), Backing.SOFT)


@define
class Asked:
    """Takes down how often an orchestrator was nudged that still sees the attempt run."""

    nudges: list[str] = field(factory=list[str])

    def nudge(self, workflow_id: str) -> Answer[None]:
        self.nudges.append(workflow_id)
        return Done(None)

    def reload(self, workflow_id: str, task_id: str) -> Answer[TaskSnapshot | None]:
        return Done(TaskSnapshot(workflow_id, task_id, 0, TaskStatus.IN_PROGRESS, "me"))


def lookout(coordination: object, clock: Wall, asked: Asked, name: str) -> Lookout:
    """Make one that looks only when it is told to."""
    port: Any = coordination
    return Lookout(asked, port, clock, name, PATIENCE, 3600.0)


@pytest.mark.parametrize("call", ["create_if_absent", "swap"])
@pytest.mark.parametrize("arrived", [True, False], ids=["answer lost", "request lost"])
def test_a_lost_answer_does_not_stop_the_signs_of_a_worker_that_lives(
    coordination: Coordination, call: str, *, arrived: bool
) -> None:
    """Else peers spend their nudges on it, and have none when it dies."""
    losing = [True]

    def once(real: Any, *words: object) -> object:  # noqa: ANN401  any method of a port
        if not losing:
            return real(*words)
        losing.clear()
        if arrived:
            real(*words)
        return Unknown("the leader has changed")

    clock, asked = Wall(), Asked()
    me = lookout(Faulty(coordination, **{call: once}), clock, Asked(), "me")
    peer = lookout(coordination, clock, asked, "peer")
    with me.showing(ATTEMPT, lambda: clock.now() + PATIENCE) as shown:
        for _ in range(4):
            me.look()
            clock.ahead += PATIENCE / 2
        me.look()
        peer.look()
        assert not losing
        assert asked.nudges == []
        clock.ahead += PATIENCE + 1
        peer.look()
        assert asked.nudges == ["w"]
        shown.closed = True
    me.look()
    assert coordination.list(SIGNS) == Done(())


def signs(coordination: Coordination) -> list[Sign]:
    """Give the signs that stand."""
    listed = coordination.list(SIGNS)
    assert isinstance(listed, Done)
    return [sign for entry in listed.value if (sign := Sign.read(entry))]


@pytest.mark.parametrize("accepted", [True, False], ids=["accepted", "the report was lost"])
def test_a_sign_stands_before_anything_is_made_ready_and_until_the_result_is_accepted(
    tmp_path: Path, *, accepted: bool
) -> None:
    """A worker killed in its first second is looked for like any other, and so is a task whose result nobody has."""
    with embedded(tmp_path) as worker:
        shared = worker.stack.coordination
        assert shared is not None
        standing: list[list[str]] = []

        def noted(real: Any, *words: object) -> object:  # noqa: ANN401  any method of a port
            standing.append([sign.worker_id for sign in signs(shared)])
            return real(*words)

        workspace: Any = Faulty(worker.runtime.workspace, prepare=noted)
        lost: Any = Faulty(worker.orchestrator, report=always(Unknown("the request was lost")))
        words: Any = worker.orchestrator
        watching = Lookout(words, shared, worker.stack.clock, "tester", PATIENCE, 3600.0)
        worker.start("write")
        orchestrator = worker.orchestrator if accepted else lost
        outcome = worker.run(workspace=workspace, orchestrator=orchestrator, lookout=watching)
        assert isinstance(outcome.result, Completed)
        assert standing == [["tester"]]
        assert [sign.worker_id for sign in signs(shared)] == ["tester"]
        watching.look()
        assert [sign.worker_id for sign in signs(shared)] == ([] if accepted else ["tester"])


def test_a_failover_is_counted(coordination: Coordination) -> None:
    """Its worker is silent, it is nudged for, and the orchestrator has given it to somebody else."""
    counted: list[str] = []

    class Counting(Silence):
        def count(self, name: str, attributes: object, by: int = 1) -> None:
            del attributes, by
            counted.append(name)

    clock, asked = Wall(), Asked()
    silent = lookout(coordination, clock, asked, "silent")
    me = Lookout(asked, coordination, clock, "me", PATIENCE, 3600.0, Counting())
    until = clock.now() + PATIENCE
    with silent.showing(ATTEMPT, lambda: until):
        silent.look()
        me.look()
        assert counted == []
        clock.ahead = PATIENCE + 1
        me.look()
    assert asked.nudges == ["w"]
    assert counted == ["failovers"]


def test_a_sign_taken_over_does_not_go_with_the_lease_of_the_worker_before(coordination: Coordination) -> None:
    """The same task handed out again, to another worker: the first one's end must not hide the second one's."""
    clock = Wall()
    before, me = lookout(coordination, clock, Asked(), "before"), lookout(coordination, clock, Asked(), "me")
    with before.open(), before.showing(ATTEMPT, lambda: clock.now() + PATIENCE):
        before.look()
        with me.showing(ATTEMPT, lambda: clock.now() + PATIENCE):
            me.look()
    # The lease of the first has been given back.
    assert [sign.worker_id for sign in signs(coordination)] == ["me"]
