"""The hosted workflow runs what the Makefile has, on the Pythons the project promises; so do the git hooks."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import pytest
import yaml

from tests.docs.documents import ROOT, commands, make_targets, project, text

WORKFLOW: dict[str, Any] = yaml.safe_load(text(".github/workflows/ci.yml"))
HOOKS: list[dict[str, Any]] = yaml.safe_load(text(".pre-commit-config.yaml"))["repos"][0]["hooks"]
STEPS: list[dict[str, Any]] = [step for job in WORKFLOW["jobs"].values() for step in job["steps"]]


def test_every_step_is_a_make_command_that_exists() -> None:
    shell = [step["run"] for step in STEPS if "run" in step]
    assert all(line.startswith("make ") for line in shell), shell
    named = commands("\n".join(shell))
    assert named <= make_targets(), named - make_targets()
    assert {"lint", "test-core", "test-simulation", "test-all", "docs"} <= named


def test_every_action_is_pinned_by_its_major_version_or_its_hash() -> None:
    actions = [step["uses"] for step in STEPS if "uses" in step]
    assert actions
    assert all(re.fullmatch(r"[\w./-]+@(v\d+|[0-9a-f]{40})", action) for action in actions), actions


def test_the_workflow_may_only_read() -> None:
    assert WORKFLOW["permissions"] == {"contents": "read"}


def test_the_matrix_is_what_the_classifiers_promise() -> None:
    classifiers = "\n".join(project()["classifiers"])
    promised = re.findall(r"Python :: (3\.\d+)$", classifiers, re.MULTILINE)
    assert WORKFLOW["jobs"]["lanes"]["strategy"]["matrix"]["python"] == promised
    assert project()["requires-python"] == f">={promised[0]}"


def test_the_forge_can_read_its_forms() -> None:
    """A form that cannot be parsed is silently not offered."""
    forms = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("[!c]*.yml"))
    assert forms
    for form in forms:
        read = yaml.safe_load(form.read_text(encoding="utf-8"))
        assert {"name", "description", "body"} <= set(read), form.name
        named = [part["id"] for part in read["body"] if part["type"] != "markdown"]
        assert len(named) == len(set(named)), form.name


def test_the_hooks_are_a_configuration_pre_commit_accepts() -> None:
    subprocess.run(
        [sys.executable, "-m", "pre_commit", "validate-config", ".pre-commit-config.yaml"], cwd=ROOT, check=True
    )


@pytest.mark.parametrize("hook", [hook for hook in HOOKS if "stages" not in hook], ids=lambda hook: str(hook["id"]))
def test_a_hook_at_each_commit_passes_on_good_code_and_stops_bad_code(hook: dict[str, Any]) -> None:
    """Run as git would: the entry with the files after it. Bad is unformatted, and a name nobody imported."""
    bad = ROOT / "build" / "hook_example.py"
    bad.parent.mkdir(exist_ok=True)
    bad.write_text("print( undefined_name )\n", encoding="utf-8")
    try:
        assert run_hook(hook, "tests/docs/documents.py") == 0
        assert run_hook({**hook, "entry": hook["entry"].replace("--force-exclude", "")}, str(bad)) != 0
    finally:
        bad.unlink()


def run_hook(hook: dict[str, Any], *files: str) -> int:
    return subprocess.run(  # noqa: S603  our own hooks
        [*str(hook["entry"]).split(), *files], cwd=ROOT, check=False, capture_output=True
    ).returncode


def test_the_hooks_at_each_push_are_make_commands_of_the_lint() -> None:
    pushed = [hook["entry"] for hook in HOOKS if hook.get("stages") == ["pre-push"]]
    assert pushed
    assert commands("\n".join(pushed)) <= make_targets()
    assert all(f" {target}" in text("Makefile") for target in commands("\n".join(pushed)))
