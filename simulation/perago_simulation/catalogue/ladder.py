"""The ladder: what each backing promises in which environment, found by exploring, never written by hand.

``ladder`` explores every backing, with and without ledger, in every environment; ``ladder_text`` writes it down, with
the rows of the attempt's table that fired and those that did not. The register of known holes,
``specs/residuals.json``, is kept by people; ``holes`` is what the explorer says it must be.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import groupby
from multiprocessing import get_context
from typing import Any

from attrs import frozen

from perago_core.attempt import ATTEMPT
from perago_core.value import Value
from perago_core.values import SHARING, Backing
from perago_simulation.explore.exploration import Exploration
from perago_simulation.explore.search import explore
from perago_simulation.properties.conduct import CONDUCT
from perago_simulation.properties.leftovers import LEFTOVERS
from perago_simulation.properties.liveness import LEADS, REST, Healing, heal
from perago_simulation.properties.register import JUDGED
from perago_simulation.properties.safety import PROPERTIES
from perago_simulation.properties.sharing import SHARING as SHARING_CLAUSES
from perago_simulation.world.model import Model
from perago_simulation.world.presets import PRESETS
from perago_simulation.world.settings import SCOPES, Setting, setting

#: What may go wrong, by name. Each is bounded so that it can be explored completely in seconds.
ENVIRONMENTS: Mapping[str, Mapping[str, Any]] = {
    "retries after crashes": {"attempts": 3, "crashes": 2, "pauses": False, "no_ops": True},
    "pauses that resume": {"attempts": 2, "crashes": 0, "losses": 1, "no_ops": True},
    "duplicate delivery": {"attempts": 1, "crashes": 0, "duplicates": 1, "no_ops": True},
    "foreign writer": {"attempts": 2, "crashes": 0, "strangers": 1, "no_ops": True},
    "all but duplicates": {"attempts": 2, "crashes": 1, "losses": 1, "strangers": 1},
    "all in one attempt": {"attempts": 1, "crashes": 1, "losses": 1, "duplicates": 1, "strangers": 1},
    "requeued task": {"attempts": 1, "crashes": 0, "losses": 1, "requeues": 1, "no_ops": True},
    "rerun task": {"attempts": 1, "crashes": 1, "reruns": 1, "no_ops": True},
    "terminated workflow": {"attempts": 2, "crashes": 0, "terminations": 1, "no_ops": True},
    "re-sent publication": {"attempts": 2, "crashes": 0, "resends": 1},
    "foreign merge and reset": {
        "attempts": 2, "crashes": 1, "pauses": False, "no_ops": True, "foreign_merges": 1, "foreign_resets": 1,
    },
    "foreign deletion and writes": {
        "attempts": 2, "crashes": 1, "pauses": False, "no_ops": True, "recreations": 1, "foreign_writes": 1,
    },
    "collector": {"attempts": 1, "crashes": 0, "duplicates": 1, "collector": True, "no_ops": True},
    "rerun after collection": {"attempts": 1, "crashes": 0, "reruns": 1, "collector": True, "no_ops": True},
    "next workflow after crashes": {"attempts": 2, "crashes": 2, "pauses": False, "no_ops": True, "workflows": 2},
    "next workflow after a pause": {"attempts": 1, "crashes": 0, "no_ops": True, "workflows": 2},
    "next workflow, not pinned": {
        "attempts": 2, "crashes": 2, "pauses": False, "no_ops": True, "workflows": 2, "pinned": False,
    },
    "workflows side by side": {"attempts": 1, "crashes": 0, "no_ops": True, "workflows": 2, "abreast": True},
    "side by side, a crash": {"attempts": 2, "crashes": 1, "pauses": False, "workflows": 2, "abreast": True},
    "maintenance beside a task": {
        "attempts": 1, "crashes": 0, "workflows": 2, "abreast": True, "maintenance": True,
    },
    "interruptions": {"attempts": 2, "crashes": 0, "no_ops": True, "interrupts": 1},
    "interruptions and lost answers": {"attempts": 2, "crashes": 0, "losses": 1, "pauses": False, "interrupts": 1},
    "bodies interrupted": {
        "attempts": 1, "crashes": 0, "losses": 1, "no_ops": True, "interrupts": 1, "bodies": True,
    },
    "bodies and requests that fail": {
        "attempts": 2, "crashes": 0, "losses": 1, "pauses": False, "no_ops": True, "refusals": 1, "bodies": True,
    },
    "bodies that only read": {
        "attempts": 2, "crashes": 0, "losses": 1, "interrupts": 1, "refusals": 1, "bodies": True, "read_only": True,
    },
    "deadlines that pass": {
        "attempts": 2, "crashes": 0, "losses": 1, "pauses": False, "no_ops": True, "lateness": 1, "bodies": True,
    },
    "two lost answers": {
        "attempts": 1, "crashes": 0, "losses": 2, "no_ops": True, "lateness": 1, "interrupts": 1,
    },
    "requests that land late": {"attempts": 2, "crashes": 0, "losses": 1, "late_landings": 1},
    "new epoch": {"attempts": 2, "crashes": 1, "pauses": False, "no_ops": True, "epochs": 1},
    "task scheduled twice": {"attempts": 1, "crashes": 0, "pauses": False, "no_ops": True, "twins": 1},
}  # fmt: skip

_BESIDE: Mapping[str, Any] = {"attempts": 1, "crashes": 0, "pauses": False, "workflows": 2, "abreast": True}
#: What may go wrong with workflows that share a branch, whatever they declare.
_SHARED: Mapping[str, Mapping[str, Any]] = {
    "": {"pauses": True, "no_ops": True},
    ", a crash": {"attempts": 2, "crashes": 1},
    ", a lost answer": {"losses": 1},
    ", a stranger": {"strangers": 1, "foreign_resets": 1},
}
#: The environments of the backings under which a scope shares a branch: two workflows that declare what they read and
#: write. A task that does so keeps no ledger.
SHARED: Mapping[str, Mapping[str, Any]] = {
    **{
        f"shared, {scopes}{name}": {**_BESIDE, **more, "scopes": scopes}
        for scopes in filter(None, SCOPES)
        for name, more in _SHARED.items()
    },
    "shared, scheduled twice": {**_BESIDE, "twins": 1, "scopes": "crossed"},
    "shared, rerun": {**_BESIDE, "crashes": 1, "reruns": 1, "scopes": "disjoint"},
    # In sequence: the one that is terminated may go on and publish while the next one runs.
    "shared, terminated": {
        **_BESIDE, "pauses": True, "no_ops": True, "abreast": False, "terminations": 1, "scopes": "disjoint",
    },
    # Those that publish above what nobody has accepted; where all meet, none does. Three of them: `test_stacking`.
    **{
        f"stacked{name}": {**_BESIDE, **more, "scopes": "disjoint", "stacking": 2} for name, more in _SHARED.items()
    },
    "stacked, crossed": {**_BESIDE, "pauses": True, "no_ops": True, "scopes": "crossed", "stacking": 2},
    "stacked, one waits": {**_BESIDE, "pauses": True, "no_ops": True, "scopes": "disjoint", "stacking": 1},
    "stacked, rerun": {**_BESIDE, "crashes": 1, "reruns": 1, "scopes": "disjoint", "stacking": 2},
    "stacked, terminated": {
        **_BESIDE, "pauses": True, "no_ops": True, "abreast": False, "terminations": 1, "scopes": "disjoint",
        "stacking": 2,
    },
}  # fmt: skip

#: Where retries that replace differ from retries that adopt, or may: what is explored of tasks that want it so.
REPLACING = (
    "foreign writer",
    "re-sent publication",
    "foreign merge and reset",
    "collector",
    "rerun after collection",
    "next workflow, not pinned",
    "side by side, a crash",
    "task scheduled twice",
)

#: A bucket that takes no conditions, under leases from elsewhere: where that shows what is lost, and what is kept.
UNCONDITIONED = ("retries after crashes", "duplicate delivery", "foreign writer", "foreign merge and reset")
_BARE = PRESETS["s3-without-conditions"].can

#: The rows of the attempt's table that fire in no world of the ladder, and why: every other row must.
UNREACHED: Mapping[str, str] = {
    "H8": 'only a task that shares its branch, with `on_conflict = "fail"`: played call by call, not explored',
    "LL-PUBLICATION-1": "`soft` never holds a lease, so it never loses one",
    "LL-PUBLICATION-2": "`atomic` never holds a lease, so it never loses one",
}

#: The columns that stand for several clauses.
GROUPS: Mapping[str, tuple[str, ...]] = {
    "conduct": tuple(each.id for each in CONDUCT),
    "leftovers": tuple(each.id for each in LEFTOVERS),
    "sharing": tuple(each.id for each in SHARING_CLAUSES),
    "liveness": tuple(each.id for each in (REST, *LEADS)),
}

_SAFETY = (*PROPERTIES, *CONDUCT, *LEFTOVERS, *SHARING_CLAUSES)
_CLAUSES = (*(each.id for each in PROPERTIES), *(clause for group in GROUPS.values() for clause in group))

#: What a line says. The first two name it, and each of those between them and the last two a clause or a group of them.
COLUMNS = ("backing", "environment", *(each.id for each in PROPERTIES), *GROUPS, "rest within", "worlds")

HEADER = """# The ladder

