"""``python -m perago_simulation`` is ``perago``."""

from perago_simulation.cli import app

app()
