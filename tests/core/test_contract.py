"""The documents of the outer contract, key by key: other programs read them."""

from __future__ import annotations

from perago_core.contract import output_document, workspace_document, workspace_schema
from perago_core.values import CommitRef, Target

MAIN = Target("lake", "main")


def test_a_workspace_names_a_commit_of_a_branch() -> None:
    expected = {"repository": "lake", "branch": "main", "refType": "commit", "ref": "abc"}
    assert workspace_document(MAIN, CommitRef("abc")) == expected


def test_an_output_shows_the_result_and_who_made_which_commit() -> None:
    shown = output_document(MAIN, CommitRef("abc"), '{"rows":3}', "task-1", "run-1")
    assert shown == {
        "result": {"rows": 3},
        "workspace": {
            "repository": "lake",
            "branch": "main",
            "refType": "commit",
            "ref": "abc",
            "task": "task-1",
            "execution": "run-1",
        },
    }
    assert output_document(MAIN, CommitRef("abc"), "no JSON", "task-1", "run-1")["result"] == "no JSON"


def test_the_schemas_have_the_keys_of_the_documents() -> None:
    made = output_document(MAIN, CommitRef("abc"), "null", "task-1", "run-1")["workspace"]
    assert workspace_schema(made=True)["required"] == list(workspace_schema(made=True)["properties"]) == list(made)
    given = workspace_schema(made=False)
    assert list(given["properties"]) == list(workspace_document(MAIN, CommitRef("abc")))
    assert given["required"] == ["repository", "branch", "ref"]
