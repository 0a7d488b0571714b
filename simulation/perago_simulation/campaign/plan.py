"""What a campaign is: schedules numbered from 0, each a pure function of its number and of what stands here.

So it does not matter who makes a schedule, where, how often and beside which others: its outcome is the same. A task
that is retried, run twice or lost does no harm, and a campaign that was stopped goes on with what is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from attrs import asdict, field, frozen

from perago_core.value import Value, count, text
from perago_simulation.properties.safety import PROPERTIES
from perago_simulation.runs.embedding import Embedded, import_runtime, import_store
from perago_simulation.runs.replay import EVERYTHING, line_of
from perago_simulation.runs.schedule import Pct, Scheduler, Swarm, Weighted, WorldCache
from perago_simulation.world.settings import Setting

#: Who chooses what happens next, by name.
SCHEDULERS: Mapping[str, type[Weighted | Swarm | Pct]] = {"weighted": Weighted, "swarm": Swarm, "pct": Pct}
#: The schedules from the first number up to, but without, the second.
Range: TypeAlias = tuple[int, int]


@frozen(cache_hash=True, repr=False, kw_only=True)
class Campaign(Value):
    """Everything the outcome of a schedule depends on, beside its number. ``store`` and ``runtime`` are names."""

    setting: Setting
    store: str | None = None
    runtime: str | None = None
    scheduler: str = field(default="swarm", validator=text)
    seed: int = 0
    moves: int = field(default=200, validator=count)
    everything: bool = False

    def model(self) -> Embedded:
        """Make the model."""
        return Embedded(
            self.setting,
            store=None if self.store is None else import_store(self.store),
            runtime=None if self.runtime is None else import_runtime(self.runtime),
        )

    def worlds(self) -> WorldCache:
        """Return where its schedules are run."""
        return WorldCache(self.model(), EVERYTHING if self.everything else PROPERTIES)

    def chooser(self) -> Scheduler:
        """Return who chooses."""
        return SCHEDULERS[self.scheduler](self.seed)

    def document(self) -> dict[str, Any]:
        """Say which campaign it is; the line holds the setting, the store, the runtime and the digest of the table."""
        fields = asdict(self, filter=lambda each, _: each.name in {"scheduler", "seed", "moves", "everything"})
        return {"format": 1, "of": line_of(self.model(), ()), **fields}


def cut(ranges: Iterable[Range], size: int) -> Iterator[Range]:
    """Cut ranges into pieces of at most this size."""
    for start, stop in ranges:
        for at in range(start, stop, size):
            yield at, min(at + size, stop)


def missing(done: Iterable[Range], schedules: int) -> Iterator[Range]:
    """Return the ranges below ``schedules`` that nobody has done."""
    at = 0
    for start, stop in sorted(done):
        if start > at:
            yield at, min(start, schedules)
        at = max(at, stop)
        if at >= schedules:
            return
    if at < schedules:
        yield at, schedules
