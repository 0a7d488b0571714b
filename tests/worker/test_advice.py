"""What a refusal advises is followed, and it helps: each of those a user can meet on the embedded stack."""

from __future__ import annotations

import re
import subprocess
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen

from tests.worker.projects import TASKS, Project, new_project

STRANGE = '''
@task(name="odd", workspace=Workspace(prefix="odd"), retries=1, retry_delay=0, response_timeout=20)
def odd(workspace: Path, params: Params) -> Sum:
    """Do what a file beside the project says; a stranger has the time until another file is gone."""
    folder = Path(params.text)
    how = (folder / "how").read_text()
    if how in {"stranger", "no branch"}:
        (folder / "asked").touch()
        while (folder / "asked").exists():
            time.sleep(0.02)
    if how == "raises":
        raise ValueError("not today")
    if how == "wrong result":
        return "seven"
    if how == "writes a link":
        (workspace / "link").symlink_to("/etc/passwd")
    if how == "terminal":
        raise TaskTerminalError("the source is closed")
    (workspace / "odd.txt").write_text(how)
    return Sum(count=1)
'''

PIPELINE = """
[pipelines.odd]
repository = "lake"
steps = [{{ name = "first", task = "write" }}, {{ task = "odd", params = {{ text = "{folder}" }} }}]
"""


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    with new_project(tmp_path / "project", TASKS + STRANGE, PIPELINE.format(folder=tmp_path)) as made:
        (tmp_path / "how").write_text("well", encoding="utf-8")
        yield made


def git(project: Project, *words: str) -> str:
    store = project.folder / ".perago" / "store" / "lake.git"
    who = ("-c", "user.name=S", "-c", "user.email=s@example.org")
    ran = subprocess.run(  # noqa: S603  our own arguments
        ["git", *who, "--git-dir", str(store), *words],  # noqa: S607  git of the PATH
        check=True,
        capture_output=True,
        text=True,
    )
    return ran.stdout.strip()


def meddle(project: Project, how: str) -> None:
    """Be a stranger: two commits on the branch, or no branch any more."""
    main = "refs/heads/main"
    if how == "no branch":
        git(project, "update-ref", "-d", main)
        return
    for message in ("a stranger's", "and another"):
        git(project, "update-ref", main, git(project, "commit-tree", f"{main}^{{tree}}", "-p", main, "-m", message))


@contextmanager
def strangers(project: Project, folder: Path, how: str) -> Generator[None]:
    """Meddle while the first body that asks for it runs, and let every other go on."""
    over = threading.Event()

    def wait() -> None:
        todo = [how]
        while not over.wait(0.02):
            if (folder / "asked").exists():
                if todo:
                    meddle(project, todo.pop())
                (folder / "asked").unlink()

    helper = threading.Thread(target=wait)
    helper.start()
    try:
        yield
    finally:
        over.set()
        helper.join()


def go_on(project: Project, run: str, _branch: str) -> int:
    """Correct it, and let the orchestrator try again, which is what `perago retry` asks of it."""
    return project.perago("retry", run).code


def start_anew(project: Project, _run: str, _branch: str) -> int:
    return project.perago("run", "odd").code


def create_the_branch_and_start_anew(project: Project, run: str, branch: str) -> int:
    git(project, "update-ref", "refs/heads/main", branch)
    return start_anew(project, run, branch)


@frozen
class Refused:
    """How it comes about, the advice, how many bodies it costs, and what following the advice is."""

    how: str
    advice: str
    follow: Callable[[Project, str, str], int]
    attempts: int = 2


REFUSALS = (
    Refused("raises", "Nothing was published; let the orchestrator retry.", go_on),
    Refused("writes a link", "Nothing was published; let the orchestrator retry.", go_on),
    Refused("terminal", "Correct the task or its input; a retry cannot help.", go_on, 1),
    Refused("wrong result", "Correct the task or its input; a retry cannot help.", go_on, 1),
    Refused("stranger", "Start a new workflow from the current head", start_anew, 1),
    Refused(
        "no branch", "Create the branch at the input ref or correct the target", create_the_branch_and_start_anew, 1
    ),
)


@pytest.mark.parametrize("refused", REFUSALS, ids=lambda each: each.how)
def test_the_advice_of_a_refusal_is_followed_and_the_work_gets_done(
    refused: Refused, project: Project, tmp_path: Path
) -> None:
    (tmp_path / "how").write_text(refused.how, encoding="utf-8")
    with strangers(project, tmp_path, refused.how):
        ran = project.perago("run", "odd", width=1000)
    assert ran.code == 1
    assert refused.advice in ran.out
    view: dict[str, Any] = project.perago("show", "odd", "--json").data
    assert [each["step"] for each in view["attempts"]] == ["first"] + ["odd"] * refused.attempts
    told = project.perago("explain", view["attempts"][-1]["task_id"], width=1000)
    assert told.code == 0
    assert f"`perago retry {view['workflow_id']}` goes on from its step" in " ".join(told.out.split())
    (tmp_path / "how").write_text("well", encoding="utf-8")
    assert refused.follow(project, view["workflow_id"], view["attempts"][0]["ref"]) == 0
    assert project.perago("show", "odd", "--json").data["status"] == "COMPLETED"


@pytest.mark.parametrize("how", ["stranger", "no branch"])
def test_what_could_not_be_published_is_not_gone_on_with_and_the_word_of_it_is_a_line(
    how: str, project: Project, tmp_path: Path
) -> None:
    (tmp_path / "how").write_text(how, encoding="utf-8")
    with strangers(project, tmp_path, how):
        assert project.perago("run", "odd").code == 1
    (tmp_path / "how").write_text("well", encoding="utf-8")
    refused = project.perago("retry", "odd", width=1000)
    assert refused.code == 2
    (line,) = refused.err.splitlines()
    assert re.search(r"`perago run odd` starts anew|Create it in the store, then try again", line)
