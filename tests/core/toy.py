"""A small machine that has one of everything: a read, an effect, an interrupt, guards over one and over two facts.

It bakes bread. The dough is kneaded (a wait: no middle answer), then baked (an effect: three answers). The bell may
ring while it is in the oven.
"""

from __future__ import annotations

from enum import Enum
from typing import ClassVar

from attrs import evolve, field, frozen

from perago_core.answers import Event, NotDone, Unknown
from perago_core.machine.rows import ALWAYS, Ask, Command, Definition, Fact, On, State, asks, effect, read, wait, when
from perago_core.value import Value


class Phase(Enum):
    DOUGH = "the dough"
    OVEN = "the oven"
    DONE = "nothing more"


class Elsewhere(Enum):
    """Phases of no machine."""

    NOWHERE = "nowhere"


@frozen(cache_hash=True, repr=False)
class Recipe(Value):
    flour: str = "enough"
    guests: str = "no"


@frozen(cache_hash=True, repr=False)
class Known(Value):
    rings: int = 0


class Kneaded(Event):
    __slots__ = ()


@frozen(cache_hash=True, repr=False)
class Baked(Event):
    crust: str


class Rang(Event):
    __slots__ = ()


class Knead(Command):
    __slots__ = ()
    answers: ClassVar = read(Kneaded)


@frozen(cache_hash=True, repr=False)
class Bake(Command):
    degrees: int = field()
    answers: ClassVar = effect(Baked)


@asks(Knead)
def knead(_recipe: Recipe, _known: Known, _event: Event | None) -> Knead:
    return Knead()


@asks(Bake)
def bake(_recipe: Recipe, known: Known, _event: Event) -> Bake:
    return Bake(200 + known.rings)


FACTS = (
    Fact("flour", ("enough", "little"), lambda recipe, _known, _event: recipe.flour),
    Fact("guests", ("yes", "no"), lambda recipe, _known, _event: recipe.guests),
    Fact("crust", ("golden", "pale", "black"), lambda _recipe, _known, event: event.crust),
    Fact("patience", ("left", "gone"), lambda _recipe, known, _event: "left" if known.rings < 2 else "gone"),
)

TABLE = (
    wait(Phase.DOUGH, Knead,
        On("D1", Kneaded, when(flour="enough"), Phase.OVEN, bake),
        On("D2", Kneaded, when(flour="little"), Phase.DOUGH, knead, note="it sticks: once more"),
        On("D3", Unknown, ALWAYS, Phase.DONE),
    ),

    wait(Phase.OVEN, Bake,
        On("O1", Baked, when(crust="golden"), Phase.DONE),
        On("O2", Baked, when(crust=("pale", "black"), guests="no"), Phase.DONE),
        On("O3", Baked, when(crust=("pale", "black"), guests="yes"), Phase.DOUGH, knead),
        On("O4", NotDone, ALWAYS, Phase.DOUGH, knead),
        On("O5", Unknown, ALWAYS, Phase.DONE),

        On("R1", Rang, when(patience="left"), Phase.OVEN),
        On("R2", Rang, when(patience="gone"), Phase.OVEN, bake),
    ),
)  # fmt: skip
ROWS = tuple(row for each in TABLE for row in each.rows)


def _opening(_recipe: Recipe) -> tuple[Phase, Known, Ask]:
    return Phase.DOUGH, Known(), knead


def _rang(state: State[Recipe, Known], _event: Rang) -> Known:
    return evolve(state.known, rings=state.known.rings + 1)


TOY: Definition[Recipe, Known] = Definition(
    name="toy",
    phases=Phase,
    initial=(Phase.DOUGH,),
    terminal=frozenset({Phase.DONE}),
    facts=FACTS,
    table=TABLE,
    remember={Rang: _rang},
    opening=_opening,
    interrupts=(Rang,),
)
