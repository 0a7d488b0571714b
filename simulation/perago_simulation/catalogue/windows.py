"""The crash windows: die between any two moves of a publication, and let everything that can still happen happen.

For each backing and path one execution is taken straight from its first call to its end. At every point it is killed;
then the orchestrator gives it up, a fresh attempt is handed out, and *all* interleavings of the two, with whatever the
dead one still had on its way, are explored to rest. The window is classified by the worst of them.


The first part of the file is the register: which run covers each crash window and each perturbation of the study, or
why none can. ``WINDOWS`` goes by what an execution waits for when it is killed. The others name tests, as
``module::name`` under ``tests``; a test makes sure that they exist.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import NamedTuple

from attrs import frozen

from perago_core.value import Value
from perago_core.values import Backing
from perago_simulation.explore.exploration import Limits
from perago_simulation.explore.search import Explorer
from perago_simulation.properties.safety import PROPERTIES, Property, When, accepted
from perago_simulation.runs.path import RunPath
from perago_simulation.runs.replay import line_of, replay
from perago_simulation.world.history import chain
from perago_simulation.world.model import Label, Model
from perago_simulation.world.settings import Setting, setting
from perago_simulation.world.state import NOBODY, World

#: Which window of the study a kill falls into, by what the execution was waiting for when it died.
WINDOWS: Mapping[str, str] = {
    "EARLIER_CLAIMS": "CW-01 to CW-07",
    "EARLIER_OWNERS": "CW-01 to CW-07",
    "EARLIER_HEAD": "CW-01 to CW-07",
    "WORKSPACE": "CW-01 to CW-07",
    "FENCE_1": "CW-01 to CW-07",
    "STAGING": "CW-08",
    "UPLOAD": "CW-09, CW-10",
    "COMMIT": "CW-11, CW-12",
    "FENCE_2": "CW-13",
    "CLAIM": "CW-14",
    "CLAIMS": "CW-15",
    "OWNERS": "CW-15",
    "INTENTS": "CW-15",
    "LEASE": "CW-16",
    "TAKEOVER": "CW-16, CW-33",
    "FENCE_3": "CW-16, CW-33",
    "REVOCATION": "CW-16",
    "BARRIER": "CW-16",
    "INTENT": "CW-16",
    "HEAD": "CW-14, CW-17",
    "PUBLICATION": "CW-17, CW-25, N-04",
    "READ_BACK": "CW-18",
    "REPORT": "CW-18, CW-20, CW-25",
    "CONFIRMATION": "CW-21",
    "ACCEPTANCE": "CW-21",
    "SETTLEMENT": "CW-22",
    "CLEAN_UP": "CW-23, CW-24, CW-34",
}

#: The ones no call of an attempt can stand between, each with the reason or with who kills there.
ELSEWHERE: Mapping[str, str] = {
    "CW-19": "cannot occur: the staging name is deleted after the report, not between confirmation and report",
    "CW-26": "nothing to find: a read-only execution makes no call before its report",
    "CW-27": "recovery: core/test_recovery::test_a_record_that_vanishes_was_settled_by_somebody_else",
    "CW-28": "recovery: core/test_recovery::test_a_fault_at_any_single_call_changes_nothing_in_the_end",
    "CW-29": "recovery: "
    "core/test_recovery::test_a_rollback_that_died_anywhere_is_finished_without_moving_anything_else",
    "CW-30": "policy: core/test_policy::test_a_crash_between_probe_and_store_leaves_nothing",
    "CW-31": "policy: core/test_policy::test_auto_adopts_whatever_stands_without_a_probe",
    "CW-32": "cannot occur in the core: a probe is one call of the store, and its scratch is the adapter's own",
}

#: Where each perturbation that is not a crash is covered. "ladder" is ``specs/ladder.md``, explored anew each time.
PERTURBATIONS: Mapping[str, str] = {
    "N-01": "ladder, *duplicate delivery*: a second delivery at every point of the first; with another poll count: "
    "ladder, *requeued task*, and "
    "simulation/test_moves_of_the_orchestrator::test_a_requeued_task_is_told_apart_by_all_but_soft",
    "N-02": "ladder, *re-sent publication*, and "
    "simulation/test_moves_of_the_store::test_a_resent_publication_stacks_a_second_commit_where_nothing_refuses_it; "
    "a completion of another execution: "
    "core/test_attempt_interrupts::test_completion_of_another_execution_is_dropped",
    "N-03": "ladder, *pauses that resume*: publications of a given-up execution begin and land at every later point, "
    "its reports and clean-ups come at any later point",
    "N-04": "ladder, *pauses that resume*: one lost answer at any call, landed or not",
    "N-05": "every environment: the store begins again whenever the branch record has changed",
    "N-06": "every environment under `locked`: the lease expires at any time; the clocks: "
    "core/test_lease::test_two_never_believe_to_hold_one_lock_at_the_same_time",
    "N-07": "given up at any point, late results ignored: every environment with pauses; ladder, "
    "*terminated workflow*; rerun, also after acceptance: ladder, *rerun task*; requeued: ladder, *requeued task*; "
    "each move by itself: simulation/test_moves_of_the_orchestrator; a task that is gone: "
    "core/test_attempt_failures::test_attempt_that_is_gone_is_not_current",
    "N-08": "commit: ladder, *foreign writer*; true merge and reset back: ladder, *foreign merge and reset*; branch "
    "deleted and made anew at the same commit, uncommitted objects: ladder, *foreign deletion and writes*; each move "
    "by itself: simulation/test_moves_of_strangers; squash merge and revert are commits like any other, a reset to "
    "what is unrelated is a head that is no child of the input: core/test_fence; a branch protected meanwhile refuses "
    "the relocation: core/test_attempt_failures",
    "N-09": "core/test_policy::test_two_nodes_that_see_different_stores_agree",
    "N-10": "core/test_lease::test_two_never_believe_to_hold_one_lock_at_the_same_time",
    "N-11": "names and claims against live, slow and duplicate executions: ladder, *collector*, and "
    "simulation/test_moves_of_the_collector; data: "
    "simulation/test_moves_of_the_collector::test_data_that_waits_as_long_as_the_claims_is_never_missed; local "
    "directories belong to the runtime",
    "N-12": "core/test_maintenance",
    "N-13": "cannot occur in the machine: a stop request is no event of it (RT-9); it is the runtime's",
    "N-14": "cannot occur in the machine: it sees one read; a duty of the store (ST-1), for its conformance suite",
    "N-15": "simulation/test_explore::test_a_zombie_of_one_step_acts_during_the_next",
    "N-16": "core/test_values",
}


class Way(NamedTuple):
    """What the execution does, and what it finds: an abandoned publication, which it may adopt."""

    changed: bool
    abandoned: bool
    adopts: bool = False


PATHS: Mapping[str, Way] = {
    "first publish": Way(changed=True, abandoned=False),
    "no-op": Way(changed=False, abandoned=False),
    "replacement": Way(changed=True, abandoned=True),
    "return to the input": Way(changed=False, abandoned=True),
    "first publish of who adopts": Way(changed=True, abandoned=False, adopts=True),
    "no-op of who adopts": Way(changed=False, abandoned=False, adopts=True),
    "adoption": Way(changed=True, abandoned=True, adopts=True),
}


def paths(backing: Backing) -> tuple[str, ...]:
    """Name the paths of a backing: ``soft`` adopts nothing."""
    return tuple(name for name, way in PATHS.items() if backing is not Backing.SOFT or not way.adopts)


@frozen(repr=False)
class Window(Value):
    """One point at which an execution is killed, and everything that came of it.

    ``choices`` lead from the very beginning to the kill. ``runs`` go on from there: for each outcome and each broken
    property the shortest run to it. All of them replay, because the kill is a crash the setting has a budget for.
    """

    setting: Setting
    path: str
    after: Label
    waiting_for: str
    residue: str
    choices: tuple[int, ...]
    runs: tuple[tuple[str, tuple[int, ...]], ...]

    @property
    def outcomes(self) -> tuple[str, ...]:
        """Name what it may come to."""
        return tuple(name for name, _ in self.runs if name in OUTCOMES)

    @property
    def broken(self) -> tuple[str, ...]:
        """Name the properties that are broken on some way."""
        return tuple(name for name, _ in self.runs if name not in OUTCOMES)

    @property
    def verdict(self) -> str:
        """Name the worst that came of it."""
        if self.broken:
            return f"violates {', '.join(self.broken)}"
        return " or ".join(self.outcomes)

    def line(self, what: str | None = None) -> str:
        """Write the run to the kill, or to what came of it, as one line that replays."""
        return line_of(Model(self.setting), self.choices if what is None else dict(self.runs)[what])


@cache
def windows(backing: Backing, path: str, *, ledger: bool) -> tuple[Window, ...]:
    """Kill an execution after each move of its straight way, and give what came of it; once in a process."""
    return tuple(_windows(backing, path, ledger=ledger))


def _windows(backing: Backing, path: str, *, ledger: bool) -> Iterator[Window]:
    wanted = PATHS[path]
    # A lease is lost by expiring, and a fresh attempt that finds it busy fails: two retries, so that one comes after.
    bounds = setting(
        backing,
        ledger=ledger,
        attempts=3 + wanted.abandoned,
        crashes=1 + wanted.abandoned,
        pauses=False,
        no_ops=True,
        adopts=wanted.adopts,
    )
    way = _started(Model(bounds), wanted)
    run = len(way.world.runs) - 1
    while (state := way.world.runs[run].state) is not None:
        died = way.take("fault crash", f"e{run}")
        yield Window(
            setting=bounds,
            path=path,
            after=way.labels[-1],
            waiting_for=state.phase.name,
            residue=_residue(died.world),
            choices=died.choices,
            runs=tuple(_what_comes_of(died)),
        )
        way = _go_on(way, run, wanted)


def _started(model: Model, wanted: Way) -> RunPath:
    """Hand out the attempt whose windows are wanted, after an abandoned publication if it is to find one."""
    # Who adopts looks first, and its body runs later or not at all.
    body = "hand out" if wanted.adopts else "(changed)" if wanted.changed else "(unchanged)"
    if not wanted.abandoned:
        return RunPath(model).take("hand out", body)
    way = RunPath(model).take("hand out", "hand out" if wanted.adopts else "(changed)")
    way = way.until(0, "install").take("crash e0")
    way = way.take("expire") if way.can("expire") else way
    return way.take("give up").take("hand out", body)


def _go_on(way: RunPath, run: int, wanted: Way) -> RunPath:
    """Let the execution go on, and its body end as is wanted."""
    body = (f"e{run} ", "RunBody", "unchanged")
    return way.take(*body) if not wanted.changed and way.can(*body) else way.go_on(run)


def _what_comes_of(died: RunPath) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Explore everything that can still happen, and give the shortest run to each outcome and each violation."""
    explorer = Explorer(died.model, (*PROPERTIES, *_OUTCOMES))
    found = explorer.run(Limits(), beginnings=[(died.labels[-1], died.world)])
    assert found.complete
    for each in found.violations:
        run = replay(died.model, (*died.labels, *each.trace[1:]))
        yield each.property, tuple(step.choice for step in run)


