"""What authors write, and what they are told when it cannot work (issue 5, item 3; P-23)."""

from __future__ import annotations

import inspect
import json
import logging
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, RootModel

import perago_worker
from perago_core.values import CommitRef, Target
from perago_worker import TaskDefinitionError, Workspace, progress, require_file, require_glob, task
from perago_worker.api.errors import InputError
from perago_worker.api.guardrails import check, forbid_glob, require_dir
from perago_worker.api.registry import Registry
from perago_worker.api.task import TaskDefinition, definition_of
from perago_worker.runtime.assignment import WorkspaceRef, read_input
from tests.worker import sample_tasks
from tests.worker.support import TASKS


class Params(BaseModel):
    text: str


class Words(RootModel[list[str]]):
    pass


def definition(function: object) -> TaskDefinition:
    found = definition_of(function)
    assert found is not None
    return found


def test_a_task_remains_an_ordinary_function(tmp_path: Path) -> None:
    assert sample_tasks.write(tmp_path, sample_tasks.Params(text="ab", count=2)) == sample_tasks.Result(rows=2)
    assert (tmp_path / "out.txt").read_text() == "abab"
    assert inspect.iscoroutinefunction(sample_tasks.write_async)


def test_progress_outside_a_worker_is_a_log_record(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "perago.progress"):
        progress(3, 4, "files")
    assert caplog.messages == ["75% files"]


@pytest.mark.parametrize(("done", "total"), [(-1, 1), (2, 1), (0, 0), (float("nan"), 1)])
def test_progress_refuses_what_is_no_share(done: float, total: float) -> None:
    with pytest.raises(ValueError, match="0 <= done <= total"):
        progress(done, total)


def test_authors_see_no_transaction_verb() -> None:
    """P-23: nothing an author imports, and no argument of it, speaks of transactions."""
    public = [getattr(perago_worker, name) for name in perago_worker.__all__]
    words = {*perago_worker.__all__, *(each for one in (task, Workspace) for each in inspect.signature(one).parameters)}
    assert len(public) == len(perago_worker.__all__)
    verbs = ("commit", "rollback", "confirm", "cancel", "publish", "merge", "stage", "begin", "abort", "branch")
    assert not [word for word in words for verb in verbs if verb in word.lower()]


# ---------------------------------------------------------------------------------------------------------------------
# Declarations that cannot run

HERE = Workspace(prefix="data")


def no_annotation(workspace: Path) -> None:
    del workspace


def no_return(workspace: Path) -> None:
    del workspace


def text_path(workspace: str) -> None:
    del workspace


def with_default(params: Params = Params(text="")) -> None:  # noqa: B008  that is the mistake
    del params


def with_more(params: Params, extra: int) -> None:
    del params, extra


def with_star(*params: Params) -> None:
    del params


def other_order(params: Params, workspace: Path) -> None:
    del params, workspace


def list_params(params: Words) -> None:
    del params


def number_params(params: int) -> None:
    del params


def unknown_type(params: Params) -> None:
    del params


def no_json_type(params: Params) -> Callable[[], str]:
    return params.text.upper


# As if they were written so: type checkers would not let us.
no_annotation.__annotations__.clear()
del no_return.__annotations__["return"]
unknown_type.__annotations__["params"] = "Nowhere"


def generator(params: Params) -> Iterator[str]:
    yield params.text


async def async_generator(params: Params) -> AsyncIterator[str]:
    yield params.text


def only_params(params: Params) -> None:
    del params


def only_workspace(workspace: Path) -> None:
    del workspace


WRONG: list[tuple[Any, Workspace | None, str]] = [
    (no_annotation, HERE, "an annotation of 'workspace'; found none"),
    (no_return, HERE, "an annotation of 'return'; found none"),
    (text_path, HERE, "workspace: Path; found workspace: <class 'str'>"),
    (with_default, None, "a default for 'params'"),
    (with_more, None, "a parameter 'extra'"),
    (with_star, None, "a parameter '*params'"),
    (other_order, HERE, "Put workspace first"),
    (list_params, None, "a JSON array"),
    (number_params, None, "a JSON integer"),
    (unknown_type, None, "NameError"),
    (no_json_type, None, "that Pydantic can turn into JSON"),
    (generator, None, "one that yields"),
    (async_generator, None, "one that yields"),
    (only_params, HERE, "a parameter 'workspace: Path'"),
    (only_workspace, None, "workspace=Workspace(...) in @task"),
    (Params, None, "Put @task directly above 'def'"),
    (len, None, "Put @task directly above 'def'"),
]


