"""A run as one HTML page: lanes, the commit graph at each step, what is broken. It needs no network and no server.

Style and script are inline and named by their hashes in the page's own security policy, so nothing else can run.
Pictures are SVG text, everything escaped.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from string import Template

from attrs import frozen

from perago_core.value import Value
from perago_report.scenes import CommitNode, Fired, Line, Scene, Standing, Story

#: A graph that is wider is not made smaller to fit, but can be moved.
_WIDE = 1200
#: How many hues the style sheet has for executions; then they begin again.
HUES = 6

_CHARACTER, _PADDING, _GAP, _LINE = 8.0, 30.0, 64.0, 82.0
_HEIGHT, _TOP, _EDGE, _NAME_CHARACTER = 34.0, 52.0, 14.0, 7.0

_CLASS: Mapping[Standing, str] = {
    Standing.BRANCH: "branch",
    Standing.LOST: "lost",
    Standing.STAGED: "staged",
    Standing.ABANDONED: "abandoned",
}


def hue(told: Story, lane: str) -> str:
    """Return the style class of a lane: a colour per execution, one each for strangers and faults, ink for the rest."""
    if lane in told.executions:
        return f"run-{told.executions.index(lane) % HUES}"
    return lane if lane in {"stranger", "fault"} else "plain"


# ---------------------------------------------------------------------------------------------------------------------
# The commit graph


@frozen(repr=False)
class Canvas(Value):
    """Where columns and lines are; the same for every step of a run, so that nothing jumps."""

    centres: tuple[float, ...]
    width: float
    height: float

    def spot(self, node: CommitNode) -> tuple[float, float]:
        """Return the centre of a commit."""
        return self.centres[node.place.column], _TOP + _HEIGHT / 2 + node.place.line * _LINE


def canvas(nodes: Sequence[CommitNode]) -> Canvas:
    """Make room for these commits, which are all there will ever be."""
    columns = max((node.place.column for node in nodes), default=0) + 1
    widths = [
        max((_width(node) for node in nodes if node.place.column == column), default=0) for column in range(columns)
    ]
    centres: list[float] = []
    at = _EDGE
    for width in widths:
        centres.append(at + width / 2)
        at += width + _GAP
    lines = max((node.place.line for node in nodes), default=0)
    return Canvas(tuple(centres), at - _GAP + _EDGE, _TOP + lines * _LINE + _HEIGHT + 34)


def commits(told: Story, scene: Scene, on: Canvas) -> str:
    """Draw the commits after a step."""
    nodes = {node.ref: node for node in scene.nodes}
    edges = [_edge(on, nodes[node.parent], node) for node in nodes.values() if node.parent]
    drawn = [_node(told, on, node) for node in nodes.values()]
    staging = "".join(f", {name} staging at {ref}" for name, ref in scene.names)
    label = escape(f"Commits after step {scene.number}: {told.branch} at {scene.head}{staging}")
    wide = " wide" if on.width > _WIDE else ""
    return (
        f'<svg class="graph{wide}" viewBox="0 0 {on.width:g} {on.height:g}" width="{on.width:g}" height="{on.height:g}"'
        f' role="img" aria-label="{label}">{"".join(edges)}{"".join(drawn)}</svg>'
    )


def _width(node: CommitNode) -> float:
    return max(len(node.ref) * _CHARACTER + _PADDING, 56)


def _edge(on: Canvas, parent: CommitNode, child: CommitNode) -> str:
    (x, y), (to_x, to_y) = on.spot(parent), on.spot(child)
    x, to_x = x + _width(parent) / 2, to_x - _width(child) / 2
    bend = (x + to_x) / 2
    path = f"M{x:g} {y:g}C{bend:g} {y:g} {bend:g} {to_y:g} {to_x:g} {to_y:g}"
    return f'<path class="edge {_CLASS[child.standing]}" d="{path}"/>'


def _node(told: Story, on: Canvas, node: CommitNode) -> str:
    x, y = on.spot(node)
    width = _width(node)
    marks = ("stranger" * node.stranger, "accepted" * node.accepted, "fresh" * node.fresh, "head" * node.head)
    classes = " ".join(("node", _CLASS[node.standing], hue(told, node.execution), *filter(None, marks)))
    whose = f"of {node.execution}" if node.execution else "of a stranger" if node.stranger else "the input"
    title = ", ".join((f"{node.ref}: {whose}", node.standing.value, *(("accepted",) if node.accepted else ())))
    corner = 3 if node.stranger else _HEIGHT / 2
    parts = [
        f"<title>{escape(title)}</title>",
        f'<rect x="{x - width / 2:g}" y="{y - _HEIGHT / 2:g}" width="{width:g}" height="{_HEIGHT:g}" rx="{corner:g}"/>',
        f'<text x="{x:g}" y="{y:g}">{escape(node.ref)}</text>',
    ]
    if node.accepted:
        parts.append(_badge(x + width / 2 - 5, y - _HEIGHT / 2 + 3, lost=node.standing is Standing.LOST))
    if node.head:
        parts.append(_flag(told.branch, x, y - _HEIGHT / 2))
    parts += [
        _name(name, hue(told, name), x + _aside(node.names, at), y + _HEIGHT / 2) for at, name in enumerate(node.names)
    ]
    return f'<g class="{classes}" data-ref="{escape(node.ref)}">{"".join(parts)}</g>'


def _badge(x: float, y: float, *, lost: bool) -> str:
    """A tick for what was accepted; a cross when it is not on the branch any more."""
    sign = f"M{x - 3:g} {y - 3:g}l6 6m0 -6l-6 6" if lost else f"M{x - 3.6:g} {y:g}l2.6 2.8l4.6 -5.4"
    return f'<g class="badge"><circle cx="{x:g}" cy="{y:g}" r="9"/><path d="{sign}"/></g>'


def _flag(branch: str, x: float, y: float) -> str:
    width = len(branch) * _CHARACTER + 22
    return (
        f'<g class="flag" data-x="{x:g}" data-y="{y:g}"><path d="M{x:g} {y - 16:g}V{y - 3:g}m-4 -5l4 5l4 -5"/>'
        f'<rect x="{x - width / 2:g}" y="{y - 40:g}" width="{width:g}" height="24" rx="5"/>'
        f'<text x="{x:g}" y="{y - 28:g}">{escape(branch)}</text></g>'
    )


def _name(name: str, colour: str, x: float, y: float) -> str:
    width = len(name) * _NAME_CHARACTER + 12
    return (
        f'<g class="name {colour}"><path d="M{x:g} {y + 3:g}v6"/>'
        f'<rect x="{x - width / 2:g}" y="{y + 9:g}" width="{width:g}" height="18" rx="9"/>'
        f'<text x="{x:g}" y="{y + 18:g}">{escape(name)}</text></g>'
    )


def _aside(names: Sequence[str], at: int) -> float:
    """Say how far from the middle a name stands, so that those of one commit stand side by side."""
    widths = [len(name) * _NAME_CHARACTER + 17 for name in names]
    return sum(widths[:at]) + widths[at] / 2 - sum(widths) / 2


# ---------------------------------------------------------------------------------------------------------------------
# Lanes. Positions are percentages, so that a row may be as high as its words need.


def lanes(told: Story, scene: Scene) -> str:
    """Draw a step's row: a line for each lane that exists, a mark where the step happens, an arrow to the other end."""
    places = {lane: (index + 0.5) * 100 / len(told.lanes) for index, lane in enumerate(told.lanes)}
    begun = {line.name for line in scene.runs}
    parts = [_life(told, lane, at, scene, begun) for lane, at in places.items()]
    here = places[scene.lane]
    if scene.peer:
        parts.append(_arrow(told, here, places[scene.peer], scene))
    shape = '<path class="cross" d="M-5 -5L5 5M5 -5L-5 5"/>' if scene.label[1] == "crash" else '<circle r="5.5"/>'
    parts.append(f'<svg class="mark {hue(told, scene.lane)}" x="{here:g}%" y="50%" overflow="visible">{shape}</svg>')
    return f'<span class="lanes" aria-hidden="true"><svg focusable="false">{"".join(parts)}</svg></span>'


