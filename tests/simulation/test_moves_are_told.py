"""Whatever can happen can be told to a person who does not know the code."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from perago_core.values import Backing
from perago_report import columns, page, sequence
from perago_simulation.explore.exploration import Violation
from perago_simulation.report import words as w
from perago_simulation.report.story import story
from perago_simulation.runs.path import RunPath
from perago_simulation.world.model import Model
from perago_simulation.world.settings import setting

EVERYTHING = {
    "requeues": 1,
    "reruns": 1,
    "resends": 1,
    "terminations": 1,
    "foreign_merges": 1,
    "foreign_resets": 1,
    "recreations": 1,
    "foreign_writes": 1,
    "strangers": 1,
    "duplicates": 1,
    "crashes": 1,
}
#: What goes wrong with one execution.
TROUBLES = {"losses": 1, "interrupts": 1, "refusals": 1, "lateness": 1, "late_landings": 1, "epochs": 1}

#: How often a random run lets work go on, so that it comes to an end before everything has gone wrong.
OFTEN = 0.9

#: Each a run in which something rare happens, by what is wanted on the way, and what is then to be read.
TOLD = {
    "requeue": ("orchestrator requeue", "orchestrator hands out once more: t0 to e1 (changed)"),
    "terminate": ("orchestrator terminate", "orchestrator ends the workflow at t0"),
    "merge": ("stranger merge", "stranger merges FM0@A"),
    "delete": ("stranger delete", "stranger deletes main, which was at A"),
    "write": ("stranger write", "stranger leaves an uncommitted object on main"),
    "interrupt": ("fault lose attempt", "e0 is told that its attempt is lost"),
    "held up": ("e0 ReloadTask dropped, late", "e0 checks its task: its deadline is over"),
    "epoch": ("coordination new epoch", "coordination stores epoch 1 of the policy"),
}


def told(way: RunPath) -> list[str]:
    made = story(way.model, Violation("", "", way.labels))
    assert page(made)
    assert sequence(made)
    assert columns(made)
    return [f"{scene.lane} {scene.says}" for scene in made.scenes]


@pytest.mark.parametrize("name", list(TOLD))
def test_a_rare_move_has_words_in_every_report(name: str) -> None:
    """L-10 for readers: who does what, in one sentence."""
    wanted, sentence = TOLD[name]
    way = RunPath(Model(setting(Backing.CONDITIONAL, **EVERYTHING, **TROUBLES))).take("hand out").take(wanted)
    assert told(way)[-1] == sentence


def test_a_branch_that_is_not_as_it_should_be_is_shown() -> None:
    """N-08: the reader sees why everybody is refused."""
    way = RunPath(Model(setting(Backing.CONDITIONAL, **EVERYTHING))).take("hand out").take("stranger write")
    made = story(way.model, Violation("", "", way.labels))
    assert [line.standing for line in made.scenes[-1].records if line.name == "branch"] == ["dirty"]


@pytest.mark.parametrize("collector", ["collector", "early_collector"])
def test_no_move_falls_back_to_its_bare_label(collector: str) -> None:
    """Every actor and every verb the model has is known to the reports."""
    collected = Model(setting(Backing.CONDITIONAL, **EVERYTHING, **{collector: True}, data_collector=True))
    troubled = Model(setting(Backing.LOCKED, **TROUBLES))
    verbs: set[tuple[str, str]] = set()
    for number, model in product(range(200), (collected, troubled)):
        random, world = Random(number), next(model.beginnings())[1]
        while moves := list(model.moves(world)):
            verbs.update((who, what) for (who, what, _), _ in moves if not who.startswith("e"))
            work = [move for move in moves if move[0][0].startswith("e") or move[0][0] == "store"]
            _, world = random.choice(work if work and random.random() < OFTEN else moves)
    known = set(w._ELSEWHERE)  # pyright: ignore[reportPrivateUsage]
    assert verbs <= known
    unseen = {what for who, what in known - verbs if who != "coordination"}
    assert unseen == ({"remove claim"} if collector == "collector" else {"barrier", "remove claims"})
