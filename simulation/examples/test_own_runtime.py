"""Your own runtime under test: whatever steps an attempt, tried against everything that can go wrong.

Run it with ``pytest simulation/examples/test_own_runtime.py``.
"""

# ruff: noqa: INP001  an example, not a package
from __future__ import annotations

from perago_core import step
from perago_core.answers import Event
from perago_core.attempt import ATTEMPT, AttemptState, Known
from perago_core.machine import codec
from perago_core.machine.rows import Step
from perago_core.values import Attempt, Backing
from perago_simulation.runs.embedding import Embedded
from perago_simulation.testing import strategies
from perago_simulation.testing.state_machine import WorldMachine
from perago_simulation.testing.trial import Trial
from perago_simulation.world.model import Model
from perago_simulation.world.settings import Setting, setting


def stored_step(state: AttemptState, event: Event) -> Step[Attempt, Known]:
    """Step as a worker does that writes its state down after each step, and reads it again before the next."""
    return step(codec.load_state(codec.dumps(state), ATTEMPT), event)


def test_my_runtime_keeps_the_promises(perago: Trial) -> None:
    """Every world within the bounds, then random runs in a world too big to explore."""
    perago.explore(Embedded(setting(Backing.CONDITIONAL, attempts=1, losses=1), runtime=stored_step))
    perago.simulate(Embedded(setting(Backing.LOCKED, ledger=True, losses=2, duplicates=1), runtime=stored_step))


class MyRuntime(WorldMachine):
    """Hypothesis looks for trouble in settings it chooses itself."""

    where = strategies.settings([Backing.CONDITIONAL, Backing.LOCKED])

    def model(self, of: Setting) -> Model:
        """Try the runtime in the setting that was drawn."""
        return Embedded(of, runtime=stored_step)


TestMyRuntime = MyRuntime.TestCase
