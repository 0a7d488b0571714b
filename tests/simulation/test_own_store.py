"""What do I get on my store? The documented thirty lines get a ladder row of their own, and so does a list of flags."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from attrs import evolve, fields
from typer.testing import CliRunner

from perago_core.values import Backing
from perago_simulation.cli import app
from perago_simulation.runs.path import RunPath
from perago_simulation.world.capabilities import NEEDS, RELIES_ON, Capabilities, best_backing
from perago_simulation.world.model import Model
from perago_simulation.world.presets import PRESETS
from perago_simulation.world.settings import Setting, setting
from perago_simulation.world.state import FAILED

EXAMPLES = Path(__file__).parents[2] / "simulation" / "examples"
FENCED = ["--store", "fenced_store:FencedStore", "--backing", "conditional"]


def perago(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command line where the example lies, as its own words say."""
    wide = {**os.environ, "COLUMNS": "200"}
    command = [sys.executable, "-m", "perago_simulation", *arguments]
    return subprocess.run(command, cwd=EXAMPLES, env=wide, capture_output=True, text=True, timeout=300, check=False)  # noqa: S603  our own command line


def test_an_own_store_gets_its_row_of_the_ladder() -> None:
    """S-01 to S-04 hold on fencing tokens; a request of the attempt itself, though, cannot be stopped by a token."""
    expected = {
        "retries after crashes": "everything holds",
        "pauses that resume": "broken: C8 in 20",
        "duplicate delivery": "everything holds",
        "foreign writer": "everything holds",
    }
    printed = perago("ladder", *FENCED, *(word for name in expected for word in ("--environment", name))).stdout
    assert "conditional on fenced_store:FencedStore" in printed
    rows = [cells for line in printed.splitlines() if len(cells := line.split("│")) == 5]
    assert {cells[1].strip(): cells[2].strip() for cells in rows} == expected
    assert "Not `conditional`: it lacks revocable_names" in printed


def test_an_own_store_without_its_barrier_is_broken_and_the_line_says_so() -> None:
    """S-02: what the example says about the second command."""
    found = perago("explore", *FENCED, "--store-can", "conditional_merge", "--no-ops", "--json")
    assert found.returncode == 1
    (violation,) = json.loads(found.stdout)["violations"]
    assert violation["property"] == "S-02b"
    assert violation["line"].endswith("store=fenced_store:FencedStore")
    refused = perago("replay", violation["line"])
    assert (refused.returncode, "add --store fenced_store:FencedStore" in refused.stderr) == (2, True)
    replayed = perago("replay", violation["line"], "--store", "fenced_store:FencedStore", "--json")
    assert replayed.returncode == 1
    assert json.loads(replayed.stdout)["property"] == "S-02b"


def test_the_documented_store_is_thirty_lines() -> None:
    text = (EXAMPLES / "fenced_store.py").read_text(encoding="utf-8")
    code = text.split('"""', 2)[2]
    assert len(code.strip().splitlines()) <= 30


def test_flags_alone_answer_what_a_store_carries() -> None:
    """Names and a barrier, without a conditional merge: `locked`, and why not more."""
    asked = ["ladder", "--store-can", "revocable_names,barrier", "--environment", "duplicate delivery"]
    result = CliRunner().invoke(app, asked, env={"COLUMNS": "200"})
    assert result.exit_code == 0
    assert "locked on your store" in result.stdout
    assert "This store carries `locked`." in result.stdout
    assert "Not `conditional`: it lacks conditional_merge" in result.stdout


PLAIN = "conditional_merge,conditional_relocate"
RETRIES = ["--environment", "retries after crashes", "--environment", "foreign writer"]


@pytest.mark.parametrize(("flags", "under"), [(PLAIN, "atomic"), ("delta", "conditional")])
def test_a_compare_and_set_of_the_head_is_asked_where_plans_name_the_head(flags: str, under: str) -> None:
    """It keeps what was accepted and what a stranger did, and loses the clean end of a workflow."""
    shown = CliRunner().invoke(app, ["ladder", "--store-can", flags, *RETRIES], env={"COLUMNS": "200"}).stdout
    assert {"S-01", "S-02", "S-03", "S-04", "S-15"} <= kept(shown)
    assert "Lost in 2 of 2: S-02b, a finished workflow ends with its own result (soonest in " in shown
    assert f"which `soft` never tells it and `{under}` does" in shown


