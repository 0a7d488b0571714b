"""The crash windows: die between any two moves of a publication, and let everything that can still happen happen.

For each backing and path one execution is taken straight from its first call to its end. At every point it is killed;
then the orchestrator gives it up, a fresh attempt is handed out, and *all* interleavings of the two, with whatever the
dead one still had on its way, are explored to rest. The window is classified by the worst of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from attrs import field, frozen

from perago_core.value import Value
from perago_core.values import Backing
from perago_simulation.explore import Explorer, Limits
from perago_simulation.history import chain
from perago_simulation.model import Label, Model, Move
from perago_simulation.properties import accepted
from perago_simulation.settings import Setting, setting
from perago_simulation.world import DEAD, RUNNING, Run, World, with_run

#: Which window of the study a kill falls into, by what the execution was waiting for when it died.
WINDOWS: Mapping[str, str] = {
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

#: The ones no call of this protocol can stand between, each with the reason.
ELSEWHERE: Mapping[str, str] = {
    "CW-19": "cannot occur: the staging name is deleted after the report, not between confirmation and report",
    "CW-26": "a read-only execution makes no call that anybody else can see",
    "CW-27": "recovery, killed at each call: tests/core/test_recovery.py",
    "CW-28": "recovery, killed at each call: tests/core/test_recovery.py",
    "CW-29": "recovery, killed at each call: tests/core/test_recovery.py",
    "CW-30": "policy, killed at each call: tests/core/test_policy.py",
    "CW-31": "policy, killed at each call: tests/core/test_policy.py",
    "CW-32": "the probe's own scratch belongs to the store's adapter",
}

#: Where each perturbation that is not a crash is covered, or that it is not yet.
PERTURBATIONS: Mapping[str, str] = {
    "N-01": "ladder, *duplicate delivery*: a second delivery at every point of the first",
    "N-02": "tests/core: a result reported twice, clean-up twice, a foreign completion; a publication re-sent by the "
    "transport is forbidden (RT-4) and not yet explored",
    "N-03": "ladder, *pauses that resume*: publications of a given-up execution begin and land at every later point",
    "N-04": "ladder, *pauses that resume*: one lost answer at any call, landed or not; "
    "tests/core/test_driver.py: each call of each backing refused, lost and dropped",
    "N-05": "every environment: the store begins again whenever the branch record has changed",
    "N-06": "every environment under `locked`: the lease expires at any time; tests/core/test_lease.py for the clocks",
    "N-07": "every environment with pauses: given up at any point, late results ignored with success; a rerun after "
    "acceptance is not yet explored",
    "N-08": "ladder, *foreign writer*: a commit at any point; merges, resets, uncommitted objects, a missing branch: "
    "tests/core/test_fence.py; a branch deleted and made anew is not yet explored",
    "N-09": "tests/core/test_policy.py; the epoch moving during an attempt: tests/core/test_driver.py",
    "N-10": "tests/core/test_lease.py",
    "N-11": "not yet explored: garbage collection is an adapter's and the runtime's",
    "N-12": "tests/core/test_maintenance.py, tests/core/test_driver.py",
    "N-13": "the runtime's: a stop request is no event of the machine (RT-9)",
    "N-14": "a duty of the store (ST-1), for its conformance suite",
    "N-15": "tests/simulation/test_explore.py, two steps",
    "N-16": "tests/core/test_values.py",
}

#: Each path: whether the execution changes something, and whether it finds an abandoned publication.
PATHS: Mapping[str, tuple[bool, bool]] = {
    "first publish": (True, False),
    "no-op": (False, False),
    "replacement": (True, True),
    "return to the input": (False, True),
}


@frozen(repr=False)
class Window(Value):
    """One point at which an execution is killed, and everything that came of it."""

    setting: Setting
    path: str
    after: Label
    waiting_for: str
    residue: str
    outcomes: tuple[str, ...]
    broken: tuple[str, ...] = field(default=())

    @property
    def verdict(self) -> str:
        """Name the worst that came of it."""
        if self.broken:
            return f"violates {', '.join(self.broken)}"
        return " or ".join(self.outcomes)


def windows(backing: Backing, path: str, *, ledger: bool = False) -> Iterator[Window]:
    """Kill an execution after each move of its straight way, and give what came of it."""
    changed, abandoned = PATHS[path]
    # A lease is lost by expiring, and a fresh attempt that finds it busy fails: two retries, so that one comes after.
    attempts = 3 + abandoned
    bounds = setting(backing, ledger=ledger, attempts=attempts, crashes=0, pauses=False, no_ops=True)
    model = Model(bounds)
    for label, world in _straight(model, _started(model, changed=changed, abandoned=abandoned)):
        state = world.runs[-1].state
        if state is None:
            continue
        dead = _killed(world)
        explorer = Explorer(model)
        found = explorer.run(Limits(), beginnings=[(("fault", "crash", f"e{len(world.runs) - 1}"), dead)])
        assert found.complete
        ends = {_outcome(each) for each in explorer.came_from if model.at_rest(each)}
        broken = tuple(sorted(found.broken()))
        yield Window(bounds, path, label, state.phase.name, _residue(dead), tuple(sorted(ends)), broken)


def _started(model: Model, *, changed: bool, abandoned: bool) -> Move:
    """Hand out the attempt whose windows are wanted, after an abandoned publication if it is to find one."""
    if not abandoned:
        return _handed_out(model.beginnings(), changed=changed)
    first = _handed_out(model.beginnings(), changed=True)
    published = next(world for label, world in _straight(model, first) if label[1] == "install")
    world = _killed(published)
    for what in ("expire", "give up"):
        world = next((after for label, after in model.moves(world) if label[1] == what), world)
    return _handed_out(model.moves(world), changed=changed)


def _handed_out(moves: Iterable[Move], *, changed: bool) -> Move:
    body = "(changed)" if changed else "(unchanged)"
    return next(each for each in moves if each[0][1] == "hand out" and each[0][2].endswith(body))


def _straight(model: Model, start: Move) -> Iterator[Move]:
    """Take the last execution from its start to its end without a fault."""
    label, world = start
    yield label, world
    while world.runs[-1].fate is RUNNING:
        actors = {f"e{len(world.runs) - 1}", "store"}
        label, world = next(each for each in model.moves(world) if each[0][0] in actors)
        yield label, world


def _killed(world: World) -> World:
    last = len(world.runs) - 1
    return with_run(world, last, Run(world.runs[last].task, DEAD, None))


def _residue(world: World) -> str:
    """Say what the dead execution left behind."""
    left: list[str] = []
    left += ["a staging name"] if world.names else []
    left += ["a claim"] if world.claims else []
    left += ["an intent"] if world.intents else []
    left += ["the lease"] if world.lease[0] != -1 else []
    left += ["a publication on its way"] if world.requests else []
    left += [f"the head at {world.head}"] if world.head != "A" else []
    left += ["its result accepted"] if accepted(world) else []
    return ", ".join(left) or "nothing"


def _outcome(world: World) -> str:
    done = accepted(world)
    if not done:
        return "fails closed"
    _, ref = done[-1]
    if ref not in chain(world.head):
        return "accepted and lost"
    return "completes" if world.head == ref else "completes under an abandoned tip"


HEADER = """# Crash windows

Generated by `make specs`; do not edit. One execution is killed after each move of its straight way. Then the
orchestrator gives it up and hands out fresh attempts, each changing something or nothing, and every interleaving of
them with what the dead one still had on its way is explored to rest. The last column is everything that may come of it.
The ledger is on.
"""


def windows_text() -> str:
    """Write the catalogue as Markdown."""
    lines = [HEADER]
    for backing in Backing:
        for path in PATHS:
            lines += [f"## `{backing.value}`, {path}", ""]
            lines += ["| killed after | window | left behind | what comes of it |", "|---|---|---|---|"]
            lines += [_line(window) for window in windows(backing, path, ledger=True)]
            lines.append("")
    lines += ["## Windows that no call of an attempt stands between", ""]
    lines += [f"* **{name}**: {reason}." for name, reason in ELSEWHERE.items()]
    lines += ["", "## Perturbations other than crashes", ""]
    lines += [f"* **{name}**: {where}." for name, where in PERTURBATIONS.items()]
    return "\n".join(lines) + "\n"


def _line(window: Window) -> str:
    who, what, about = window.after
    return f"| {who} {what} ({about}) | {WINDOWS[window.waiting_for]} | {window.residue} | {window.verdict} |"