def _life(told: Story, lane: str, at: float, scene: Scene, begun: set[str]) -> str:
    """A lane that is an execution begins when it is handed out and ends with it."""
    top, bottom = "0", "100%"
    if lane in told.executions:
        if lane not in begun:
            return ""
        if scene.peer == lane and scene.lane == "orchestrator":
            top = "50%"
        if lane not in scene.alive:
            if lane != scene.lane:
                return ""
            bottom = "50%"
    return f'<line class="life {hue(told, lane)}" x1="{at:g}%" x2="{at:g}%" y1="{top}" y2="{bottom}"/>'


def _arrow(told: Story, here: float, there: float, scene: Scene) -> str:
    start, end = (there, here) if scene.inward else (here, there)
    # The head is drawn by itself, since a row is as wide as its column and a marker would need to know.
    side = "M-13 -4L-6 0L-13 4" if end > start else "M13 -4L6 0L13 4"
    kind = "reads" if scene.inward else "sends"
    return (
        f'<g class="arrow {kind} {hue(told, scene.lane)}"><line x1="{start:g}%" x2="{end:g}%" y1="50%" y2="50%"/>'
        f'<svg x="{end:g}%" y="50%" overflow="visible"><path d="{side}"/></svg></g>'
    )


def page(told: Story) -> str:
    """Write the page. It opens on the step that breaks the property, or on the step its address names."""
    style = _file("page.css").replace("--lanes: 4;", f"--lanes: {len(told.lanes)};")
    script = _file("page.js")
    on = canvas(told.scenes[-1].nodes if told.scenes else ())
    opens = told.opens()
    return Template(_file("page.html")).substitute(
        style=style,
        script=script,
        style_hash=_hash(style),
        script_hash=_hash(script),
        title=escape(f"{told.property} {told.clause}".strip() or "A run"),
        kind="counterexample" if told.breaks else "run",
        heading=_heading(told),
        verdict=_verdict(told),
        bounds=escape(told.bounds),
        table=escape(told.table),
        crowd="many" if len(told.lanes) > _FEW else "few",
        lanes="".join(f'<span class="lane {hue(told, lane)}">{escape(lane)}</span>' for lane in told.lanes),
        steps="".join(_step(told, scene, opens) for scene in told.scenes),
        scenes="".join(_scene(told, scene, opens, on) for scene in told.scenes),
        count=len(told.scenes),
        opens=opens,
        breaks=told.breaks,
    )