def test_under_soft_the_same_store_loses_what_was_accepted_because_no_plan_names_a_head() -> None:
    asked = ["ladder", "--store-can", PLAIN, "--environment", "foreign writer", "--backing", "soft"]
    assert not {"S-01", "S-15"} & kept(CliRunner().invoke(app, asked, env={"COLUMNS": "200"}).stdout)


def kept(shown: str) -> set[str]:
    """Give what the ladder says holds in all environments."""
    (line,) = [each for each in shown.splitlines() if each.startswith("Holds in all ")]
    return set(line.partition(": ")[2].removesuffix(".").split(", "))


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_answers_with_a_backing_and_says_by_which_calls(name: str) -> None:
    asked = ["ladder", "--store-can", name, "--environment", "duplicate delivery"]
    shown = CliRunner().invoke(app, asked, env={"COLUMNS": "200"})
    assert shown.exit_code == 0
    under = {"lakefs": "conditional", "delta": "conditional", "s3-without-conditions": "soft"}.get(name, "atomic")
    carried = {"git": "atomic", "lakefs": "conditional", "delta": None}.get(name, "soft")
    assert f"{under} on {name}" in shown.stdout
    assert f"This store carries {f'`{carried}`' if carried else 'no backing at all'}." in shown.stdout
    assert f"{name}: {PRESETS[name].says}" in shown.stdout


def test_a_bucket_without_conditions_loses_what_was_accepted_also_under_a_lease() -> None:
    """It gets a row with its holes, and no promise: what is late when the lease is lost overwrites what came since."""
    asked = ["ladder", "--store-can", "s3-without-conditions", "--backing", "locked"]
    shown = CliRunner().invoke(app, [*asked, "--environment", "foreign writer"], env={"COLUMNS": "200"}).stdout
    assert "Not `locked`: it lacks swap" in shown
    assert "Not `locked`: it lacks revocable_names" in shown
    assert "Not `locked`: it lacks barrier" in shown
    assert "Lost in 1 of 1: S-01, every accepted result stays on the branch" in shown
    assert "Lost in 1 of 1: S-15, a stranger's commit stays on the branch (soonest in 19 moves)" in shown
    assert not {"S-02", "S-02b", "S-04b", "S-30"} & kept(shown)


def test_a_store_that_swaps_keeps_under_the_same_lease_what_one_that_overwrites_loses() -> None:
    """The only difference: an update that had begun when the branch moved begins again, or lands on what it read."""
    asked = ["ladder", "--environment", "foreign writer", "--backing", "locked", "--store-can"]
    swaps = CliRunner().invoke(app, [*asked, "s3-without-conditions,no-overwrites"], env={"COLUMNS": "200"}).stdout
    assert {"S-01", "S-15"} <= kept(swaps)
    assert "lacks swap" not in swaps


def test_flags_after_a_preset_are_added_to_it_and_two_stores_are_refused() -> None:
    claimed = ["ladder", "--environment", "duplicate delivery", "--store-can"]
    shown = CliRunner().invoke(app, [*claimed, "s3-if-match,revocable_names,conditional_claim"], env={"COLUMNS": "200"})
    assert "This store carries `atomic`." in shown.stdout
    refused = CliRunner().invoke(app, [*claimed, "nessie,delta"], env={"COLUMNS": "200"})
    assert (refused.exit_code, "a store is one of nessie, delta; name one" in refused.output) == (2, True)
    unknown = CliRunner().invoke(app, [*claimed, "hudi"], env={"COLUMNS": "400"})
    known = "or one of s3-if-match, s3-without-conditions, nessie, iceberg-rest, delta, lakefs, git"
    assert known in " ".join(unknown.output.split())


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("fenced_store", "write module:name"),
        ("nowhere:Store", "cannot import nowhere"),
        ("fenced_store:Nothing", "fenced_store has no Nothing; it has Capabilities, ClassVar, FencedStore"),
        ("fenced_store:World", "fenced_store:World is no store"),
    ],
)
def test_a_store_that_is_not_there_is_named_with_what_is(name: str, says: str) -> None:
    refused = perago("explore", "--store", name)
    assert refused.returncode == 2
    assert says in " ".join(refused.stderr.replace("│", " ").split())