Generated by `make specs`; do not edit. Each line is two complete explorations of worlds in which every execution takes
the production `step`, without and with the ledger, within the bounds given below; the rows of the table that no world
reaches are listed under "What is explored". A dot says that a property holds within the bounds. A number is the length
of the shortest trace that breaks it, without / with the ledger. *Conduct*, *leftovers*, *sharing* and *liveness* stand
for several clauses each and name those that are broken. Liveness is judged without the ledger; *rest within*: from
every world everything comes to an end in at most so many moves once nothing more goes wrong. Outside `soft` a retry
adopts what its task has already published, which is the default; *replacing* is `on_abandoned = "replace"`, explored
where the two may differ. *Shared*: two workflows that declare what they read and write, on the backings that let them
share a branch; such a task keeps no ledger, so that such a line is one exploration. *Stacked*: the same, and they
publish above work that nobody has accepted, if it changes nothing that they declare. *No conditions*: a bucket whose
puts take none, under a lease from elsewhere. That is no promise, but what is left of one; there a name and a claim are
each written in one move, so that a real one may lose more.
"""

FOOTER = """In every environment the store carries out a publication in two phases and begins again when the branch
moves in between, but without conditions it overwrites what came; a request may land long after its sender has died or
given up; leases may expire at any moment without the holder noticing. No property rests on a clock.
"""

EXPLORED = """## What is explored