def _residue(world: World) -> str:
    """Say what the dead execution left behind."""
    left: list[str] = []
    left += ["a staging name"] if world.names else []
    left += ["a claim"] if world.claims else []
    left += ["an intent"] if world.intents else []
    left += ["the lease"] if world.lease.holder != NOBODY else []
    left += ["a publication on its way"] if world.requests else []
    left += [f"the head at {world.head}"] if world.head != "A" else []
    left += ["its result accepted"] if accepted(world) else []
    return ", ".join(left) or "nothing"


def outcome_of(world: World) -> str:
    """Name what a world at rest came to."""
    done = accepted(world)
    if not done:
        return "fails closed"
    _, ref = done[-1]
    if ref not in chain(world.head):
        return "accepted and lost"
    return "completes" if world.head == ref else "completes under an abandoned tip"


#: What it may come to when nothing is left to do, the best first.
OUTCOMES = ("completes", "completes under an abandoned tip", "fails closed", "accepted and lost")


def _comes_to(outcome: str) -> Property:
    """Let the explorer look for an outcome as it looks for a violation: so it finds the shortest run to it."""

    def judge(_setting: Setting, world: World) -> str | None:
        return outcome if outcome_of(world) == outcome else None

    return Property(outcome, f"it never {outcome}", When.AT_REST, judge)


