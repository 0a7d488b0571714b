"""A run as aligned columns: one line per step, dense, with a legend. For terminals and for logs."""

from __future__ import annotations

from collections.abc import Sequence

from perago_report.scenes import Line, Scene, Story

_LEGEND = (
    ("lanes", "* who acts, < or > the other end of what is sent, | alive, x dead"),
    ("row", "the row of the attempt's table that fired"),
    ("names", "staging names and where they point"),
    ("requests", "publications in flight: + begun by the store, ? nobody waits for the answer"),
    ("tasks", "what the orchestrator believes: = the accepted result"),
)
_HEADINGS = ("step", "lanes", "what happens", "row", "head", "names", "requests", "tasks")


def columns(told: Story) -> str:
    """Write a run as text: what is broken, within which bounds, a legend, a line per step."""
    lines = [*_title(told), ""]
    lines += [f"  {name:9} {means}" for name, means in _legend(told)]
    table = [_HEADINGS, *(_cells(told, scene) for scene in told.scenes)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines.append("")
    for number, cells in enumerate(table):
        padded = [cells[0].rjust(widths[0]), *(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))]
        del padded[1]
        mark = "  <-- broken here" if told.breaks and number == told.breaks else ""
        lines.append("  ".join(padded).rstrip() + mark)
    return "\n".join(lines) + "\n"


def _title(told: Story) -> list[str]:
    where = f"broken at step {told.breaks} of {len(told.scenes)}" if told.breaks else f"{len(told.scenes)} steps"
    what = f"{told.property} {told.clause}".strip()
    title = [f"{what}: {where}" if what else where]
    title += [f"  {told.problem}"] if told.problem else []
    return [*title, f"  {told.bounds}", f"  table {told.table}"]


def _legend(told: Story) -> Sequence[tuple[str, str]]:
    (first, means), *rest = _LEGEND
    return [(first, f"{' '.join(told.lanes)}: {means}"), *rest]


def _cells(told: Story, scene: Scene) -> tuple[str, ...]:
    return (
        str(scene.number),
        "".join(_mark(told, scene, lane) for lane in told.lanes),
        f"{scene.lane} {scene.says}",
        " ".join(row.id for row in scene.rows) or "-",
        scene.head,
        " ".join(f"{name}:{ref}" for name, ref in scene.names) or "-",
        " ".join(_request(line) for line in scene.requests) or "-",
        " ".join(_task(line) for line in scene.tasks) or "-",
    )


def _mark(told: Story, scene: Scene, lane: str) -> str:
    if lane == scene.lane:
        return "*"
    if lane == scene.peer:
        return "<" if told.lanes.index(lane) < told.lanes.index(scene.lane) else ">"
    fate = {line.name: line.standing for line in scene.runs}
    if lane in fate:
        return {"ended": " ", "dead": "x"}.get(fate[lane], "|")
    return " " if lane in told.executions else "|"


def _request(line: Line) -> str:
    return f"{line.name}:{line.text.split()[0]}{'+' * (line.standing == 'begun')}{'?' * ('nobody' in line.text)}"


def _task(line: Line) -> str:
    accepted = line.standing.removeprefix("accepted ")
    return f"{line.name}:{line.standing}" if accepted == line.standing else f"{line.name}={accepted}"
