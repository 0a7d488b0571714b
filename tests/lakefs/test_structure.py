"""Who may move a branch on lakeFS, read from the source: where something is written cannot be tested by running it."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import perago_lakefs

FOLDER = Path(perago_lakefs.__file__).parent


def callers(method: str) -> Counter[str]:
    """Count the calls of a method of the wire by the function they are written in."""
    found: Counter[str] = Counter()
    for path in sorted(FOLDER.rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"), path.name)
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef):
                found[f"{path.stem}.{function.name}"] += sum(
                    isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == method
                    for node in ast.walk(function)
                )
    return +found


def test_one_function_merges_and_one_relocates() -> None:
    """The barrier's merge changes nothing; the probe's is on a branch made for that."""
    assert callers("merge") == {
        "publish._merge": 1,
        "barrier.barrier": 1,
        "probe._is_merged": 1,
    }
    assert callers("hard_reset") == {"publish._relocate": 1}


def test_nobody_else_asks_the_server_to_move_a_branch() -> None:
    """By whatever route: the SDK's own methods are named in one module, and no path of theirs is written by hand."""
    sources = {path.name: path.read_text("utf-8") for path in FOLDER.rglob("*.py")}
    for word in ("merge_into_branch", "hard_reset_branch"):
        assert [name for name, text in sources.items() if word in text] == ["client.py"], word
    # Commits the content of another commit, which a revert does on its staging name.
    assert [name for name, text in sources.items() if "source_metarange" in text] == ["client.py"]
    for word in ("/hard_reset", "/merge/", "/revert", "/cherry-pick", "reset_branch("):
        # Which answer fits which path is told in ``answers``, which sends nothing.
        assert [name for name, text in sources.items() if word in text and name != "answers.py"] == [], word


def test_the_store_publishes_through_one_door() -> None:
    assert callers("publish") == {
        "store.publish": 1,
        "install._publish": 1,
        "probe._surprises": 4,
    }
