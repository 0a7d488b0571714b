"""What a campaign came to: how the schedules ended, what broke and how to see it again, which faults were met where."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable

from attrs import field, frozen

from perago_core.value import Value
from perago_simulation.campaign.folder import Folder
from perago_simulation.campaign.outcomes import Arrow, arrow


@frozen(repr=False)
class BrokenProperty(Value):
    """A property that broke: in how many schedules, and the shortest of them."""

    property: str
    schedules: int
    seed: int
    steps: int
    line: str


@frozen(repr=False)
class Summary(Value):
    """``digest`` is of all schedules in order: equal for equal campaigns, whoever has made them in which pieces."""

    schedules: int
    steps: int
    digest: str
    outcomes: dict[str, int]
    faults: dict[str, int]
    broken: tuple[BrokenProperty, ...] = field(default=())


def summarise(folder: Folder, schedules: int) -> Summary:
    """Read the outcomes once, one file at a time."""
    pc = arrow("pyarrow.compute")
    made = steps = 0
    digest = hashlib.sha256()
    outcomes, faults, violations = Counter[str](), Counter[str](), Counter[str]()
    shortest: dict[str, BrokenProperty] = {}
    for table in folder.tables(schedules):
        made += table.num_rows
        steps += pc.sum(table["steps"]).as_py() or 0
        digest.update(table["digest"].to_numpy().astype("<i8").tobytes())
        outcomes.update(_counted(table["outcome"]))
        faults.update(_counted(pc.list_flatten(table["faults"])))
        for found in _broken(table.filter(pc.is_valid(table["violation"]))):
            violations[found.property] += 1
            best = shortest.get(found.property)
            if best is None or (found.steps, found.seed) < (best.steps, best.seed):
                shortest[found.property] = found
    broken = tuple(
        BrokenProperty(each, number, shortest[each].seed, shortest[each].steps, shortest[each].line)
        for each, number in sorted(violations.items())
    )
    return Summary(made, steps, digest.hexdigest()[:32], _sorted(outcomes), _sorted(faults), broken)


def _counted(column: Arrow) -> dict[str, int]:
    return {each["values"]: each["counts"] for each in arrow("pyarrow.compute").value_counts(column).to_pylist()}


def _broken(table: Arrow) -> Iterable[BrokenProperty]:
    columns = (table[name].to_pylist() for name in ("violation", "seed", "steps", "line"))
    for violation, seed, steps, line in zip(*columns, strict=True):
        yield BrokenProperty(violation, 1, seed, steps, line)


def _sorted(counted: Counter[str]) -> dict[str, int]:
    return dict(sorted(counted.items(), key=lambda each: (-each[1], each[0])))