#: So many lanes have room for their names side by side.
_FEW = 5


def _heading(told: Story) -> str:
    name = f'<span class="clause">{escape(told.property)}</span> ' if told.property else ""
    return name + escape(_sentence(told.clause) or ("" if told.property else "A run"))


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _verdict(told: Story) -> str:
    if not told.breaks:
        return f'<p class="verdict holds">{escape(told.verdict)}</p>'
    where = f'<a href="#step-{told.breaks}">Broken at step {told.breaks}</a>'
    return f'<p class="verdict broken">{where}: {escape(told.problem)}</p>'


def _step(told: Story, scene: Scene, opens: int) -> str:
    at = scene.number
    broken = " broken" if scene.problem or at == told.breaks else ""
    current = ' aria-current="step"' if at == opens else ""
    rows = " ".join(row.id for row in scene.rows)
    return (
        f'<li class="step{broken}"><a href="#step-{at}"{current}>'
        f'<span class="number">{at}</span>{lanes(told, scene)}'
        f'<span class="what"><b class="{hue(told, scene.lane)}">{escape(scene.lane)}</b> {escape(scene.says)}</span>'
        f'<span class="row">{escape(rows)}</span></a></li>\n'
    )


def _scene(told: Story, scene: Scene, opens: int, on: Canvas) -> str:
    hidden = "" if scene.number == opens else " data-hidden"
    problem = f'<p class="alarm"><b>{escape(told.property)} is broken.</b> {escape(_sentence(scene.problem))}</p>'
    who = f'<b class="{hue(told, scene.lane)}">{escape(scene.lane)}</b>'
    when = f'<span class="when">{escape(scene.when)}</span>' if scene.when else ""
    cards = (
        _card(told, "Tasks", scene.tasks),
        _card(told, "Executions", scene.runs),
        _card(told, "Publications in flight", scene.requests, empty="none"),
        _card(told, "Records", scene.records),
    )
    return (
        f'<article class="scene" id="step-{scene.number}" aria-labelledby="says-{scene.number}"{hidden}>'
        f'<p class="count">Step {scene.number} <span>of {len(told.scenes)}</span>{when}</p>'
        f'<h2 id="says-{scene.number}">{who} {escape(scene.says)}</h2>'
        f"{_rows(scene.rows)}{problem if scene.problem else ''}"
        f"<figure>{commits(told, scene, on)}</figure>"
        f'<div class="cards">{"".join(cards)}</div>'
        "</article>\n"
    )


def _rows(rows: Sequence[Fired]) -> str:
    """Name the rows that fired. A step that only waits or sends fires none, and says so to keep its place."""
    if not rows:
        return '<p class="rows none">no row fires: nobody is told anything</p>'
    return "".join(
        f'<p class="rows"><code>{escape(row.id)}</code> {escape(row.execution)} is told {escape(row.told)}: '
        f"{escape(row.phase)} → {escape(row.next)}{f'. {escape(row.note)}' if row.note else ''}</p>"
        for row in rows[-1:]
    )


def _card(told: Story, title: str, lines: Sequence[Line], *, empty: str = "") -> str:
    if not lines and not empty:
        return ""
    items = "".join(
        f'<li class="{"changed" if line.changed else "same"}"><b class="{hue(told, line.name)}">{escape(line.name)}</b>'
        f'<span class="text">{escape(line.text)}</span>'
        f'<span class="standing {_kind(line.standing)}">{escape(line.standing)}</span></li>'
        for line in lines
    )
    return f'<section class="card"><h3>{title}</h3><ul>{items or f"<li class=empty>{empty}</li>"}</ul></section>'


def _kind(standing: str) -> str:
    """Return the style class of a word; words nobody has a colour for are plain."""
    first = standing.split(" ", 1)[0]
    return first if first in {"accepted", "timed", "failed", "dead", "begun", "sent", "ended"} else "neutral"


@cache
def _file(name: str) -> str:
    return files("perago_report").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
