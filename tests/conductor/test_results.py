"""Results nobody waits for any more, that race, or that are too large: what was taken is read back, never assumed."""

from __future__ import annotations

import json
import random
import threading
from concurrent.futures import ThreadPoolExecutor

from attrs import evolve

from perago_conductor.orchestrator import ConductorOrchestrator
from perago_conductor.transport import Gone
from perago_conformance.support import done
from perago_core.answers import Done
from perago_core.attempt.state import is_accepted
from perago_core.ports import Assignment
from perago_core.values import TaskStatus
from perago_worker.folders.workspace import Limits
from tests.conductor.attempts import FAILED, FIRST_REF, LAST_REF, MAIN, NEXT_REF, completed, polled, reload, wide
from tests.support.conductor.operating import Operator


def test_a_result_to_a_terminated_workflow_is_answered_done_and_not_accepted(
    operator: Operator, port: ConductorOrchestrator
) -> None:
    workflow = operator.start(("clean",), MAIN, FIRST_REF)
    late = polled(port)
    operator.terminate(workflow)
    done(port.report(wide(late), completed()))
    seen = reload(port, late)
    assert seen is not None
    assert (seen.status, seen.result_execution, seen.workflow_running) == (TaskStatus.CANCELED, None, False)
    assert not is_accepted(wide(late), seen)


def test_the_second_of_two_completions_is_not_accepted(operator: Operator, port: ConductorOrchestrator) -> None:
    operator.start(("clean", "join"), MAIN, FIRST_REF)
    task = polled(port)
    first, second = wide(task, "run-1"), wide(task, "run-2")
    done(port.report(first, completed(NEXT_REF, "run-1")))
    done(port.report(second, completed(LAST_REF, "run-2")))
    done(port.report(second, FAILED))
    seen = reload(port, task)
    assert (is_accepted(first, seen), is_accepted(second, seen)) == (True, False)
    assert json.loads(polled(port, "join").input)["workspace"]["ref"] == NEXT_REF


def test_a_result_for_a_task_that_is_gone_is_not_done(operator: Operator, port: ConductorOrchestrator) -> None:
    workflow = operator.start(("clean",), MAIN, FIRST_REF)
    task = polled(port)
    operator.terminate(workflow)
    operator.restart(workflow)
    assert isinstance(port.report(wide(task), completed()), Gone)
    assert isinstance(port.extend(wide(task)), Gone)
    unknown = evolve(wide(task), workflow_id="no-such-workflow")
    assert done(port.reload(unknown.workflow_id, unknown.task_id)) is None


def _send(port: ConductorOrchestrator, task: Assignment, execution: str, meet: threading.Barrier) -> bool:
    meet.wait()
    return isinstance(port.report(wide(task, execution), completed(execution=execution)), Done)


def test_of_two_results_at_once_the_one_the_workflow_goes_on_with_is_accepted(
    operator: Operator, port: ConductorOrchestrator
) -> None:
    """Conductor may keep one in the task and hand the other on (39 of 60): both answers are 200, so only this tells."""
    workflows = [operator.start(("clean", "join"), MAIN, FIRST_REF) for _ in range(12)]
    tasks = [polled(port) for _ in workflows]
    with ThreadPoolExecutor(2) as pool:
        for task in tasks:
            meet = threading.Barrier(2)
            racing = [pool.submit(_send, port, task, each, meet) for each in ("run-1", "run-2")]
            assert all(each.result() for each in racing), "both are answered alike"
    after: dict[str, str] = {}
    for _ in tasks:
        following = polled(port, "join")
        after[following.snapshot.workflow_id] = json.loads(following.input)["workspace"]["execution"]
    for task in tasks:
        seen = reload(port, task)
        accepted = [each for each in ("run-1", "run-2") if is_accepted(wide(task, each), seen)]
        assert accepted == [after[task.snapshot.workflow_id]]


def test_the_workflows_output_tells_where_no_step_follows(operator: Operator, port: ConductorOrchestrator) -> None:
    workflow = operator.start(("clean",), MAIN, FIRST_REF)
    task = polled(port)
    done(port.report(wide(task), completed()))
    shown = operator.until_ended(workflow)["output"]
    assert shown["result"] == {"rows": 3}
    assert shown["workspace"] == {
        "repository": MAIN.repository,
        "branch": MAIN.branch,
        "refType": "commit",
        "ref": NEXT_REF,
        "task": task.snapshot.task_id,
        "execution": "run-1",
    }


