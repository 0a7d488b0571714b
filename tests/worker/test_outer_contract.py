"""One outer contract: what the embedded stack shows, what Conductor keeps and what is published have the same keys."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perago_conductor.documents import output_of
from perago_core.results import Completed
from perago_core.values import Attempt, Backing
from tests.worker.embedded import Embedded, embedded
from tests.worker.projects import MAIN


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    with embedded(tmp_path_factory.mktemp("contract")) as made:
        yield made


def test_an_output_is_the_same_document_everywhere(worker: Embedded) -> None:
    workflow = worker.start("write", worker.head())
    assignment = worker.poll()
    outcome = worker.run(assignment)
    assert isinstance(outcome.result, Completed)
    view = worker.words.view(workflow)
    assert view is not None
    (shown,) = view.output.values()
    attempt = Attempt(
        workflow,
        assignment.snapshot.task_id,
        0,
        assignment.logical_task,
        assignment.number,
        outcome.result.execution,
        MAIN,
        worker.first,
        Backing.ATOMIC,
    )
    assert shown == output_of(attempt, outcome.result)
    schema = worker.tasks["write"].output_schema
    assert keys(shown) == keys_of(schema)


def test_an_input_has_the_keys_that_are_published(worker: Embedded) -> None:
    worker.start("write", worker.head())
    assignment = worker.poll()
    assert keys(json.loads(assignment.input)) == keys_of(worker.tasks["write"].input_schema)
    worker.run(assignment)


def keys(document: Any) -> dict[str, list[str]]:  # noqa: ANN401  any JSON
    """Name the keys at the top and those of the workspace; what is inside params and result is the task's own."""
    return {"": list(document), "workspace": list(document["workspace"])}


def keys_of(schema: Any) -> dict[str, list[str]]:  # noqa: ANN401  any JSON Schema
    properties = schema["properties"]
    return {"": list(properties), "workspace": list(properties["workspace"]["properties"])}


def test_only_one_module_spells_the_keys() -> None:
    """A second spelling is how the embedded stack came to write ``ref_type`` where Conductor wrote ``refType``."""
    root = Path(__file__).parents[2]
    spelling = [
        path.relative_to(root).as_posix()
        for folder in ("perago_core", "adapters", "simulation")
        for path in (root / folder).rglob("*.py")
        if 'refType"' in path.read_text(encoding="utf-8")
    ]
    assert spelling == ["perago_core/contract.py"]
