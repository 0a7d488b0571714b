"""Mutants: wrong protocols that somebody must notice, each tried in many small environments.

A mutant that nobody notices says that a property is missing, an environment is missing, or that the two protocols are
the same. Which of the three it is has to be written down (``survivors``), or the tests fail.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache

from attrs import field, frozen

from perago_core.attempt import ATTEMPT
from perago_core.attempt.state import Phase
from perago_core.machine.rows import Row
from perago_core.value import Value
from perago_core.values import SHARING, Backing
from perago_simulation.explore.exploration import Violation
from perago_simulation.explore.known_graph import first_otherwise
from perago_simulation.explore.search import explore
from perago_simulation.mutants.known_bugs import BUGS
from perago_simulation.mutants.tables import Attempts, attempts, in_words, leads, skip, taken_for, with_rows
from perago_simulation.mutants.wrong_actions import Make
from perago_simulation.properties.liveness import heal
from perago_simulation.properties.order import broken_clauses
from perago_simulation.properties.register import JUDGED
from perago_simulation.world.model import Model
from perago_simulation.world.settings import Setting, setting

_BESIDE: Mapping[str, object] = {"attempts": 1, "workflows": 2, "abreast": True, "crashes": 0, "adopts": True}

#: Small worlds, the smallest first: what kills a mutant should be quick to find and short to read.
ENVIRONMENTS: Mapping[str, Mapping[str, object]] = {
    "alone": {"attempts": 1, "crashes": 0, "pauses": False, "no_ops": True},
    "stranger": {"attempts": 1, "crashes": 0, "pauses": False, "no_ops": True, "strangers": 1},
    "foreign merge": {"attempts": 1, "crashes": 0, "pauses": False, "no_ops": True, "foreign_merges": 1},
    "crash": {"crashes": 1, "pauses": False, "no_ops": True},
    "equal trees": {"crashes": 1, "pauses": False, "same_tree": True},
    "ledger": {"crashes": 1, "pauses": False, "no_ops": True, "ledger": True},
    "stranger, crash": {"crashes": 1, "pauses": False, "no_ops": True, "strangers": 1},
    "lost answer": {"crashes": 0, "losses": 1, "pauses": False, "no_ops": True},
    "duplicate": {"attempts": 1, "crashes": 0, "duplicates": 1, "no_ops": True},
    "ledger, lost answer": {"crashes": 0, "losses": 1, "pauses": False, "no_ops": True, "ledger": True},
    "retry": {"crashes": 0},
    "two crashes": {"attempts": 3, "crashes": 2, "pauses": False, "no_ops": True},
    "duplicate, crash": {"crashes": 1, "duplicates": 1, "pauses": False},
    "ledger, duplicate": {"attempts": 1, "crashes": 0, "duplicates": 1, "pauses": False, "ledger": True},
    "lost answer, crash": {"crashes": 1, "losses": 1, "pauses": False, "no_ops": True},
    "no-op": {"crashes": 0, "no_ops": True},
    "retry, lost answer": {"crashes": 0, "losses": 1},
    "equal trees, duplicate": {
        "attempts": 1, "crashes": 0, "losses": 1, "duplicates": 1, "pauses": False, "same_tree": True,
    },
    "requeue": {"attempts": 1, "crashes": 0, "no_ops": True, "requeues": 1},
    "rerun": {"attempts": 1, "crashes": 1, "pauses": False, "no_ops": True, "reruns": 1},
    "re-sent": {"attempts": 1, "crashes": 0, "pauses": False, "resends": 1},
    "collector": {"attempts": 1, "crashes": 0, "duplicates": 1, "collector": True},
    "two steps": {"steps": 2, "crashes": 1, "pauses": False, "no_ops": True},
    # The same with retries that adopt, and with steps that are scheduled twice: only what these change is looked for.
    "adopting, crash": {"crashes": 1, "pauses": False, "no_ops": True, "adopts": True},
    "adopting, equal trees": {"crashes": 1, "pauses": False, "same_tree": True, "adopts": True},
    "adopting, ledger": {"crashes": 1, "pauses": False, "no_ops": True, "ledger": True, "adopts": True},
    "adopting, stranger, crash": {"crashes": 1, "pauses": False, "strangers": 1, "adopts": True},
    "adopting, lost answer": {"crashes": 0, "losses": 1, "pauses": False, "no_ops": True, "adopts": True},
    "twins": {"attempts": 1, "crashes": 0, "pauses": False, "no_ops": True, "twins": 1, "adopts": True},
    "adopting, retry": {"crashes": 0, "adopts": True},
    "twins, ledger": {"attempts": 1, "crashes": 0, "pauses": False, "twins": 1, "ledger": True, "adopts": True},
    "twins, retry": {"crashes": 0, "pauses": False, "twins": 1, "adopts": True},
    "twins, lost answer": {"attempts": 1, "crashes": 0, "losses": 1, "pauses": False, "twins": 1, "adopts": True},
    "twins, half of them adopting": {"pauses": False, "twins": 1, "adopts": True, "mixed": True},
    # Two tasks on one branch that write the same: a head is of one of them, and only its word says of which.
    "side by side, equal trees": {
        "attempts": 1, "workflows": 2, "abreast": True, "crashes": 0, "losses": 1, "pauses": False, "same_tree": True,
        "adopts": True,
    },
    # Workflows that share a branch by what they declare.
    "shared, reset": {
        "attempts": 1, "steps": 2, "crashes": 0, "pauses": False, "foreign_resets": 1, "scopes": "disjoint",
        "adopts": True,
    },
    "shared, crossed": {**_BESIDE, "pauses": False, "scopes": "crossed"},
    "shared, disjoint": {**_BESIDE, "scopes": "disjoint"},
    "shared, overlapping": {**_BESIDE, "scopes": "overlapping"},
}  # fmt: skip


#: The large ones. The matrix tries only those mutants here that nobody has noticed in the others.
LARGE = (
    "two crashes", "lost answer, crash", "no-op", "retry, lost answer", "collector", "two steps",
    "twins, retry", "twins, lost answer", "twins, half of them adopting",
)  # fmt: skip

#: Where it is also asked whether all ends, and as it should, once nothing more goes wrong: it takes the whole graph.
HEALED = frozenset(
    setting(backing, **ENVIRONMENTS[name])
    for backing in Backing
    for name in (
        "crash",
        "lost answer",
        "retry",
        "adopting, crash",
        "adopting, lost answer",
        "adopting, retry",
        "twins",
    )
)


@frozen(repr=False)
class Mutant(Value):
    """One wrong protocol. ``rows`` are the production rows it changes; without any, it may matter everywhere.

    One that is ``shared`` matters only where scopes are declared.
    """

    id: str
    kind: str
    lesson: str
    says: str
    backings: tuple[Backing, ...]
    make: Make = field(eq=False)
    rows: frozenset[str] = frozenset()
    shared: bool = False


@frozen(repr=False)
class Baseline(Value):
    """What the production table does in a setting: the rows it fires, and the properties it is known to break."""

    rows: frozenset[str]
    broken: frozenset[str]


def settings_of(backing: Backing) -> Iterator[tuple[str, Setting]]:
    """Return the environments of a backing."""
    for name, more in ENVIRONMENTS.items():
        of = setting(backing, **more)
        if is_tried(of):
            yield name, of


def is_tried(of: Setting) -> bool:
    """Return whether anything is looked for in a setting.

    ``soft`` adopts nothing, whatever a task says; where only half of the tasks adopt, ``atomic`` stands for the others,
    whose worlds are too many. A scope shares a branch only where the store checks every movement of it.
    """
    adopting = (of.takes_over or not of.adopts) and (of.backing is Backing.ATOMIC or not of.mixed)
    return adopting and (of.backing in SHARING or not of.scopes)


_KNOWN: dict[Setting, Baseline] = {}


def baseline(of: Setting) -> Baseline:
    """Return what the production table does in a setting, explored once in a process."""
    if of not in _KNOWN:
        _KNOWN[of] = _explored(of)
    return _KNOWN[of]


def recall(known: Mapping[Setting, Baseline]) -> None:
    """Take over what another process has explored."""
    _KNOWN.update(known)


def _explored(of: Setting) -> Baseline:
    model = Model(of)
    broken = set(explore(model, JUDGED).broken())
    return Baseline(frozenset(model.fired), frozenset(broken | set(heal(of).broken() if of in HEALED else ())))


@cache
def mutants() -> Mapping[str, Mutant]:
    """Return every mutant by its id: the historical ones, the steps left out, the answers taken for others."""
    return _of_rows({row for backing in Backing for _, of in settings_of(backing) for row in baseline(of).rows})


@cache
def possible_mutants() -> Mapping[str, Mutant]:
    """Return those of rows that no environment fires too, for which nothing has to be explored."""
    return _of_rows({row.id for row in ATTEMPT.definition.rows})


def _of_rows(rows: Collection[str]) -> Mapping[str, Mutant]:
    return {each.id: each for each in (*_historical(), *_skipped(rows), *_swapped(rows))}


def _historical() -> Iterator[Mutant]:
    for bug in BUGS:
        yield Mutant(bug.id, "bug", bug.lesson, bug.says, bug.backings, bug.make, bug.rows, bug.shared)


def _skipped(reachable: Collection[str]) -> Iterator[Mutant]:
    for phase in SKIPPED:
        rows = {each.id for each in ATTEMPT.definition.rows if each.next is phase and each.phase is not phase}
        says = f"goes on without {phase.value}"
        yield Mutant(
            f"no {phase.name}",
            "skip",
            "",
            says,
            tuple(Backing),
            _running(skip(phase)),
            frozenset(rows & set(reachable)),
        )


def _swapped(reachable: Collection[str]) -> Iterator[Mutant]:
    for each, other in taken_for(reachable):
        assert isinstance(each.phase, Phase)
        assert isinstance(other.next, Phase)
        says = f"{each.phase.name}: {in_words(each)} is taken for {in_words(other)}"
        rows = with_rows(leads(each.id, other.next, other.ask))
        identity = f"{each.id} as {other.id}"
        yield Mutant(identity, "swap", "", says, tuple(Backing), _running(rows), frozenset({each.id}))


def _running(rows: Iterable[Row]) -> Make:
    kept = tuple(rows)

    @cache
    def table() -> Attempts:
        return attempts(kept)

    return lambda of: Model(of, table())


#: The steps that can be left out. Without the others there is nothing to run or nothing to decide on.
SKIPPED = tuple(
    phase
    for phase in Phase
    if phase
    not in {
        Phase.EARLIER_CLAIMS, Phase.WORKSPACE, Phase.BODY, Phase.FENCE_0, Phase.STAGING_0, Phase.UPLOAD, Phase.COMMIT,
        Phase.HEAD, Phase.PUBLICATION, Phase.DONE,
    }
)  # fmt: skip


def noticed_in(mutant: Mutant, of: Setting) -> Violation | None:
    """Return how a mutant is noticed in a setting, or ``None`` if it is not, or if it makes no difference there."""
    if of.backing not in mutant.backings or not is_tried(of) or (mutant.shared and not of.scopes):
        return None
    known = baseline(of)
    if mutant.rows and not mutant.rows & known.rows:
        return None
    found = first_otherwise(mutant.make(of), of, JUDGED, known.broken)
    return _unhealed(mutant.make(of), known.broken) if found is None and of in HEALED else found


def _unhealed(model: Model, ignore: Collection[str]) -> Violation | None:
    """Return what never ends, or ends otherwise than it should, once nothing more goes wrong."""
    for each in heal(model).violations:
        if each.property not in ignore:
            return each
    return None


def clauses(mutant: Mutant) -> tuple[str, ...]:
    """Name the clauses on the order of steps that a mutant breaks, before anybody runs it."""
    return broken_clauses(mutant.make(setting(mutant.backings[0])).table)


def first_kill(mutant: Mutant) -> str | None:
    """Say who notices a mutant first: a clause on the order of steps, or a property in the smallest environment."""
    broken = clauses(mutant)
    if broken:
        return f"order of steps: {broken[0]}"
    for name in ENVIRONMENTS:
        for backing in mutant.backings:
            found = noticed_in(mutant, setting(backing, **ENVIRONMENTS[name]))
            if found is not None:
                return f"{backing.value}, {name}: {found.property} in {len(found.trace)}"
    return None
