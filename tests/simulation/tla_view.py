"""The projection: a world of the explorer as a state of ``specs/tla/Publish.tla``, and a move as one of its actions.

It is one to one. What a world holds beyond the state is derived: the arguments of the outstanding command, the plan,
the staged reference and the words of a refusal all follow from what is projected here. ``test_tlc`` checks that no two
worlds of a run have the same projection, so nothing is hidden by it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from perago_core.answers import Event
from perago_core.attempt import ATTEMPT, AttemptState, Known, Phase
from perago_core.attempt import messages as m
from perago_core.fence import Adopted, Allowed, Decision, Refused, Standing, Unneeded
from perago_core.machine.rows import Row, Step
from perago_core.results import Classification, Completed, Refusal, Result
from perago_core.values import Attempt, Claim
from perago_simulation.tlc import Tla, record
from perago_simulation.world.history import chain
from perago_simulation.world.model import Label, Model
from perago_simulation.world.settings import RARE, Setting
from perago_simulation.world.state import Rare, Rarities, Request, Run, Task, World

NOTHING = ("nothing",)
NO_RESULT = record(status="none", ref=(), output=0)


# ---------------------------------------------------------------------------------------------------------------------
# Worlds


def state(world: World) -> Tla:
    """Return the state a world is. Executions, tasks, steps and strangers are counted from 1 there."""
    return record(
        head=_commit(world.head),
        names=frozenset((run + 1, _commit(at)) for run, at in world.names),
        claims=tuple(_claim(claim) for claim in world.claims),
        raised=tuple(run + 1 for run in world.raised),
        requests=frozenset(_request(request) for request in world.requests),
        tasks=tuple(_task(task) for task in world.tasks),
        runs=tuple(_run(run) for run in world.runs),
        lease=record(holder=world.lease.holder + 1, clean=world.lease.clean),
        foreign=tuple(_commit(ref) for ref in world.strangers),
        budget=record(
            crashes=world.budget.crashes,
            duplicates=world.budget.duplicates,
            strangers=world.budget.strangers,
            twins=_twins(world.rare),
        ),
    )


def _twins(rare: Rare | None) -> int:
    """Of what is rare only this is told there."""
    if rare is None:
        return 0
    twins = rare.left.twins
    assert rare == Rare(Rarities(**{**dict.fromkeys(RARE, 0), "twins": twins}))
    return twins


def _commit(ref: str) -> Tla:
    """A commit is its history, oldest first."""
    return tuple(_made(each) for each in reversed(chain(ref))) if ref else ()


def _made(ref: str) -> Tla:
    named = re.match(r"([ACDEMF])(\d*)", ref)
    assert named is not None
    return _MADE.get(named.group(1), named.group(1)), int(named.group(2)) + 1 if named.group(2) else 0


#: Staged and merged where all executions stage equal content; the specification says that by its trees.
_MADE = {"D": "C", "E": "M"}


def _number(name: str) -> int:
    """``e0`` and ``t0`` are the first."""
    return int(name[1:]) + 1


def _claim(claim: Claim) -> Tla:
    tree = _tree(claim.tree, claim.parent)
    return record(run=_number(claim.execution), tree=tree, result=_output(claim.result or ""))


def _output(output: str) -> int:
    """What a body returned names its execution, and before one has there is nothing."""
    return _number(output.strip('"')) if output.startswith('"') else 0


def _tree(tree: str | None, on: str) -> Tla:
    if tree is None:
        return record(kind="none", by=0, on=())
    by = tree.removeprefix(f"t:{on}+")
    return record(kind="staged", by=_number(by) if by else 0, on=_commit(on))


def _request(request: Request) -> Tla:
    assert request.awaited is True  # no answer is lost here
    plan = request.plan
    return record(run=request.run + 1, verdict=plan.kind.value, expected=_commit(plan.expected), begun=request.begun)


def _task(task: Task) -> Tla:
    return record(
        step=task.step + 1,
        number=task.number,
        line=task.line,
        input=_commit(task.input),
        status=task.status,
        winner=task.winner + 1,
        ref=_commit(task.ref),
    )


def _run(run: Run) -> Tla:
    if run.state is None:
        return _execution(run, "DONE")
    known = run.state.known
    # There is no ledger, and no clean-up fails.
    assert (known.maintained, known.armed, known.left_behind) == ((), False, ())
    return _execution(
        run,
        # Workspace and body are one move, and nothing lies between them.
        "BODY" if run.state.phase is Phase.WORKSPACE else run.state.phase.name,
        changed=known.changed,
        output=_output(known.output),
        adopting=known.adopting,
        found=_commit(known.found.commit if known.found else ""),
        earlier=_completed(*known.accepted) if known.accepted else NO_RESULT,
        stage="none" if not known.staging else "open" if known.staged is None else "staged",
        listed=tuple(_claim(claim) for claim in known.claims),
        standings=frozenset((_number(task), standing.value) for task, standing in known.standings),
        leased=known.token is not None,
        decision=_decision(known.decision, run.state),
        published=_commit(known.published or ""),
        doubtful=known.uncertain,
        why=NOTHING if known.refusal is None else _why(known.refusal),
        result=_result(_reported(run.state)),
        accepted=known.acceptance.value,
    )


def _execution(run: Run, phase: str, **learnt: Tla) -> Tla:
    nothing: dict[str, Tla] = {
        "changed": False,
        "stage": "none",
        "output": 0,
        "adopting": False,
        "found": (),
        "earlier": NO_RESULT,
        "listed": (),
        "standings": frozenset(),
        "leased": False,
        "decision": record(verdict="none", head=()),
        "published": (),
        "doubtful": False,
        "why": NOTHING,
        "result": NO_RESULT,
        "accepted": "unread",
    }
    return record(task=run.task + 1, fate=run.fate, phase=phase, **{**nothing, **learnt})


def _decision(decision: Decision | None, state: AttemptState) -> Tla:
    """A decision is its verdict and the head it was about; the rest of a plan follows from who decided."""
    match decision:
        case None:
            return record(verdict="none", head=())
        case Allowed(plan):
            return record(verdict=plan.kind.value, head=_commit(plan.expected))
        case Unneeded(output):
            assert output == state.subject.input
            return record(verdict="nothing", head=_commit(output))
        case Adopted(ref):
            return record(verdict="adopt", head=_commit(ref))
        case Refused(refusal):
            return record(verdict="refuse", head=_commit(_head(refusal)))
        case _:
            message = f"there is no clock here: {decision}"
            raise AssertionError(message)


def _head(refusal: Refusal) -> str:
    named = re.search(r"head (\S+)", f"{refusal.expected if _by_owner(refusal) else refusal.actual}")
    assert named is not None
    return named.group(1)


def _by_owner(refusal: Refusal) -> bool:
    return refusal.classification is Classification.HEAD_NOT_REPLACEABLE


def _why(refusal: Refusal) -> Tla:
    """The reason without its words. What a reason names that the state holds anyway is not repeated."""
    actual = refusal.actual
    match refusal.classification:
        case Classification.ATTEMPT_STALE:
            (word,) = re.findall(r" (COMPLETED|FAILED|TIMED_OUT), ", actual)
            return "stale", word.lower().replace("_", " ")
        case Classification.STAGING_FAILED:
            return ("commit refused",)
        case Classification.CLAIM_LOST:
            return "claim lost", _number(actual.rsplit(maxsplit=1)[-1])
        case Classification.LEASE_BUSY:
            return ("lease busy",)
        case Classification.HEAD_ELSEWHERE:
            return ("head elsewhere",)
        case Classification.ADOPTED_GONE:
            return ("adopted gone",)
        case Classification.HEAD_NOT_REPLACEABLE:
            return _objection(actual)
        case Classification.PUBLISH_REFUSED:
            return "publish refused", actual
        case Classification.PUBLISHED_ELSEWHERE:
            return ("published elsewhere",)
        case _:
            message = f"not a reason without lost answers and a ledger: {refusal}"
            raise AssertionError(message)


def _objection(actual: str) -> Tla:
    if actual == "it says it is another task's":
        return ("says another's",)
    if actual.startswith("no claim record"):
        return ("no claim record",)
    if newer := re.match(r"attempt (\d+) may own it", actual):
        return "may be newer", int(newer.group(1))
    if adopter := re.match(r"task (t\d+), which may have adopted it, is (\w+)", actual):
        return "may have adopted", _number(adopter.group(1)), Standing(adopter.group(2)).value
    owner = re.match(r"its owner, task (t\d+), is (\w+)", actual)
    assert owner is not None
    return _number(owner.group(1)), Standing(owner.group(2)).value


def _reported(state: AttemptState) -> Result | None:
    """What is being reported, or has been."""
    (command,) = state.pending
    return command.result if isinstance(command, m.Report) else state.known.result


def _result(result: Result | None) -> Tla:
    if result is None:
        return NO_RESULT
    if isinstance(result, Completed):
        return _completed(result.ref, result.output)
    return record(status="failed", ref=(), output=0)


def _completed(ref: str, output: str) -> Tla:
    return record(status="completed", ref=_commit(ref), output=_output(output))


# ---------------------------------------------------------------------------------------------------------------------
# Moves


class Watched:
    """A model that says which action each of its moves is; the row that fired is the production table's own word."""

    def __init__(self, setting: Setting) -> None:
        self.model = Model(setting)
        self.model.step = self._step  # type: ignore[assignment]
        self._row: Row | None = None

    def _step(self, state: AttemptState, event: Event) -> Step[Attempt, Known]:
        fired = ATTEMPT.fire(state, event)
        self._row = fired.row
        return Step(fired.state, fired.commands)

    def beginnings(self) -> Iterator[World]:
        """Return the worlds a run starts from."""
        for _, world in self.model.beginnings():
            yield world

    def moves(self, world: World) -> Iterator[tuple[str, World]]:
        """Return each move as the name of the action it is, and the world after it."""
        self._row = None
        for label, after in self.model.moves(world):
            yield self._action(label), after
            self._row = None

    def _action(self, label: Label) -> str:
        who, what, _ = label
        if self._row is not None and who != "orchestrator":
            return action_of(self._row)
        return WORLD_ACTION[what]


def action_of(row: Row) -> str:
    """Name the action that is this row: its id and the command it asks for."""
    return f"{row.id}_{'Done' if row.ask is None else row.ask.command.__name__}"


WORLD_ACTION = {
    "Publish": "Send",
    "begin": "Begin",
    "refuse": "RefuseTheDead",
    "install": "InstallForTheDead",
    "hand out": "HandOut",
    "deliver again": "DeliverAgain",
    "schedule twice": "ScheduleTwice",
    "give up": "GiveUp",
    "crash": "Crash",
    "commit": "StrangerCommits",
    "expire": "LeaseExpires",
}

#: The actions that are not a row of the table.
WORLD_ACTIONS = frozenset(WORLD_ACTION.values())
