"""A declared pipeline as Conductor's workflow definition: documents only, no server."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from perago_conductor.documents import Pipeline, Step, documents, recovery_document, unlike, workflow_document
from perago_core.values import Target

MAIN = Target("lake", "main")
LINE = Pipeline(
    "orders",
    (
        (Step("ingest", "take-in", {"day": "${params.day}", "note": "of ${params.day}"}),),
        (Step("look", "look"), Step("clean", "clean", {"rows": "${ingest.result.rows}", "deep": ["${ingest.result}"]})),
        (Step("rollup", "sum-up"),),
    ),
    MAIN,
    "orders-recover",
)


def _steps(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Give every simple task of a workflow by its reference name, wherever it stands."""
    found: dict[str, dict[str, Any]] = {}
    for each in document["tasks"]:
        lanes = each.get("forkTasks") or [[each]]
        found |= {step["taskReferenceName"]: step for lane in lanes for step in lane if step["type"] == "SIMPLE"}
    return found


def test_the_output_ref_of_each_step_is_the_input_of_the_next() -> None:
    steps = _steps(workflow_document(LINE))
    given = {name: step["inputParameters"]["workspace"] for name, step in steps.items()}
    assert given == {
        "ingest": "${workflow.input.workspace}",
        "look": "${ingest.output.workspace}",
        "clean": "${ingest.output.workspace}",
        "rollup": "${clean.output.workspace}",
    }


def test_quotations_become_conductors_own() -> None:
    steps = _steps(workflow_document(LINE))
    assert steps["ingest"]["inputParameters"]["params"] == {
        "day": "${workflow.input.params.day}",
        "note": "of ${workflow.input.params.day}",
    }
    assert steps["clean"]["inputParameters"]["params"] == {
        "rows": "${ingest.output.result.rows}",
        "deep": ["${ingest.output.result}"],
    }


def test_a_workflow_shows_every_workspace_and_only_the_last_result() -> None:
    """Conductor keeps 10 MiB of a workflow's output, and each step may give 3."""
    shown = workflow_document(LINE)["outputParameters"]
    assert {name: sorted(each) for name, each in shown.items()} == {
        "ingest": ["workspace"],
        "look": ["workspace"],
        "clean": ["workspace"],
        "rollup": ["result", "workspace"],
    }


def test_steps_side_by_side_are_a_fork_that_is_joined() -> None:
    fork, join = workflow_document(LINE)["tasks"][1:3]
    assert (fork["type"], join["type"]) == ("FORK_JOIN", "JOIN")
    assert join["joinOn"] == ["look", "clean"]


def test_a_failed_run_starts_the_recovery_of_its_pipeline() -> None:
    workflow, recovery = documents(LINE)
    assert workflow["failureWorkflow"] == recovery["name"] == "orders-recovery"
    (recover,) = recovery["tasks"]
    assert recover["name"] == "orders-recover"
    assert recover["inputParameters"]["params"]["workflow"] == "${workflow.input.workflowId}"


def test_without_a_target_there_is_no_workspace_and_nothing_to_recover() -> None:
    alone = Pipeline("alone", ((Step("add", "add"),),), None, "alone-recover")
    assert recovery_document(alone) is None
    assert "failureWorkflow" not in workflow_document(alone)
    assert "workspace" not in workflow_document(alone)["tasks"][0]["inputParameters"]


def _changed(change: str) -> dict[str, Any]:
    """Give the document as a server shows it, with its defaults, and with one thing changed."""
    found: dict[str, Any] = copy.deepcopy(workflow_document(LINE))
    found |= {"createTime": 1, "restartable": True}
    first = found["tasks"][0]
    first |= {"startDelay": 0, "optional": False}
    match change:
        case "task":
            first["name"] = "other"
        case "input added":
            first["inputParameters"]["more"] = 1
        case "step gone":
            found["tasks"].pop()
        case "no recovery":
            del found["failureWorkflow"]
        case _:
            assert change == "nothing"
    return found


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        ("nothing", ()),
        ("task", ("tasks",)),
        ("input added", ("tasks",)),
        ("step gone", ("tasks",)),
        ("no recovery", ("failureWorkflow",)),
    ],
)
def test_what_the_server_adds_is_no_difference_and_what_somebody_changed_is(
    change: str, fields: tuple[str, ...]
) -> None:
    assert unlike(workflow_document(LINE), _changed(change)) == fields
