"""The pytest plugin in real inner runs: a sound runtime passes, a broken one is caught, the printed line replays."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

EXAMPLES = Path(__file__).parents[2] / "simulation" / "examples"

#: A worker that takes no answer for a yes: S-05, no success is reported out of doubt.
BROKEN = """
from perago_core import Phase, Unknown, messages, step

def hopeful(state, event):
    if state.phase is Phase.PUBLICATION and isinstance(event, Unknown):
        event = messages.Published(state.known.decision.plan.commit)
    return step(state, event)

def fragile(state, event):
    if isinstance(event, messages.HeadSeen):
        raise RuntimeError("no head today")
    return step(state, event)
"""

HEAD = """
from my_worker import fragile, hopeful
from hypothesis import given, settings
from hypothesis.strategies import just
from perago_core.values import Backing
from perago_simulation.testing import strategies
from perago_simulation.testing.state_machine import WorldMachine
from perago_simulation.runs.embedding import Embedded
from perago_simulation.runs.schedule import WorldCache
from perago_simulation.world.settings import setting

SETTING = setting(Backing.CONDITIONAL, attempts=1, crashes=0, losses=1, pauses=False)
"""

TESTS = {
    "explored": "def test_it(perago): perago.explore(Embedded(SETTING, runtime=hopeful))",
    "simulated": "def test_it(perago): perago.simulate(Embedded(SETTING, runtime=hopeful))",
    "machine": """
class Mine(WorldMachine):
    where = just(SETTING)
    def model(self, of): return Embedded(of, runtime=hopeful)
TestMine = Mine.TestCase
TestMine.settings = settings(max_examples=2_000)
""",
    "choices": """
worlds = WorldCache(Embedded(SETTING, runtime=hopeful))
@settings(max_examples=1_000)
@given(strategies.choices())
def test_it(numbers): strategies.hold(worlds, numbers)
""",
    "giving up": "def test_it(perago): perago.simulate(Embedded(SETTING, runtime=fragile))",
}


@pytest.fixture(autouse=True)
def _only_this_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if installed, whether it is or not: else it would be loaded twice."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    plugins = ("-p", "_hypothesis_pytestplugin", "-p", "perago_simulation.plugin")
    return pytester.runpytest_subprocess(*plugins, *arguments, timeout=900)


@pytest.mark.parametrize("name", list(TESTS))
def test_a_broken_runtime_is_caught_and_the_printed_command_replays_it(pytester: pytest.Pytester, name: str) -> None:
    pytester.makepyfile(my_worker=BROKEN, test_mine=HEAD + TESTS[name])
    result = run(pytester, "--hypothesis-profile=perago-ci")
    result.assert_outcomes(failed=1)
    printed = re.search(r"to see it again: (perago replay .*)", result.stdout.str())
    assert printed is not None
    program, *arguments = shlex.split(printed[1])
    assert program == "perago"
    again = pytester.run(sys.executable, "-m", "perago_simulation", *arguments, timeout=120)
    assert again.ret == 1
    again.stdout.fnmatch_lines(["*: broken at step *", "* <-- broken here"])
    if name == "giving up":
        again.stdout.fnmatch_lines(["  RuntimeError: no head today"])
    else:
        assert " own " in again.stdout.str(), "the step at which the runtime leaves the table's way is named"


def test_a_line_of_an_own_runtime_says_what_is_missing(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(my_worker=BROKEN, test_mine=HEAD + TESTS["explored"])
    printed = re.search(r"to see it again: (perago replay .*)", run(pytester).stdout.str())
    assert printed is not None
    _, *arguments = shlex.split(printed[1])
    assert arguments[-2:] == ["--runtime", "my_worker:hopeful"]
    refused = pytester.run(sys.executable, "-m", "perago_simulation", *arguments[:-2])
    assert refused.ret == 2
    plain = re.sub(r"\x1b\[[0-9;]*m|│", " ", refused.stderr.str())
    assert "add - -runtime my_worker:hopeful" in " ".join(plain.split())


def test_the_documented_runtime_passes(pytester: pytest.Pytester) -> None:
    """The example is executed as it stands."""
    pytester.makepyfile(test_own_runtime=(EXAMPLES / "test_own_runtime.py").read_text(encoding="utf-8"))
    run(pytester, "--hypothesis-profile=perago-ci").assert_outcomes(passed=2)


def test_the_profiles_differ_in_how_hard_they_try(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        from hypothesis import settings
        def test_it(perago): print("runs", perago.runs, "examples", settings().max_examples)
    """)
    for profile, runs, examples in (("perago-ci", 2_000, 100), ("perago-nightly", 100_000, 5_000)):
        result = run(pytester, "-s", f"--hypothesis-profile={profile}")
        result.stdout.fnmatch_lines([f"*runs {runs} examples {examples}*"])


def test_the_plugin_imports_nothing_heavy_where_nobody_simulates(pytester: pytest.Pytester) -> None:
    """pytest loads it wherever the package is installed."""
    pytester.makepyfile("""
        import sys
        HEAVY = {"hypothesis", "perago_simulation.world.model", "perago_core.machine.engine"}
        def test_it(): assert not HEAVY & set(sys.modules)
    """)
    run(pytester).assert_outcomes(passed=1)