_OUTCOMES = tuple(_comes_to(outcome) for outcome in OUTCOMES)

HEADER = """# Crash windows

Generated by `make specs`; do not edit. One execution is killed after each move of its straight way. Then the
orchestrator gives it up and hands out fresh attempts, each changing something or nothing, and every interleaving of
them with what the dead one still had on its way is explored to rest. The last column is everything that may come of it.
The ledger is on.

The numbers are the choices that lead from the beginning to the kill. Written behind the words above a table, they are
a line that `perago replay` takes.
"""


def windows_text() -> str:
    """Write the catalogue as Markdown."""
    lines = [HEADER]
    for backing in Backing:
        for path in paths(backing):
            found = windows(backing, path, ledger=True)
            lines += [f"## `{backing.value}`, {path}", "", f"`{found[0].line().rpartition(' ')[0]}`", ""]
            lines += ["| killed after | window | left behind | what comes of it | choices |", "|---|---|---|---|---|"]
            lines += map(_line, found)
            lines.append("")
    lines += ["## Windows that no call of an attempt stands between", ""]
    lines += [f"* **{name}**: {reason}." for name, reason in ELSEWHERE.items()]
    lines += ["", "## Perturbations other than crashes", ""]
    lines += [f"* **{name}**: {where}." for name, where in PERTURBATIONS.items()]
    return "\n".join(lines) + "\n"


def _line(window: Window) -> str:
    who, what, about = window.after
    choices = ".".join(map(str, window.choices))
    cells = (f"{who} {what} ({about})", WINDOWS[window.waiting_for], window.residue, window.verdict, choices)
    return f"| {' | '.join(cells)} |"
