"""The order of steps as the driver carries it out: judged on the calls that reach the ports, whatever goes wrong.

Each call of each kind of attempt is refused, lost, dropped, delayed or overtaken once. What the clauses say of the
table (``perago_simulation.properties.order``) holds of these calls too, and each clause notices drivers that are wrong.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, TypeAlias

import pytest
from attrs import define, field

from perago_core import Ports, adrive, drive
from perago_core.budget import PublishBudget
from perago_core.driver import run
from perago_core.failpoints import Edge, Failpoint, Reached
from perago_core.lease.run import Keeper
from perago_core.results import Completed
from perago_core.values import Attempt, Backing, OnAbandoned
from perago_simulation.ports import Asynchronous, Body, Fault
from perago_simulation.properties.call_order import CALL_CLAUSES, Made, Recorded, broken_orders
from perago_simulation.properties.order import CLAUSES
from tests.core.world import World, changes_nothing, writes
from tests.core.wrong_drivers import WRONG_DRIVERS, WrongDriver, noticed_alone
from tests.support.crash.seeds import FULL

#: Of a lease of this length 12 s may pass unseen: it is due for renewal then, and long enough to publish under.
BUDGET = PublishBudget(lease_ttl=30.0)
PATIENCE = 60.0

#: What happens to a world at one edge of one call.
Trouble: TypeAlias = Callable[[World, Failpoint], object]


def _fault(fault: Fault, world: World, point: Failpoint) -> None:
    world.fail(f"{point.port}.{point.method}", fault)


def _passes(seconds: float, world: World, _point: Failpoint) -> None:
    world.clock().sleep(seconds)


def _given_up(world: World, _point: Failpoint) -> None:
    world.give_up_open_tasks()


#: By the number of a call, what may happen there.
Troubles: TypeAlias = Callable[[int], Sequence[tuple[Edge, Trouble]]]
#: What tells wrong drivers from right ones.
TELLING = (
    (Edge.BEFORE, partial(_fault, Fault.DROPPED)),
    (Edge.BEFORE, partial(_fault, Fault.LANDED)),
    (Edge.BEFORE, _given_up),
    (Edge.AFTER, partial(_passes, 40.0)),
)
EVERY = (*TELLING, (Edge.BEFORE, partial(_fault, Fault.REFUSED)), (Edge.AFTER, partial(_passes, 12.0)))


def _in_turn(number: int) -> Sequence[tuple[Edge, Trouble]]:
    """One trouble for each call, another one for the next; all of them for each with ``PERAGO_MATRIX=full``."""
    return EVERY if FULL else EVERY[number % len(EVERY) :][:1]


def _telling(_number: int) -> Sequence[tuple[Edge, Trouble]]:
    return TELLING


CONDUCTS = [
    (backing, ledger, on_abandoned)
    for backing in Backing
    for ledger in (False, True)
    for on_abandoned in OnAbandoned
    if backing is not Backing.SOFT or on_abandoned is OnAbandoned.REPLACE
]


@define
class Beside:
    """Something that keeps a lease alive beside the attempt: it is told when time has passed, and tends by itself."""

    ports: Ports
    keepers: list[Keeper] = field(factory=list[Keeper])

    def lock(self) -> AbstractContextManager[object]:
        return nullcontext()

    def keep(self, keeper: Keeper) -> None:
        self.keepers.append(keeper)

    def tend(self, _world: World, _point: Failpoint) -> None:
        for keeper in self.keepers:
            run(keeper.tend(), self.ports)


def driven(
    world: World,
    attempt: Attempt,
    reached: Reached | None = None,
    beside: Beside | None = None,
    *,
    sync: bool = True,
) -> list[Made]:
    """Drive an attempt whose heart beats to its end, and give the calls that reached its ports."""
    made: list[Made] = []
    named = ("orchestrator", "store", "workspace", "coordination", "clock")
    ports: dict[str, Any] = {name: Recorded(name, getattr(world, name)(), world.clock(), made) for name in named}
    if not sync:
        ports = {name: Asynchronous(port) for name, port in ports.items()}

    def until() -> float:
        return world.clock().now() + PATIENCE

    carried = Ports(**ports, reached=reached)
    if sync:
        drive(attempt, carried, attempt_until=until, background=beside)
    else:
        asyncio.run(adrive(attempt, carried, attempt_until=until, background=beside))
    return made


def at_call(number: int, edge: Edge, world: World, trouble: Trouble) -> Reached:
    """Let the trouble come at this edge of the call with this number."""
    calls = iter(range(100_000))

    def reached(point: Failpoint) -> None:
        if point.edge is edge and next(calls) == number:
            trouble(world, point)

    return reached


def scenes(
    backing: Backing, body: Body, *, ledger: bool, on_abandoned: OnAbandoned
) -> Iterator[Callable[[], tuple[World, Attempt]]]:
    """Give how to begin: with a first attempt, and with one that follows a publication that nobody reported."""

    def scene(*, abandoned: bool) -> tuple[World, Attempt]:
        world = World()
        if abandoned:
            world.abandon(backing, ledger=ledger)
        more: dict[str, Any] = {"ledger": ledger, "on_abandoned": on_abandoned, "budget": BUDGET, "body": body}
        return world, world.attempt(2 if abandoned else 1, backing, **more)

    return (partial(scene, abandoned=abandoned) for abandoned in (False, True))


def all_driven(
    backing: Backing, body: Body, troubles: Troubles, *, ledger: bool, on_abandoned: OnAbandoned
) -> Iterator[tuple[Attempt, list[Made]]]:
    """Give the calls of every scene, left alone and with each trouble at each call."""
    for scene in scenes(backing, body, ledger=ledger, on_abandoned=on_abandoned):
        world, attempt = scene()
        undisturbed = driven(world, attempt)
        yield attempt, undisturbed
        for number in range(len(undisturbed)):
            for edge, trouble in troubles(number):
                world, attempt = scene()
                yield attempt, driven(world, attempt, at_call(number, edge, world, trouble))


def wants_to_write(files: Any) -> Iterator[None]:  # noqa: ANN401  a mapping from paths to bytes
    """Be a body that wants a place to write while it runs."""
    yield
    files["data"] = b"early"


@pytest.mark.clause("S-05", "S-07", "S-08", "S-09", "S-18", "S-24", "S-30")
@pytest.mark.parametrize("body", [writes(), changes_nothing, wants_to_write], ids=["writes", "no-op", "writes early"])
@pytest.mark.parametrize(
    ("backing", "ledger", "on_abandoned"),
    CONDUCTS,
    ids=lambda value: f"ledger-{value}" if isinstance(value, bool) else value.value,
)
def test_no_call_is_out_of_order_whatever_goes_wrong_at_any_call(
    backing: Backing, ledger: bool, on_abandoned: OnAbandoned, body: Body
) -> None:
    sent = 0
    for attempt, made in all_driven(backing, body, _in_turn, ledger=ledger, on_abandoned=on_abandoned):
        assert broken_orders(attempt, made) == (), [each.name for each in made]
        sent += any(each.name == "store.publish" for each in made)
    # Who changes nothing, or adopts, publishes in one of the two scenes; no-ops that adopt in none.
    assert sent or (body is changes_nothing and on_abandoned is OnAbandoned.ADOPT)


@pytest.mark.parametrize(
    ("backing", "ledger", "on_abandoned"),
    CONDUCTS,
    ids=lambda value: f"ledger-{value}" if isinstance(value, bool) else value.value,
)
def test_the_asynchronous_driver_makes_the_same_calls_at_the_same_times(
    backing: Backing, ledger: bool, on_abandoned: OnAbandoned
) -> None:
    """So what is judged of one driver is judged of both; also where a call is made again."""
    for scene in scenes(backing, writes(), ledger=ledger, on_abandoned=on_abandoned):
        for fault in (None, Fault.DROPPED):
            world, attempt = scene()
            world.fail("store.head", fault)
            other, same = scene()
            other.fail("store.head", fault)
            made = driven(world, attempt)
            told = [(each.name, each.at) for each in made]
            assert told == [(each.name, each.at) for each in driven(other, same, sync=False)]
            assert broken_orders(attempt, made) == ()


@pytest.mark.clause("S-09")
def test_a_lease_that_is_kept_beside_the_attempt_is_not_tended_by_it_between_seeing_and_sending() -> None:
    """A renewal is due there and is made, but not in the line of calls that has a plan to send."""
    world, attempt = next(scenes(Backing.LOCKED, writes(), ledger=False, on_abandoned=OnAbandoned.REPLACE))()
    renewals: list[Made] = []
    coordination: Any = Recorded("coordination", world.coordination(), world.clock(), renewals)
    beside = Beside(
        Ports(orchestrator=None, store=None, workspace=None, coordination=coordination, clock=world.clock())
    )

    def reached(point: Failpoint) -> None:
        if str(point) == "store.head.after" and not renewals:
            world.clock().sleep(12.0)
            beside.tend(world, point)

    made = driven(world, attempt, reached, beside)
    assert [each.name for each in renewals] == ["coordination.keep_alive"]
    assert broken_orders(attempt, made) == ()
    (reported,) = [each for each in made if each.name == "orchestrator.report"]
    assert isinstance(reported.args[1], Completed)


@pytest.mark.parametrize("wrong", WRONG_DRIVERS, ids=lambda wrong: wrong.id)
def test_a_wrong_driver_is_noticed_by_its_clause_and_by_no_other(wrong: WrongDriver) -> None:
    body = writes() if wrong.changes else changes_nothing
    broken: set[str] = set()
    with wrong.put_in():
        for attempt, made in all_driven(
            wrong.backing, body, _telling, ledger=wrong.ledger, on_abandoned=OnAbandoned.REPLACE
        ):
            broken.update(broken_orders(attempt, made))
    assert broken == {*wrong.clauses}


def test_every_clause_on_calls_notices_a_wrong_driver_that_no_other_notices() -> None:
    alone = {clause for clause, _ in noticed_alone()}
    assert alone == {each.id for each in CALL_CLAUSES}
    assert {each.id for each in CLAUSES} <= alone
