"""A chart as inline SVG: stacked columns, drawn with nothing but arithmetic, to be styled by the page it is in.

Colours are classes ``hue-0``, ``hue-1`` ...; every part has a title, which browsers show and screen readers read.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from html import escape
from typing import Final

from attrs import frozen

_WIDTH: Final = 860
_HEIGHT: Final = 340
_LEFT: Final = 64
_RIGHT: Final = 8
_TOP: Final = 14
_BOTTOM: Final = 30
#: About so many lines across.
_TICKS: Final = 5
#: Share of its place that a column takes.
_BREADTH: Final = 0.72


@frozen
class Chart:
    """Numbers to be drawn. ``series`` has as many values as there are ``labels``; the first lies at the bottom."""

    title: str
    labels: tuple[str, ...]
    series: Mapping[str, tuple[float, ...]]

    def total(self, at: int) -> float:
        """Return the height of one column."""
        return sum(values[at] for values in self.series.values())


def drawn(chart: Chart) -> str:
    """Return the chart as SVG."""
    highest = max((chart.total(at) for at in range(len(chart.labels))), default=0.0)
    step = tick_step(highest)
    top = step * max(1, math.ceil(highest / step))
    says = escape(f"{chart.title}: {len(chart.labels)} columns of {', '.join(chart.series)}")
    inside = "".join((*_lines(step, top), *_columns(chart, top)))
    return f'<svg class="chart" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{says}">{inside}</svg>'


def tick_step(highest: float) -> float:
    """Return a round number that fits about five times: 1, 2 or 5, and zeros."""
    if highest <= 0:
        return 1.0
    rough = highest / _TICKS
    zeros = 10.0 ** math.floor(math.log10(rough))
    return next(each * zeros for each in (1, 2, 5, 10) if each * zeros >= rough)


def short(value: float) -> str:
    """Write a number as people do on an axis: 250,000 is 250k."""
    for size, sign in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{sign}"
    return f"{value:g}"


def _y(value: float, top: float) -> float:
    return _HEIGHT - _BOTTOM - value / top * (_HEIGHT - _TOP - _BOTTOM)


def _lines(step: float, top: float) -> Iterator[str]:
    for count in range(round(top / step) + 1):
        y = _y(count * step, top)
        yield f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text class="value" x="{_LEFT - 8}" y="{y + 4:.1f}">{short(count * step)}</text>'


def _columns(chart: Chart, top: float) -> Iterator[str]:
    place = (_WIDTH - _LEFT - _RIGHT) / max(1, len(chart.labels))
    breadth = place * _BREADTH
    for at, label in enumerate(chart.labels):
        x = _LEFT + place * at + (place - breadth) / 2
        below = 0.0
        for hue, (name, values) in enumerate(chart.series.items()):
            y, height = _y(below + values[at], top), _y(below, top) - _y(below + values[at], top)
            title = escape(f"{name}, {label}: {values[at]:,.0f}")
            yield (
                f'<rect class="hue-{hue}" x="{x:.1f}" y="{y:.2f}" width="{breadth:.1f}" height="{height:.2f}">'
                f"<title>{title}</title></rect>"
            )
            below += values[at]
        yield f'<text class="label" x="{x + breadth / 2:.1f}" y="{_HEIGHT - 10}">{escape(label)}</text>'