**{fired} of the {rows} rows** of the attempt's table fire in these worlds: up to {workflows} workflows one after the
other, each of {steps} step(s), up to {attempts} attempts a step. Where the bounds do not say "one move at a time",
workspace and body are played at once. An interruption comes at any moment, rightly or not; a clock is a budget of looks
past a deadline. Commands are carried out by the conversations a worker holds, on the world's own ports and in one move
each. Only what is kept in the coordination store, intents and the lease, is told in short: those conversations are
explored call by call in `cluster.md`, and `tests/simulation/test_ports_agreement.py` compares the two.

Two things are simpler here than in production, and why that hides nothing. **A sweep is one move**, and settles the
intent of every attempt that has ended. The production sweep first drops names and passes the barrier, and leaves an
intent open whose commit is the head. An intent that stays open only ever keeps others from publishing, so attempts may
do more here than there; whether an intent is settled for what it is, is judged call by call in `cluster.md`. **A lease
is a holder**, which may lose it at any moment without noticing: no clock is believed, so none is needed.
"""


@frozen(repr=False)
class Rung(Value):
    """One exploration of the ladder: the environment, what was found, whether all heals (``None``: not asked).

    ``rows`` are the rows of the table that fired; none is known where somebody's own runtime takes the steps.
    """

    environment: str
    exploration: Exploration
    healing: Healing | None
    rows: frozenset[str]

    def broken(self) -> dict[str, int]:
        """Return the clauses that do not hold, liveness included, each with the length of its shortest trace."""
        return {**self.exploration.broken(), **(self.healing.broken() if self.healing else {})}


def environments_of(backing: Backing) -> Mapping[str, Mapping[str, Any]]:
    """Return the environments of a backing: workflows share a branch only where the store checks every movement."""
    return {**ENVIRONMENTS, **SHARED} if backing in SHARING else ENVIRONMENTS


def rungs() -> list[tuple[str, Setting]]:
    """Return every combination of backing, environment and ledger, in the order of the ladder.

    Retries adopt, as they do by default outside ``soft``; then those that replace, where it may make a difference; then
    leases over a bucket without conditions.
    """
    strong = [backing for backing in Backing if backing is not Backing.SOFT]
    default = [(backing, backing in strong, environments_of(backing)) for backing in Backing]
    replacing = {name: ENVIRONMENTS[name] for name in REPLACING}
    bare: Mapping[str, Mapping[str, Any]] = {name: {**ENVIRONMENTS[name], "store": _BARE} for name in UNCONDITIONED}
    beside = [*((backing, False, replacing) for backing in strong), (Backing.LOCKED, True, bare)]
    return [
        (name, setting(backing, adopts=adopts, ledger=ledger, **bounds))
        for backing, adopts, explored in (*default, *beside)
        for name, bounds in explored.items()
        for ledger in ((False,) if "scopes" in bounds else (False, True))
    ]


def named(of: Setting) -> str:
    """Name what makes a promise: the backing, and what its retries do or its store cannot, if not as usual."""
    replaces = of.backing is not Backing.SOFT and not of.adopts
    bare = of.backing is Backing.LOCKED and of.store == _BARE
    return f"{of.backing.value}{', replacing' if replaces else ''}{', no conditions' if bare else ''}"


def ladder(combinations: Sequence[tuple[str, Setting]], processes: int = 2) -> list[Rung]:
    """Explore every combination; several at a time, because they have nothing to do with each other."""
    # Spawned, not forked: a forked child would inherit whatever threads and locks the caller happens to have.
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        return list(pool.map(climb, *zip(*combinations, strict=True)))


def climb(environment: str, of: Model | Setting) -> Rung:
    """Explore one combination, judging everything. The ledger adds calls and no waiting, so it is healed without."""
    model = Model(of) if isinstance(of, Setting) else of
    exploration = explore(model, JUDGED)
    return Rung(environment, exploration, None if model.setting.ledger else heal(model), frozenset(model.fired))


def holes(found: Sequence[Rung]) -> dict[tuple[str, str, str], str]:
    """Give what was found broken: who promises, where, which clause; in how many steps without and with the ledger."""
    return {
        (backing, environment, clause): _lengths(clause, pair)
        for (backing, environment), pair in _pairs(found)
        for clause in sorted({clause for rung in pair for clause in rung.broken()})
    }


def ladder_text(found: Sequence[Rung]) -> str:
    """Write the ladder as Markdown."""
    text = [
        HEADER,
        f"| {' | '.join(COLUMNS)} |",
        f"|{'---|' * len(COLUMNS)}",
        *lines(found),
        "",
        *_explored(found),
        "",
        "## Properties",
        "",
        "What each column says; `properties.md` says who else looks after a clause.",
        "",
        *(f"* **{each.id}** ({each.when.value}): {each.says}." for each in _SAFETY),
        *(f"* **{each.id}** (eventually): {each.says}." for each in (REST, *LEADS)),
        "",
        "## Bounds",
        "",
        *(f"* *{name}*: {bounds}." for name, bounds in _bounds(found).items()),
        "",
        FOOTER,
    ]
    return "\n".join(text)


def lines(found: Sequence[Rung]) -> Iterator[str]:
    """Write what was explored of each backing in each environment, with and without the ledger, as a line."""
    broken = holes(found)
    for (backing, environment), pair in _pairs(found):
        lengths = {clause: broken.get((backing, environment, clause), "") for clause in _CLAUSES}
        cells = [lengths[each.id] or "·" for each in PROPERTIES]
        cells += [
            ", ".join(f"{each} {lengths[each]}" for each in group if lengths[each]) or "·" for group in GROUPS.values()
        ]
        sizes = " / ".join(_size(rung.exploration) for rung in pair)
        bounds = " / ".join(str(rung.healing.bound) for rung in pair if rung.healing)
        yield f"| `{backing}` | {environment} | {' | '.join(cells)} | {bounds} | {sizes} |"


def fired(found: Sequence[Rung]) -> frozenset[str]:
    """Return the rows of the attempt's table that fire anywhere on the ladder."""
    return frozenset[str]().union(*(each.rows for each in found))