@pytest.mark.parametrize(
    ("function", "workspace", "says"),
    WRONG,
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_signature_that_cannot_run_is_refused_where_it_is_written(
    function: Any,  # noqa: ANN401  anything may be decorated
    workspace: Workspace | None,
    says: str,
) -> None:
    with pytest.raises(TaskDefinitionError) as raised:
        task(name="bad", workspace=workspace)(function)
    message = str(raised.value)
    assert says in message
    assert message.startswith("task 'bad': expected ")
    assert "\n" not in message


@pytest.mark.parametrize("name", ["", " x", "a b", "a/b", "-x", "x" * 129, "é"])
def test_a_name_that_no_orchestrator_takes_is_refused(name: str) -> None:
    with pytest.raises(TaskDefinitionError, match="letters, digits"):
        task(name=name)


@pytest.mark.parametrize(
    "wrong",
    [
        {"retries": -1},
        {"timeout": 0},
        {"timeout": float("inf")},
        {"timeout": float("nan")},
        {"retry_delay": -1},
        {"response_timeout": 0},
        {"memory_limit": -1},
    ],
)
def test_a_limit_that_limits_nothing_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(TaskDefinitionError, match="Correct the numbers"):
        task(name="bad", **wrong)


@pytest.mark.parametrize("prefix", ["a//b", "../up", "a/./b", "a\0b"])
def test_a_prefix_names_a_folder(prefix: str) -> None:
    with pytest.raises(TaskDefinitionError, match="a prefix names a folder"):
        Workspace(prefix=prefix)


def test_a_prefix_is_the_same_with_and_without_slashes() -> None:
    assert Workspace("/sales/raw/") == Workspace("sales/raw")
    assert Workspace("/").prefix == Workspace().prefix == ""


# ---------------------------------------------------------------------------------------------------------------------
# Guardrails


@pytest.mark.parametrize("path", ["", "/etc", "../x", "a/../../x", "a\0"])
@pytest.mark.parametrize("make", [require_file, require_dir, require_glob, forbid_glob])
def test_a_guardrail_looks_inside_the_workspace_only(make: Callable[[str], object], path: str) -> None:
    with pytest.raises(TaskDefinitionError, match="inside the workspace"):
        make(path)


def test_guardrails_count_files_and_follow_no_link(tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "link.csv").symlink_to("/etc/hostname")
    (tmp_path / "real.csv").touch()
    assert check(require_glob("*.csv", min=1, max=1), tmp_path) is None
    assert check(require_file("real.csv"), tmp_path) is None
    assert check(require_dir("folder.csv"), tmp_path) is None
    assert "found something else" in str(check(require_file("link.csv"), tmp_path))
    assert "found nothing" in str(check(require_file("none.csv"), tmp_path))
    assert "'real.csv'" in str(check(forbid_glob("*.csv"), tmp_path))


def test_a_guardrail_wants_numbers_and_callables_that_make_sense() -> None:
    with pytest.raises(TaskDefinitionError, match="0 <= min <= max"):
        require_glob("*", min=2, max=1)
    with pytest.raises(TaskDefinitionError, match="want callables"):
        Workspace(pre=["require this"])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]  that is the mistake


@pytest.mark.parametrize(("answer", "violated"), [(None, False), (True, False), (0, False), ("", False), (False, True)])
def test_only_false_is_a_violation_among_answers(answer: object, violated: bool, tmp_path: Path) -> None:
    """A check that forgets to return anything must not fail the task."""
    assert (check(lambda _folder: answer, tmp_path) is not None) is violated


# ---------------------------------------------------------------------------------------------------------------------
# Registry, contract, schema


def test_a_registry_names_every_task_of_a_module() -> None:
    tasks = Registry.of_modules(TASKS)
    assert tasks["write"].description == "Write a file."
    assert tasks["write"].read_only is False
    assert tasks["no-workspace"].read_only is True
    assert tasks.modules() == (TASKS,)
    with pytest.raises(KeyError, match="no task 'wrote'; there are"):
        tasks["wrote"]


def module(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, source: str) -> str:
    (folder / f"{name}.py").write_text(source)
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    return name


TASK = """
from perago_worker import task
@task(name="same")
def {name}() -> None: ...
"""


def test_two_tasks_of_one_name_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = module(tmp_path, monkeypatch, "sample_one", TASK.format(name="one"))
    two = module(tmp_path, monkeypatch, "sample_two", TASK.format(name="two"))
    again = module(tmp_path, monkeypatch, "sample_again", "from sample_one import one")
    assert list(Registry.of_modules(one, again)) == ["same"]
    with pytest.raises(TaskDefinitionError, match="found one in sample_one and one in sample_two"):
        Registry.of_modules(one, two)


@pytest.mark.parametrize(
    ("name", "says"),
    [("sample_empty", "found none"), ("sample_broken", "ZeroDivisionError"), ("sample_nowhere", "ModuleNotFoundError")],
)
def test_a_module_without_tasks_is_refused(
    name: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module(tmp_path, monkeypatch, "sample_empty", "x = 1")
    module(tmp_path, monkeypatch, "sample_broken", "1 / 0")
    with pytest.raises(TaskDefinitionError, match=says):
        Registry.of_modules(name)
    with pytest.raises(TaskDefinitionError, match="the script itself"):
        Registry.of_modules("__main__")


def test_the_input_contract_ignores_what_it_does_not_know_and_reads_both_spellings() -> None:
    write = definition(sample_tasks.write)
    for spelling in ("refType", "ref_type"):
        place = {"repository": "lake", "branch": "main", spelling: "commit", "ref": "abc", "more": 1}
        read = read_input(json.dumps({"params": {"text": "é"}, "workspace": place, "trace": {}}), write)
        assert read.workspace == WorkspaceRef(Target("lake", "main"), CommitRef("abc"))
        assert json.loads(read.params) == {"text": "é"}


def test_a_task_is_asked_only_for_what_it_takes() -> None:
    assert read_input("{}", definition(sample_tasks.with_nothing)).workspace is None
    assert read_input('{"params": {}}', definition(sample_tasks.no_workspace)).params == "{}"
    with pytest.raises(InputError, match="Put the parameters under it"):
        read_input("{}", definition(sample_tasks.no_workspace))


def test_the_schemas_describe_input_and_output() -> None:
    write = definition(sample_tasks.write)
    given = write.input_schema
    assert given["required"] == ["params", "workspace"]
    assert given["properties"]["params"]["properties"]["count"] == {"default": 1, "title": "Count", "type": "integer"}
    assert "additionalProperties" not in given
    assert write.output_schema["properties"]["result"]["required"] == ["rows"]
    assert "workspace" not in definition(sample_tasks.no_workspace).output_schema["properties"]
