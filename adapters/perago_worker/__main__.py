"""``python -m perago_worker`` is ``perago``."""

from perago_worker.cli import app

app()
