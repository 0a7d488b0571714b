"""A ledger that does not answer: whoever looks says that it is unknown whether a head was accepted, and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from perago_core.answers import Done
from perago_core.ledger.records import AUDITS
from tests.support.etcd.server import Etcd, running
from tests.worker.projects import TASKS, Project, new_project

ON_ETCD = """
[coordination]
kind = "etcd"
endpoints = ["{endpoint}"]
"""
UNKNOWN = "unknown: whether everything on lake/main was accepted: "
WHAT_TO_DO = "`perago doctor` says which part does not answer"


@pytest.fixture
def published(tmp_path: Path) -> Iterator[tuple[Project, Etcd]]:
    """A project whose ledger is in a real etcd, and one accepted run."""
    with (
        running(tmp_path) as server,
        new_project(tmp_path / "project", TASKS, ON_ETCD.format(endpoint=server.endpoint)) as project,
    ):
        assert project.perago("run", "both", "--param", "text=a").code == 0
        yield project, server


def test_a_silent_ledger_is_unknown_and_not_nothing_to_tell(published: tuple[Project, Etcd]) -> None:
    """It was taken for "no open intent", so that a head that nobody accepted looked like any other."""
    project, server = published
    assert UNKNOWN not in project.perago("status", width=400).err
    assert [each["never_accepted"] for each in project.perago("history", "--json").data] == [False] * 3
    server.kill()
    for words in (("status",), ("status", "--json"), ("history",), ("history", "--json")):
        said = project.perago(*words, width=400)
        assert said.code == 0
        assert UNKNOWN in said.err
        assert WHAT_TO_DO in said.err
    assert [each["never_accepted"] for each in project.perago("history", "--json").data] == [None] * 3
    (view,) = project.views()
    explained = project.perago("explain", view.attempts[0].task_id, "--json").data
    assert any(each["says"].startswith(UNKNOWN) for each in explained if each["source"] == "branch")
    refused = project.perago("verify", width=400)
    assert refused.code == 2
    assert "so nothing is proved" in refused.err


def test_a_record_nobody_can_read_is_unknown_too(published: tuple[Project, Etcd]) -> None:
    """As one of a later version is. It may tell of an accepted result, so nothing is proved without it."""
    project, _ = published
    with closing(project.stack()) as stack:
        assert stack.coordination is not None
        listed = stack.coordination.list(AUDITS)
        assert isinstance(listed, Done)
        for entry in listed.value:
            assert stack.coordination.swap(entry.key, entry.value, "of a later version") == Done(value=True)
    assert "the record at" in project.perago("history", width=400).err
    refused = project.perago("verify", width=400)
    assert (refused.code, "so nothing is proved" in refused.err) == (2, True)
    (view,) = project.views()
    explained = project.perago("explain", view.attempts[0].task_id, "--json").data
    (so,) = [each["says"] for each in explained if each["source"] == "so"]
    assert so.endswith("cannot be told without the ledger")
