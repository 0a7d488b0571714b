"""A run as a Mermaid sequence diagram, which code hosts draw."""

from __future__ import annotations

from collections.abc import Iterator

from perago_report.scenes import Scene, Story
from perago_report.sentences import STORE


def sequence(told: Story) -> str:
    """Draw a run: a participant per lane, a message or a note per step, and at the end of it what is broken."""
    return "".join(f"{line}\n" for line in _lines(told))


def _lines(told: Story) -> Iterator[str]:
    title = f"{told.property} {told.clause}".strip()
    yield "sequenceDiagram"
    if title:
        yield f"    title {_safe(title)}"
    for lane in told.lanes:
        yield f"    participant {_id(lane)} as {_safe(lane)}"
    for scene in told.scenes:
        yield f"    {_step(scene)}"
        if scene.number == told.breaks:
            yield f"    Note over {_id(told.lanes[0])},{_id(told.lanes[-1])}: {_safe(f'BROKEN: {told.problem}')}"
    yield f"    %% {_safe(told.bounds)}; table {_safe(told.table)}"


def _step(scene: Scene) -> str:
    rows = f" [{' '.join(row.id for row in scene.rows)}]" if scene.rows else ""
    label = _safe(f"{scene.number}. {scene.says}{rows}")
    if not scene.peer:
        return f"Note over {_id(scene.lane)}: {label}"
    # A publication is sent and not waited for here: it lands when the store gets to it. Questions are dotted.
    arrow = "-)" if scene.peer == STORE and scene.label[1] == "Publish" else "-->>" if scene.inward else "->>"
    return f"{_id(scene.lane)}{arrow}{_id(scene.peer)}: {label}"


def _id(lane: str) -> str:
    return "".join(each if each.isalnum() else "_" for each in lane)


def _safe(text: str) -> str:
    """Take the meaning from what Mermaid would read as its own: entities, ends of statements, new lines, markup."""
    special = {"#": "#35;", ";": "#59;", "<": "#lt;", ">": "#gt;", "\n": " ", "\r": " "}
    return "".join(special.get(each, each) for each in text)