def _explored(found: Sequence[Rung]) -> Iterator[str]:
    """Say how much of the table, and of a workflow, these worlds show, and name every row they do not."""
    settings = [each.exploration.setting for each in found]
    rows = ATTEMPT.definition.rows
    seen = fired(found)
    bounds = {name: max(getattr(each, name) for each in settings) for name in ("workflows", "steps", "attempts")}
    yield EXPLORED.format(fired=len(seen), rows=len(rows), **bounds)
    yield "| Row that fires in no explored world | Why |"
    yield "|---|---|"
    for each in rows:
        if each.id not in seen:
            yield f"| {each.id} | {UNREACHED.get(each.id, 'another environment fires it')} |"


def _pairs(found: Sequence[Rung]) -> Iterator[tuple[tuple[str, str], list[Rung]]]:
    """Return what was explored without and with the ledger together."""
    for key, pair in groupby(found, lambda rung: (named(rung.exploration.setting), rung.environment)):
        yield key, list(pair)


def _lengths(clause: str, pair: Sequence[Rung]) -> str:
    """Return the lengths of the traces without and with the ledger, or nothing if the clause holds."""
    judged = [rung for rung in pair if rung.healing is not None or clause not in GROUPS["liveness"]]
    lengths = [str(rung.broken().get(clause, "·")) for rung in judged]
    return " / ".join(lengths) if set(lengths) - {"·"} else ""


def _size(exploration: Exploration) -> str:
    return f"{exploration.distinct:,}" if exploration.complete else f"{exploration.distinct:,} (stopped)"


def _bounds(found: Sequence[Rung]) -> dict[str, str]:
    known = {rung.environment: rung.exploration.setting.bounds().partition(": ")[2] for rung in found}
    return {name: known[name] for name in (*ENVIRONMENTS, *SHARED) if name in known}
