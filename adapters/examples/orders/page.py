"""The demo's page: what the pipeline came to, whether every promise held, and how it went. It needs nothing else."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from string import Template

from examples.orders.chart import drawn
from examples.orders.result import Result
from examples.orders.story import Ending, Promise


def page(ending: Ending, result: Result, told: Sequence[str], timeline: str) -> str:
    """Write it. ``told`` is the story so far, line by line; ``timeline`` is where every step of it can be seen."""
    folder = files("examples.orders")
    style = (folder / "demo.css").read_text(encoding="utf-8")
    accepted = {each.ref: f"{each.step}, attempt {each.number}" for each in ending.view.attempts if each.ref}
    return Template((folder / "demo.html").read_text(encoding="utf-8")).substitute(
        style=style,
        style_hash="sha256-" + b64encode(hashlib.sha256(style.encode()).digest()).decode(),
        verdict="Every promise held" if ending.held else "A promise was broken",
        mood="holds" if ending.held else "broken",
        title=escape(result.chart.title),
        chart=drawn(result.chart),
        legend=_list(f'<i class="hue-{at}"></i>{escape(name)}' for at, name in enumerate(result.chart.series)),
        promises=_list(map(_promise, ending.promises)),
        rows="".join(
            f'<tr><td><code>{escape(name)}</code></td><td class="number">{count:,}</td></tr>'
            for name, count in result.rows.items()
        ),
        history=_list(
            f"<code>{commit.ref[:8]}</code> {escape(accepted.get(commit.ref, 'the first commit'))}"
            for commit in ending.history
        ),
        story=_list(map(escape, told)),
        timeline=escape(timeline),
    )


def _promise(promise: Promise) -> str:
    found = "" if promise.held else f"; found {promise.found}"
    mood, word = ("holds", "held") if promise.held else ("broken", "broken")
    return f'<b class="{mood}">{word}</b>{escape(promise.says + found)}'


def _list(items: Iterable[str]) -> str:
    return "".join(f"<li>{each}</li>" for each in items)