# ---- What a user gets on his own store: by its flags, and by exploring (architecture 5).


#: What a store can do; that it overwrites is no ability.
FLAGS = tuple(each.name for each in fields(Capabilities) if each.name != "overwrites")
NOTHING = Capabilities(**dict.fromkeys(FLAGS, False))
by_backing = pytest.mark.parametrize("backing", list(Backing), ids=lambda each: each.value)


@by_backing
def test_a_store_with_exactly_what_a_backing_relies_on_carries_it(backing: Backing) -> None:
    """And with one flag less it does not."""
    assert best_backing(RELIES_ON[backing]).backing is backing
    for flag in FLAGS:
        if getattr(RELIES_ON[backing], flag):
            assert best_backing(evolve(RELIES_ON[backing], **{flag: False})).backing is not backing


def test_the_strongest_is_advised_and_every_stronger_one_is_explained() -> None:
    """L-10: lakeFS without the hook, in words."""
    advice = best_backing(NEEDS[Backing.LOCKED])
    assert advice.backing is Backing.LOCKED
    assert advice.missing == (
        (Backing.ATOMIC, ("conditional_merge", "conditional_relocate", "conditional_claim")),
        (Backing.CONDITIONAL, ("conditional_merge",)),
    )
    assert advice.lines()[0] == "This store carries `locked`."
    assert any("`conditional`" in line and "conditional_merge" in line for line in advice.lines()[1:])


def test_a_store_that_can_do_everything_carries_the_strongest_and_nothing_is_missing() -> None:
    advice = best_backing(Capabilities(**dict.fromkeys(FLAGS, True)))
    assert (advice.backing, advice.missing) == (Backing.ATOMIC, ())


def test_a_store_that_can_do_nothing_carries_nothing() -> None:
    """L-10: it says so, and why, for each backing."""
    advice = best_backing(NOTHING)
    assert advice.backing is None
    assert [backing for backing, _ in advice.missing] == list(RELIES_ON)
    assert advice.lines()[0] == "This store carries no backing at all."


@by_backing
def test_exactly_what_a_backing_relies_on_is_enough_to_complete(backing: Backing) -> None:
    """The advice is true: nothing else is needed, also not to replace an abandoned publication."""
    model = Model(Setting(backing=backing, store=RELIES_ON[backing], pauses=False))
    way = RunPath(model).take("hand out").until(0, "install").take("crash e0")
    way = way.take("expire") if way.can("expire") else way
    way = way.take("give up t0").take("hand out t1").until(1)
    assert (way.world.head, way.world.tasks[1].ref) == ("C1", "C1")


@pytest.mark.parametrize(
    ("backing", "flag", "answer"),
    [
        (Backing.CONDITIONAL, "claim", "MakeClaim NotDone"),
        (Backing.LOCKED, "lease", "AcquireLease Unknown"),
    ],
)
def test_what_is_missing_fails_closed(backing: Backing, flag: str, answer: str) -> None:
    """P-22: the attempt ends as failed, and the target is where it was."""
    bounds = setting(backing, attempts=1, store=evolve(NEEDS[backing], **{flag: False}))
    way = RunPath(Model(bounds)).take("hand out").until(0)
    assert any(answer in " ".join(label) for label in way.labels)
    assert (way.world.head, way.world.tasks[0].status) == ("A", FAILED)


def test_a_store_that_is_not_blind_refuses_what_it_cannot_check() -> None:
    """Capabilities.blind: the relocation of `conditional` carries a condition the store cannot check."""
    able = evolve(NEEDS[Backing.CONDITIONAL], blind=False)
    way = RunPath(Model(setting(Backing.CONDITIONAL, store=able, pauses=False)))
    way = way.take("hand out").until(0, "install").take("crash e0").take("give up t0").take("hand out t1")
    way = way.until(1, "Publish replace").take("refuse e1: no move without a condition")
    assert way.world.head == "M0"


@by_backing
def test_where_nothing_rare_may_happen_the_world_has_nothing_rare(backing: Backing) -> None:
    """What is switched off is not paid for."""
    assert all(world.rare is None for _, world in Model(setting(backing)).beginnings())
    assert all(world.rare is not None for _, world in Model(setting(backing, resends=1)).beginnings())
