"""A run shown to people: as text, as a Mermaid sequence diagram, as one HTML page that needs nothing else.

``story`` turns a run into ``scenes``, what is to be said about it; ``text``, ``mermaid`` and ``html`` only say it.
"""

from __future__ import annotations

from perago_simulation.report.html import page
from perago_simulation.report.mermaid import sequence
from perago_simulation.report.scenes import Story
from perago_simulation.report.story import story
from perago_simulation.report.text import columns

__all__ = ["Story", "columns", "page", "sequence", "story"]
