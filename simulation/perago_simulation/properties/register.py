"""The register: every clause S-01 to S-43 and L-01 to L-10 exactly once, and who looks after it.

A clause is looked after by explored properties (``explored``, ids of ``JUDGED`` and of ``liveness.LEADS``), by clauses
on the order of steps (``order``, ids of ``order.CLAUSES``, which hold on every way through the table) and of the calls
that are really made (``calls``, ids of ``call_order.CALL_CLAUSES``), by tests, which say so themselves (``@pytest.mark.clause("S-12")``), or by somebody outside this project's reach (``elsewhere``).
"""

# ruff: noqa: E501  one clause, a few lines
from __future__ import annotations

from enum import Enum

from attrs import frozen

from perago_core.value import Value
from perago_simulation.properties.conduct import CONDUCT
from perago_simulation.properties.leftovers import LEFTOVERS
from perago_simulation.properties.safety import PROPERTIES, Property
from perago_simulation.properties.sharing import SHARING

#: Everything that is judged in a world. Conduct first: it shows a mistake before the branch does.
JUDGED: tuple[Property, ...] = (*CONDUCT, *LEFTOVERS, *PROPERTIES, *SHARING)
#: What is promised of the branch and its history.
OF_THE_BRANCH: tuple[Property, ...] = (*PROPERTIES, *SHARING)


class Kind(Enum):
    """When a clause holds: in every world, once nothing is left to do, in the end, or by how the code is made."""

    ALWAYS = "always"
    AT_REST = "at rest"
    EVENTUALLY = "eventually"
    STRUCTURAL = "structural"


@frozen(repr=False)
class Clause(Value):
    """One clause of the protocol, and who looks after it."""

    id: str
    says: str
    kind: Kind
    explored: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    elsewhere: str = ""


A, R, E, S = Kind.ALWAYS, Kind.AT_REST, Kind.EVENTUALLY, Kind.STRUCTURAL

# fmt: off
REGISTER = (
    Clause("S-01", "Every accepted result stays on the branch.", A, ("S-01",)),
    Clause("S-02", "At rest at most one abandoned publication lies above what was accepted, and none once the workflow is done.", R, ("S-02", "S-02b")),
    Clause("S-03", "No unaccepted commit lies inside accepted history.", A, ("S-03",)),
    Clause("S-04", "A publication stands directly on its input.", A, ("S-04", "S-04b")),
    Clause("S-05", "No success is reported out of doubt.", A, ("S-05",), ("S-05b",), ("S-05b", "S-05c")),
    Clause("S-06", "An output is the input, or what the reporting execution made, or what it adopted of its own task.", A, ("S-06", "S-06b")),
    Clause("S-07", "Nobody but the live execution reports for an attempt; recovery cannot.", S, order=("S-07",), calls=("S-07", "S-07b")),
    Clause("S-08", "Every publication follows an attempt fence later than its name.", S, order=("S-08", "S-08a", "S-08b", "S-08c"), calls=("S-08", "S-08a", "S-08b", "S-08c")),
    Clause("S-09", "Nothing is asked between observing the head and sending the plan.", S, order=("S-09",), calls=("S-09",)),
    Clause("S-10", "A read-only execution touches nothing.", S),
    Clause("S-11", "No object write, delete or commit names the target branch.", S, ("S-11",)),
    Clause("S-12", "A no-op makes no commit.", A, ("S-12",)),
    Clause("S-13", "Who refuses the head leaves it alone and has no output.", A, ("S-13",)),
    Clause("S-14", "The decision is total and deterministic, and reads nothing that people write.", S),
    Clause("S-15", "A stranger's commit stays on the branch.", A, ("S-15",)),
    Clause("S-16", "No relocation is sent over what may be alive.", A, ("S-16",)),
    Clause("S-17", "At most one execution of a task publishes.", A, ("S-17",)),
    Clause("S-18", "An intent is durable before its publication is sent, and no open one is passed.", A, ("S-18",), ("S-18b",), ("S-18", "S-18b")),
    Clause("S-19", "An intent is settled for what it is.", A, ("S-19",)),
    Clause("S-20", "Several targets of one intent are settled together or not at all.", A),
    Clause("S-21", "Settlement is monotone and idempotent, with one audit record.", A),
    Clause("S-22", "Recovery that only settles leaves the living alone and moves nothing.", A),
    Clause("S-23", "Two executions never both believe to hold one lock, within the bound on clock rates.", A),
    Clause("S-24", "Nothing is sent under a lost lock, and nothing is done before the takeover wait.", A, ("S-24",), ("S-24b",), ("S-24", "S-24b")),
    Clause("S-25", "A lost lock is lost for good.", A),
    Clause("S-26", "Whoever publishes at the same time uses the same backing and epoch.", A),
    Clause("S-27", "The first stored decision of an epoch stands.", A),
    Clause("S-28", "Nobody decides alone, unless the policy needs nobody.", A),
    Clause("S-29", "Probing and storing have budgets of their own.", A),
    Clause("S-30", "Revocation is final once a newer attempt has published.", A, ("S-30",), calls=("S-30b", "S-30c")),
    Clause("S-31", "No two executions ever make the same name, and a name that exists refuses.", S),
    Clause("S-32", "Clean-up changes no result, moves nothing and touches nobody else's name.", A, ("S-32",)),
    Clause("S-33", "At rest nothing is left by an execution that was not killed.", R, ("S-33", "S-33b", "S-33c", "S-33d")),
    Clause("S-34", "Collection takes nothing that an open attempt, an accepted result or an open intent still needs.", A, ("S-34",)),
    Clause("S-35", "Maintenance never takes a commit off the target, and is done once its goal is met.", A),
    Clause("S-36", "Only a pre-check or the body itself ends a task for good.", S),
    Clause("S-37", "A success has an output and no reason; a failure has a reason and no output.", S),
    Clause("S-38", "Calls per path do not grow with history, branches or settled intents.", S),
    Clause("S-39", "The same events give the same commands, with any implementation of the ports.", S),
    Clause("S-40", "Who loses the claim never reports.", A, ("S-40",)),
    Clause("S-41", "All that is accepted for one logical task is one result.", A, ("S-41",)),
    Clause("S-42", "What is accepted is serialisable over what it declares to read and to write.", A, ("S-42",)),
    Clause("S-43", "Nothing unaccepted is read by what is accepted.", A, ("S-43",)),
    Clause("L-01", "Every attempt ends, or its worker is dead and the orchestrator gives it up.", E, ("L-01",)),
    Clause("L-02", "An attempt that is left alone is accepted, whatever went wrong before.", E, ("L-02", "L-02b", "C8")),
    Clause("L-03", "One abandoned publication never blocks the next attempt; two refuse, and both heads are named.", E, ("L-03",)),
    Clause("L-04", "After a holder dies another gets the lease.", E),
    Clause("L-05", "Policy resolution ends within its budgets.", E),
    Clause("L-06", "Every intent is settled once its attempt has ended and somebody sweeps.", E),
    Clause("L-07", "Sweeps at the same time all end.", E),
    Clause("L-08", "An unresolved intent blocks its own targets only.", E),
    Clause("L-09", "A stop request drains: no new poll, and the running attempt ends or is killed at its deadline.", E,
           elsewhere="a duty of the runtime, which polls and kills (RT-9); a stop is no event of the machine"),
    Clause("L-10", "No state is a silent dead end: every refusal names what was expected, what was found and what to do.", A, ("L-10",)),
)
# fmt: on
