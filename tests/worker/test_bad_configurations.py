"""Whatever is configured, a command answers in lines for people, with an exit code that means something."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from perago_local.orchestrator.pipelines import EmbeddedPipelines
from perago_worker.cli import COMMANDS, app
from perago_worker.config.settings import Settings
from tests.worker.projects import Project, new_project

#: One line of each command that only looks, or cannot do anything in a project without runs.
LINES = (
    ("check",),
    ("status",),
    ("status", "--all", "--json"),
    ("runs",),
    ("show", "x"),
    ("logs", "x"),
    ("cancel", "x"),
    ("retry", "x"),
    ("rm", "x"),
    ("import", ".", "--to", "lake/main/raw"),
    ("show-failed",),
    ("history",),
    ("verify",),
    ("explain", "x"),
    ("why", "x"),
    ("timeline", "x"),
    ("audit",),
    ("policy", "show"),
    ("recover",),
    ("gc",),
    ("extract",),
    ("register",),
    ("diff",),
    ("pipeline", "register"),
    ("init-repo",),
    ("run", "nothing"),
    ("run", "--params", "{", "write"),
)
SECTIONS = {
    name: tuple(getattr(field.annotation, "model_fields", {}))
    for name, field in Settings.model_fields.items()
    if getattr(field.annotation, "model_fields", None)
}
#: Nobody listens on the port, so that no test waits for an answer.
TEXTS = st.one_of(
    st.sampled_from(
        ["", "local", "lakefs", "conductor", "etcd", "none", "soft", "http://127.0.0.1:9", "/dev/null", "."]
    ),
    st.text(max_size=12),
)
VALUES = st.one_of(TEXTS, st.integers(-2, 10**6), st.booleans(), st.floats(), st.none(), st.lists(TEXTS, max_size=2))
PLACES = st.sampled_from([(section, key) for section, keys in SECTIONS.items() for key in keys]) | st.tuples(
    st.sampled_from(sorted(SECTIONS)), st.text(min_size=1, max_size=8)
)


def test_every_command_is_among_the_lines() -> None:
    """`init` and `doctor` need no sound configuration; what goes on until it is ended is tried with real processes."""
    assert {line[0] for line in LINES} == set(COMMANDS) - {"init", "doctor", "ui", "worker"}


def overridden(changes: list[tuple[tuple[str, str], Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for (section, key), value in changes:
        found.setdefault(section, {})[key] = value
    return found


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(PLACES, VALUES), min_size=1, max_size=3), st.sampled_from(LINES))
def test_a_configuration_nobody_can_use_is_said_in_a_line_and_makes_no_traceback(
    changes: list[tuple[tuple[str, str], Any]], line: tuple[str, ...]
) -> None:
    with tempfile.TemporaryDirectory() as folder, new_project(Path(folder) / "project") as project:
        variables = {f"PERAGO_{name.upper()}": json.dumps(section) for name, section in overridden(changes).items()}
        # NO_PROXY: nothing that is drawn may leave this machine.
        ran = CliRunner().invoke(
            app,
            ["--project", str(project.folder), *line],
            env={
                **variables,
                "COLUMNS": "300",
                "HTTP_PROXY": "http://127.0.0.1:9",
                "HTTPS_PROXY": "http://127.0.0.1:9",
            },
        )
        assert ran.exception is None or isinstance(ran.exception, SystemExit), ran.exception
        assert ran.exit_code in {0, 1, 2}
        assert "Nobody expected that" not in ran.stderr, ran.stderr
        assert ran.exit_code != 2 or "error:" in ran.stderr, ran.stderr


def test_what_nobody_expected_is_one_line_and_with_debug_what_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_self: EmbeddedPipelines, limit: int, *_page: object, **_filters: object) -> None:
        raise ZeroDivisionError(f"a fault\nof {limit} lines")

    monkeypatch.setattr(EmbeddedPipelines, "newest", broken)
    with new_project(tmp_path / "project") as project:
        ran = project.perago("runs", width=300)
        assert (ran.code, ran.out) == (1, "")
        assert ran.err == (
            "error: ZeroDivisionError: a fault of 20 lines. Nobody expected that: `perago --debug ...` shows where; "
            "report it\n"
        )
        with pytest.raises(ZeroDivisionError):
            Project(project.folder).perago("--debug", "runs")


@pytest.mark.parametrize("line", [*LINES, ("worker",), ("doctor",)], ids=" ".join)
def test_where_there_is_no_project_nothing_is_written_and_init_is_named(line: tuple[str, ...], tmp_path: Path) -> None:
    ran = CliRunner().invoke(app, ["--project", str(tmp_path), *line], env={"COLUMNS": "300"})
    assert ran.exit_code == 2
    assert "or above: `perago init` writes a project" in ran.stderr
    assert list(tmp_path.iterdir()) == []
