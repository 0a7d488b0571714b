"""A small machine that has one of everything: a read, an effect, an interrupt, guards over one and over two facts.

It bakes bread. The dough is kneaded (a wait: no middle answer), then baked (an effect: three answers). The bell may
ring while it is in the oven.
"""

from __future__ import annotations

from enum import Enum
from typing import ClassVar

from attrs import evolve, field, frozen

from perago_core.machine.rows import ALWAYS, Answers, Ask, Command, Definition, Event, Fact, Row, State, asks, when
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


class KneadUnknown(Event):
    __slots__ = ()


@frozen(cache_hash=True, repr=False)
class Baked(Event):
    crust: str


class BakeRefused(Event):
    __slots__ = ()


class BakeUnknown(Event):
    __slots__ = ()


class Rang(Event):
    __slots__ = ()


class Knead(Command):
    __slots__ = ()
    answers: ClassVar = Answers((Kneaded,), (KneadUnknown,), repeatable=True)


@frozen(cache_hash=True, repr=False)
class Bake(Command):
    degrees: int = field()
    answers: ClassVar = Answers((Baked,), (BakeUnknown,), (BakeRefused,))


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

ROWS = (
    Row("D1", Phase.DOUGH, Kneaded, when(flour="enough"), Phase.OVEN, bake),
    Row("D2", Phase.DOUGH, Kneaded, when(flour="little"), Phase.DOUGH, knead, note="it sticks: once more"),
    Row("D3", Phase.DOUGH, KneadUnknown, ALWAYS, Phase.DONE),

    Row("O1", Phase.OVEN, Baked, when(crust="golden"), Phase.DONE),
    Row("O2", Phase.OVEN, Baked, when(crust=("pale", "black"), guests="no"), Phase.DONE),
    Row("O3", Phase.OVEN, Baked, when(crust=("pale", "black"), guests="yes"), Phase.DOUGH, knead),
    Row("O4", Phase.OVEN, BakeRefused, ALWAYS, Phase.DOUGH, knead),
    Row("O5", Phase.OVEN, BakeUnknown, ALWAYS, Phase.DONE),

    Row("R1", Phase.OVEN, Rang, when(patience="left"), Phase.OVEN),
    Row("R2", Phase.OVEN, Rang, when(patience="gone"), Phase.OVEN, bake),
)  # fmt: skip


def _opening(_recipe: Recipe) -> tuple[Known, Ask]:
    return Known(), knead


def _rang(state: State[Recipe, Known], _event: Rang) -> Known:
    return evolve(state.known, rings=state.known.rings + 1)


TOY: Definition[Recipe, Known] = Definition(
    name="toy",
    phases=Phase,
    initial=Phase.DOUGH,
    terminal=frozenset({Phase.DONE}),
    facts=FACTS,
    rows=ROWS,
    waits={Phase.DOUGH: (Knead,), Phase.OVEN: (Bake,)},
    remember={Rang: _rang},
    opening=_opening,
    interrupts=(Rang,),
)