def test_what_a_body_returns_does_not_pass_for_somebody_elses_result(
    operator: Operator, port: ConductorOrchestrator
) -> None:
    operator.start(("clean",), MAIN, FIRST_REF)
    task = polled(port)
    forged = json.dumps({"task": task.snapshot.task_id, "execution": "run-9", "ref": LAST_REF})
    done(port.report(wide(task), completed(output=forged)))
    seen = reload(port, task)
    assert seen is not None
    assert (seen.result_execution, seen.result_ref) == ("run-1", NEXT_REF)


def test_the_largest_result_a_body_may_return_can_be_read_back(operator: Operator, port: ConductorOrchestrator) -> None:
    """Conductor counts bytes of JSON, as we do: with text outside ASCII, and with quotes that it escapes."""
    assert Limits().output <= port.output_max
    for filling in ("x", "é", '"'):
        unit = len(json.dumps(filling, ensure_ascii=False).encode()) - 2
        largest = json.dumps(filling * ((port.output_max - 2) // unit), ensure_ascii=False)
        workflow = operator.start(("clean", "join"), MAIN, FIRST_REF)
        task = polled(port)
        done(port.report(wide(task), completed(output=largest)))
        shown = operator.task(task.snapshot.task_id)
        assert shown["outputData"]["result"] == json.loads(largest), "beyond 3 MiB it would be blank"
        assert is_accepted(wide(task), reload(port, task))
        operator.terminate(workflow)


def test_a_result_too_large_for_conductor_fails_the_task_although_it_was_answered_done(
    operator: Operator, port: ConductorOrchestrator
) -> None:
    """Why a result is measured before anything is published."""
    operator.start(("clean",), MAIN, FIRST_REF)
    task = polled(port)
    done(port.report(wide(task), completed(output=json.dumps("x" * (11 * 2**20)))))
    seen = reload(port, task)
    assert seen is not None
    assert (seen.status, seen.result_execution) == (TaskStatus.FAILED_WITH_TERMINAL_ERROR, None)


def test_a_task_log_line_arrives_as_it_was_written(operator: Operator, port: ConductorOrchestrator) -> None:
    operator.start(("clean",), MAIN, FIRST_REF)
    task = polled(port).snapshot.task_id
    lines = ['head "a" is the input: merge', "größer, \\ und \t", "half a pair: \ud800"]
    for line in lines:
        port.log(task, line)
    assert sorted(operator.logs(task)) == sorted([*lines[:2], "half a pair: \\ud800"])


def test_a_reason_is_cut_where_conductor_cuts_it_and_any_text_is_taken(
    operator: Operator, port: ConductorOrchestrator
) -> None:
    operator.start(("clean",), MAIN, FIRST_REF)
    task = polled(port)
    strange = evolve(FAILED, refusal=evolve(FAILED.refusal, actual="\ud800 ü \0 " + "x" * 2000))
    done(port.report(wide(task), strange))
    shown = operator.task(task.snapshot.task_id)
    assert (shown["status"], len(shown["reasonForIncompletion"]) <= 500) == ("FAILED", True)


def test_several_kinds_of_tasks_are_polled_by_one_worker_and_never_too_many(
    operator: Operator, port: ConductorOrchestrator
) -> None:
    names = ("clean", "join", "sum")
    seeded = random.Random(8)
    for _ in range(9):
        operator.start((seeded.choice(names),), MAIN, FIRST_REF)
    taken: list[str] = []
    while batch := done(port.poll("worker-1", names, 4)):
        assert len(batch) <= 4
        taken += [each.snapshot.task_id for each in batch]
    assert (len(taken), len(set(taken))) == (9, 9)


def test_a_worker_takes_no_tasks_of_another_domain(operator: Operator, port: ConductorOrchestrator) -> None:
    operator.start(("clean",), MAIN, FIRST_REF)
    elsewhere = ConductorOrchestrator(operator.url, domain=f"{operator.domain}-other", poll_wait=0.1)
    nowhere = ConductorOrchestrator(operator.url, poll_wait=0.1)
    assert done(elsewhere.poll("worker-1", ("clean",), 5)) == ()
    assert all(
        each.snapshot.workflow_id not in operator.started for each in done(nowhere.poll("worker-1", ("clean",), 5))
    )
    assert polled(port).snapshot.workflow_id in operator.started
    elsewhere.close()
    nowhere.close()
