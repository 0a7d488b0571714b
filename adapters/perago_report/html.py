"""A run as one HTML page: lanes, the commit graph at each step, what is broken. It needs no network and no server.

Style and script are inline and named by their hashes in the page's own security policy, so nothing else can run.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Sequence
from functools import cache
from html import escape
from importlib.resources import files
from string import Template

from perago_report.drawing import Canvas, canvas, commits, hue, lanes
from perago_report.scenes import Fired, Line, Scene, Story


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
