"""A run shown to people: as text, as a Mermaid sequence diagram, as one HTML page that needs nothing else.

A ``Story`` is a list of scenes. ``timeline`` makes one from the traces of a production run, the simulator makes one
from a simulated run; ``text``, ``mermaid`` and ``html`` show either. Needs nothing beyond the core.
"""

from __future__ import annotations

from perago_report.html import page
from perago_report.mermaid import sequence
from perago_report.scenes import Story
from perago_report.text import columns

__all__ = ["Story", "columns", "page", "sequence"]
